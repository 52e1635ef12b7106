"""Tables of APO against PPO with the `tuned` preset; `quoted_figures.py` writes them.

Scores are returns divided by those of `search_results.REFERENCES`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from csv_rows import Row, rows_of
from curves import Setting, name_of
from markdown_table import table
from run_scores import mean_of, returns_of, rows_of_task
from search_results import REFERENCES, TASKS

from longrun.results.statistics import ends, interquartile_mean, resampled

RESULTS = Path(__file__).parents[1] / "results" / "tuned-3m"
COMPARISON = RESULTS / "scores.csv"
SEEDS = 5
"""of each contestant on each task"""
ADAPTIVE_PPO = RESULTS / "adaptive-ppo.csv"
FRESH = RESULTS / "fresh-seeds.csv"
"""APO with seeds 5 to 9."""


def against_ppo() -> str:
    """APO and PPO after 3M steps: each seed, and means, also of the best checkpoints."""
    heads = (
        "3M steps, `tuned`",
        "return of each seed",
        "mean",
        "reward per step",
        "best checkpoint",
        "best of Tianshou's PPO",
    )
    rows = [
        (
            f"{task} {name_of(setting)}",
            returns_of(own, task),
            mean_of(own, "episode_return"),
            mean_of(own, "average_reward", ".3g"),
            mean_of(own, "best_checkpoint"),
            f"{REFERENCES[task]}",
        )
        for task in TASKS
        for setting, own in contestants(task).items()
    ]
    return table(heads, rows)


def in_short() -> str:
    """The means of APO and PPO .99, a row for each task."""
    heads = (
        "return after 3M steps",
        "seeds",
        "APO",
        "PPO .99",
        "best checkpoints: APO",
        "PPO .99",
        "Tianshou's PPO",
    )
    rows = []
    for task in TASKS:
        found = contestants(task)
        both = [found["apo", ""], found["ppo", "0.99"]]
        columns = "episode_return", "best_checkpoint"
        means = [mean_of(own, column) for column in columns for own in both]
        rows.append((task, f"{min(map(len, both))}", *means, f"{REFERENCES[task]}"))
    return table(heads, rows)


def headline() -> str:
    """APO beside PPO with the task's best discount, and with the one that is best elsewhere.

    Best elsewhere is the discount with the highest score over the other tasks.
    """
    discounts = {key: own for key, own in _scores().items() if key[0] == "ppo"}
    rows = []
    for index, task in enumerate(TASKS):
        means = {key: mean_of(own, "episode_return") for key, own in contestants(task).items()}
        apo = means.pop(("apo", ""))
        best = max(means, key=lambda key: float(means[key]))
        others = np.arange(len(TASKS)) != index
        elsewhere = max(discounts, key=lambda key: interquartile_mean(discounts[key][:, others]))
        named = [f"{means[key]} ({name_of(key).split()[1]})" for key in (best, elsewhere)]
        rows.append((task, apo, *named))
    heads = "return after 3M steps", "APO", "PPO, best discount", "PPO, the discount best elsewhere"
    return table(heads, rows)


def aggregates() -> str:
    """Of each contestant the score over all tasks, how far APO is ahead, and its worst task."""
    return _aggregates("APO", _scores()["apo", ""])


def aggregates_of_fresh_seeds() -> str:
    """The same for APO with seeds 5 to 9 against the same runs of PPO."""
    return _aggregates("APO, seeds 5 to 9", _matrix(rows_of(FRESH), ("apo", "")))


def _aggregates(name: str, apo: np.ndarray) -> str:
    named = {name_of(key): own for key, own in _scores().items() if key[0] == "ppo"}
    for key in sorted({setting_of(row) for row in rows_of(ADAPTIVE_PPO)}):
        named[f"{name_of(key)}, on Swimmer with an adaptive lambda"] = _adaptive_on_swimmer(key)
    left_out = "Swimmer-v5", "Humanoid-v5"
    without = [np.array([task != each for task in TASKS]) for each in left_out]
    rows = [(name, f"{interquartile_mean(apo):.2f}", "", "", "", "", _worst(apo))]
    for rival, own in named.items():
        leads = [_lead(apo, own), *(_lead(apo[:, kept], own[:, kept]) for kept in without)]
        ratio = "{:.2f} [{:.2f}, {:.2f}]".format(*times(apo, own))
        rows.append((rival, f"{interquartile_mean(own):.2f}", *leads, ratio, _worst(own)))
    heads = (
        "score",
        "APO's is higher by",
        "without Swimmer",
        "without Humanoid",
        "geometric means: APO's divided by its",
        "worst task",
    )
    return table(("all tasks, 3M steps", *heads), rows)


def _worst(scores: np.ndarray) -> str:
    means = scores.mean(0)
    return f"{TASKS[means.argmin()]} {means.min():.2f}"


def fresh_seeds() -> str:
    """APO with seeds that no version of lambda had seen, beside those of the comparison."""
    fresh, rows = rows_of(FRESH), []
    for task in TASKS:
        if own := rows_of_task(fresh, task):
            both = contestants(task)["apo", ""], own
            cells = [(returns_of(each, task), mean_of(each, "episode_return")) for each in both]
            rows.append((task, *cells[0], *cells[1]))
    heads = "seeds 0 to 4", "mean", "seeds 5 to 9", "mean"
    return table(("APO, return after 3M steps", *heads), rows)


def _lead(scores: np.ndarray, others: np.ndarray) -> str:
    return "{:+.2f} [{:+.2f}, {:+.2f}]".format(*ahead(scores, others))


def _adaptive_on_swimmer(setting: Setting) -> np.ndarray:
    """Scores [seeds, tasks] of PPO, those on Swimmer-v5 from the runs with an adaptive lambda."""
    scores, column = _scores()[setting].copy(), TASKS.index("Swimmer-v5")
    scores[:, column] = _matrix(rows_of(ADAPTIVE_PPO), setting)[:, column]
    return scores


def ahead(scores: np.ndarray, others: np.ndarray) -> tuple[float, float, float]:
    """Difference of the interquartile means of scores [seeds, tasks]: estimate, low, high."""
    return _with_interval(
        lambda own, other: interquartile_mean(own) - interquartile_mean(other),
        scores,
        others,
        np.hstack([scores, others]),
    )


def times(scores: np.ndarray, others: np.ndarray) -> tuple[float, float, float]:
    """Ratio of the geometric means over tasks of the mean scores: estimate, low, high."""

    def ratio(own: np.ndarray, other: np.ndarray) -> np.ndarray:
        means = [np.log(each.mean(-2)).mean(-1) for each in (own, other)]
        return np.exp(means[0] - means[1])

    relative = [each / each.mean(0) for each in (scores, others)]
    return _with_interval(ratio, scores, others, np.hstack(relative))


def _with_interval(
    compared: Callable[[np.ndarray, np.ndarray], Any],
    scores: np.ndarray,
    others: np.ndarray,
    groups: np.ndarray,
) -> tuple[float, float, float]:
    """A comparison with its bootstrap interval; seeds are drawn anew for each task and side.

    `groups` [seeds, tasks of both sides] have the spreads that the comparison depends on.
    """
    rng = np.random.default_rng(0)
    drawn = [resampled(own, rng) for own in (scores, others)]
    low, high = ends(compared(*drawn), groups)
    return float(compared(scores, others)), float(low), float(high)


def _scores() -> dict[Setting, np.ndarray]:
    """Scores [seeds, tasks] of each contestant, NaN where there is none; APO first."""
    rows = rows_of(COMPARISON)
    return {key: _matrix(rows, key) for key in settings()}


def _matrix(rows: list[Row], setting: Setting) -> np.ndarray:
    """Scores [seeds, tasks] of one contestant, NaN where there is none; seeds 0 to 4, or 5 to 9."""
    own = [row for row in rows if setting_of(row) == setting]
    scores = np.full((SEEDS, len(TASKS)), np.nan)
    for row in own:
        score = float(row["episode_return"]) / REFERENCES[row["env"]]
        scores[int(row["seed"]) % SEEDS, TASKS.index(row["env"])] = score
    return scores


def setting_of(row: Row) -> Setting:
    return row["algorithm"], row["discount"]


def settings() -> list[Setting]:
    """All contestants: APO first, then PPO by its discount."""
    return sorted({setting_of(row) for row in rows_of(COMPARISON)})


def contestants(task: str) -> dict[Setting, list[Row]]:
    """Rows of each on a task: APO first, then PPO by its discount."""
    found: dict[Setting, list[Row]] = {}
    for row in rows_of(COMPARISON):
        if row["env"] == task:
            found.setdefault(setting_of(row), []).append(row)
    return dict(sorted(found.items()))
