"""Tables of the decomposition: which of the authors' choices makes which claim?

`quoted_figures.py` writes them. Scores are returns of the deterministic policy: the mean over the
evaluations of the last tenth of training. Intervals are nominal 95 % intervals of a bootstrap over
seeds, within each combination of choices, and as wide as few seeds ask for.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from csv_rows import rows_of
from markdown_table import table

from longrun.lab.results.statistics import REPETITIONS, as_matrix, ends

SCORES = Path(__file__).parents[1] / "results" / "decomposition" / "scores.csv"
FACTORS = (
    ("action_bounds", "clip", "raw"),
    ("mean", "free", "tanh"),
    ("time_limit", "bootstrap", "as_termination"),
)
"""What the decomposition varies: the column, our older or right choice, the authors'."""
WORDS = {
    "clip": "clipped actions",
    "raw": "raw actions",
    "free": "free mean",
    "tanh": "mean through tanh",
    "bootstrap": "right time limit",
    "as_termination": "leaking time limit",
}
BEST = {"HalfCheetah-v5": ("1.0", "PPO .9"), "Swimmer-v5": ("0.3", "PPO .999")}
"""Of each task the constraint of the authors' best setting, and the rival."""


def cells(env: str, algorithm: str, constraint: str) -> np.ndarray:
    """[2, 2, 2, seeds] final returns: the three factors, then the seeds."""
    found = {}
    for row in rows_of(SCORES):
        if (row["env"], row["algorithm"], row["value_constraint"]) == (env, algorithm, constraint):
            index = tuple(choices.index(row[name]) for name, *choices in FACTORS)
            found[*index, int(row["seed"])] = float(row["final_return"])
    seeds = 1 + max(index[-1] for index in found)
    values = np.full((2, 2, 2, seeds), np.nan)
    for index, value in found.items():
        values[index] = value
    return values


def change(better: np.ndarray, worse: np.ndarray) -> tuple[float, float, float]:
    """By which fraction the mean of one [..., seeds] exceeds the other's: estimate, low, high.

    Seeds are drawn anew within each combination of the factors.
    """
    rng = np.random.default_rng(0)

    def resampled(rows: np.ndarray) -> np.ndarray:
        drawn = rng.integers(rows.shape[1], size=(REPETITIONS, *rows.shape))
        return np.take_along_axis(rows[None], drawn, axis=-1).mean((1, 2))

    sides = [values.reshape(-1, values.shape[-1]) for values in (better, worse)]
    means = [resampled(rows) for rows in sides]
    groups = as_matrix([seeds / rows.mean() for rows in sides for seeds in rows])  # of a ratio
    low, high = ends(means[0] / means[1] - 1, groups)
    return float(better.mean() / worse.mean() - 1), float(low), float(high)


def halves(values: np.ndarray) -> dict[str, np.ndarray]:
    """Choice of a factor -> the [2, 2, seeds] scores with it."""
    return {
        choice: values.take(index, axis=axis)
        for axis, (_, *choices) in enumerate(FACTORS)
        for index, choice in enumerate(choices)
    }


def claims() -> str:
    """With each choice: what the constraint adds, and how far APO is ahead of PPO."""
    heads = (
        "1M steps, five seeds",
        "HalfCheetah: nu 1 against 0",
        "APO against PPO .9",
        "Swimmer: nu .3 against 0",
        "APO against PPO .999",
    )
    columns: list[dict[str, str]] = []
    for env, (constraint, _) in BEST.items():
        apo = cells(env, "apo", constraint)
        for rival in (cells(env, "apo", "0.0"), cells(env, "ppo", "")):
            pairs = {"all": (apo, rival)} | {
                choice: (part, halves(rival)[choice]) for choice, part in halves(apo).items()
            }
            columns.append({choice: percent(change(*pair)) for choice, pair in pairs.items()})
    rows = [
        (WORDS.get(choice, "all eight combinations"), *(column[choice] for column in columns))
        for choice in columns[0]
    ]
    return table(heads, rows)


def effects() -> str:
    """What each of the authors' choices does to each contestant."""
    heads = (
        "1M steps, five seeds",
        "raw against clipped",
        "tanh against free mean",
        "leaking against right time limit",
    )
    rows = []
    for env, (constraint, rival) in BEST.items():
        contestants = (
            ("APO, nu 0", cells(env, "apo", "0.0")),
            (f"APO, nu {constraint.removesuffix('.0').lstrip('0')}", cells(env, "apo", constraint)),
            (rival, cells(env, "ppo", "")),
        )
        for name, values in contestants:
            part = halves(values)
            shown = [percent(change(part[new], part[old])) for _, old, new in FACTORS]
            rows.append((f"{env}, {name}", *shown))
    return table(heads, rows)


def percent(values: Sequence[float]) -> str:
    """Such as "+18 % [+3, +36]", from fractions."""
    estimate, low, high = (100 * x for x in values)
    return f"{estimate:+.0f} % [{low:+.0f}, {high:+.0f}]"
