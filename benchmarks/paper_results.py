"""Tables of the paper's experiments, from the files of results; `quoted_figures.py` writes them.

Scores are returns of the deterministic policy: the mean over the evaluations of the last tenth of
training. Intervals are nominal 95 % intervals of a bootstrap over seeds, within each setting.

    python benchmarks/paper_results.py SWEEP ... results/figure2-raw/swimmer-3m.csv

writes the file of Figure 2 from sweeps over nu.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from csv_rows import rows_of, write_rows
from curves import name_of, read_curves, scores

RESULTS = Path(__file__).parents[1] / "results"
RESAMPLES = 4000
AUTHORS = {
    "Swimmer-v5": {"0.9": 38, "0.95": 38, "0.99": 53, "0.999": 190},
    "HalfCheetah-v5": {"0.9": 1690, "0.95": 1650, "0.99": 1510, "0.999": -110},
}
"""Returns of PPO after 3M steps with each discount, read off the authors' notebooks."""
CURVES = {
    "Swimmer-v5": RESULTS / "figure1-raw" / "swimmer-3m.csv",
    "HalfCheetah-v5": RESULTS / "figure1-raw" / "halfcheetah-3m.csv",
}
"""The curves of Figure 1."""
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


def clipped(env: str, discount: str) -> float:
    """The mean return after 1M steps with actions clipped before the environment; "": APO."""
    rows = [row for row in rows_of(RESULTS / "figure1" / "figure1.csv") if row["env"] == env]
    wanted = "ppo" if discount else "apo"
    (found,) = (
        float(row["episode_return"])
        for row in rows
        if row["algorithm"] == wanted
        and (not discount or f"discount={discount}" in row["options"].split())
    )
    return found


def figure1() -> str:
    """Each seed of each curve of Figure 1, beside the authors' figures and the older ones."""
    lines = [
        "| return after 3M steps, raw actions | each seed | mean | the authors' notebooks"
        " | older: clipped actions, 1M, mean |",
        "|---|---|---|---|---|",
    ]
    for env, path in CURVES.items():
        for setting, curves in read_curves(path).items():
            _, discount = setting
            theirs = AUTHORS[env].get(discount, "ahead of all")
            final = scores(curves)
            shown = ", ".join(_number(x) for x in final)
            older = _number(clipped(env, discount))
            cells = (
                f"{env} {name_of(setting)}",
                shown,
                _number(float(np.mean(final))),
                f"{theirs}",
                older,
            )
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def figure2() -> str:
    """Returns and the average value with each weight of the constraint."""
    lines = [
        "| 3M steps, raw actions | nu | return of each seed | mean | rms of the average value |",
        "|---|---|---|---|---|",
    ]
    for path in sorted((RESULTS / "figure2-raw").glob("*.csv")):
        for row in rows_of(path):
            values = [float(x) for x in row["episode_return"].split()]
            shown = ", ".join(_number(x) for x in values)
            mean = _number(float(np.mean(values)))
            drift = [float(x) for x in row["rms_value_mean"].split()]
            spread = f"{min(drift):.0f} to {max(drift):.0f}"
            cells = (row["env"], row["value_constraint"], shown, mean, spread)
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _number(value: float) -> str:
    return f"{value:.0f}" if abs(value) < 1e5 else f"{value / 1e6:.2f}e6"


# --- the decomposition ----------------------------------------------------------------------


def cells(env: str, algorithm: str, constraint: str) -> np.ndarray:
    """[2, 2, 2, seeds] final returns: the three factors, then the seeds."""
    found = {}
    for row in rows_of(RESULTS / "decomposition" / "scores.csv"):
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

    def resampled(values: np.ndarray) -> np.ndarray:
        rows = values.reshape(-1, values.shape[-1])
        drawn = rng.integers(rows.shape[1], size=(RESAMPLES, *rows.shape))
        return np.take_along_axis(rows[None], drawn, axis=-1).mean((1, 2))

    ratios = resampled(better) / resampled(worse) - 1
    low, high = np.quantile(ratios, (0.025, 0.975))
    return float(better.mean() / worse.mean() - 1), float(low), float(high)


def halves(values: np.ndarray) -> dict[str, np.ndarray]:
    """Choice of a factor -> the [2, 2, seeds] scores with it."""
    return {
        choice: values.take(index, axis=axis)
        for axis, (_, *choices) in enumerate(FACTORS)
        for index, choice in enumerate(choices)
    }


def decomposition() -> str:
    """With each choice: what the constraint adds, and how far APO is ahead of PPO."""
    lines = [
        "| 1M steps, five seeds | HalfCheetah: nu 1 against 0 | APO against PPO .9 "
        "| Swimmer: nu .3 against 0 | APO against PPO .999 |",
        "|---|---|---|---|---|",
    ]
    columns: list[dict[str, str]] = []
    for env, (constraint, _) in BEST.items():
        without, apo, ppo = (
            cells(env, "apo", "0.0"),
            cells(env, "apo", constraint),
            cells(env, "ppo", ""),
        )
        for rival in (without, ppo):
            pairs = {"all": (apo, rival)} | {
                choice: (part, halves(rival)[choice]) for choice, part in halves(apo).items()
            }
            columns.append({choice: _percent(change(*pair)) for choice, pair in pairs.items()})
    for choice in columns[0]:
        name = WORDS.get(choice, "all eight combinations")
        lines.append(f"| {name} | {' | '.join(column[choice] for column in columns)} |")
    return "\n".join(lines)


def effects() -> str:
    """What each of the authors' choices does to each contestant."""
    lines = [
        "| 1M steps, five seeds | raw against clipped | tanh against free mean "
        "| leaking against right time limit |",
        "|---|---|---|---|",
    ]
    for env, (constraint, rival) in BEST.items():
        contestants = (
            ("APO, nu 0", cells(env, "apo", "0.0")),
            (f"APO, nu {constraint.removesuffix('.0').lstrip('0')}", cells(env, "apo", constraint)),
            (rival, cells(env, "ppo", "")),
        )
        for name, values in contestants:
            part = halves(values)
            shown = [_percent(change(part[new], part[old])) for _, old, new in FACTORS]
            lines.append(f"| {env}, {name} | {' | '.join(shown)} |")
    return "\n".join(lines)


def _percent(values: Sequence[float]) -> str:
    estimate, low, high = (100 * x for x in values)
    return f"{estimate:+.0f} % [{low:+.0f}, {high:+.0f}]"


# --- the files ------------------------------------------------------------------------------


def with_constraint(sweeps: Sequence[Path]) -> list[dict[str, str]]:
    """Final returns and the root mean square of the average value, a row for each nu."""
    from longrun import read_results
    from longrun.results.read import read_metrics
    from longrun.results.statistics import scores_of

    drifts = {}
    for setting in read_metrics(sweeps, ["value_mean"]):
        squares = setting.values["value_mean"] ** 2
        drifts[setting.choice.options["value_constraint"]] = np.sqrt(squares.mean(0))
    rows = []
    for setting in read_results(sweeps):
        strength = setting.choice.options["value_constraint"]
        rows.append(
            {
                "env": setting.env,
                "value_constraint": f"{strength:g}",
                "seeds": " ".join(map(str, setting.seeds)),
                "episode_return": _numbers(scores_of(setting, "episode_return")[0]),
                "rms_value_mean": _numbers(drifts[strength]),
            }
        )
    return sorted(rows, key=lambda row: float(row["value_constraint"]))


def _numbers(values: np.ndarray) -> str:
    return " ".join(f"{x:.1f}" for x in values)


if __name__ == "__main__":
    *sweeps, out = map(Path, sys.argv[1:])
    found = with_constraint(sweeps)
    write_rows(out, found)
