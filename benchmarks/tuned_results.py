"""Tables of APO against PPO with the `tuned` preset; `quoted_figures.py` writes them.

Scores are returns divided by those of `search_results.REFERENCES`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from csv_rows import Row, rows_of
from curves import Setting, name_of
from markdown_table import table
from run_scores import returns_of
from search_results import REFERENCES, TASKS

from longrun.results.statistics import interquartile_mean, resampled

RESULTS = Path(__file__).parents[1] / "results" / "tuned-3m"
COMPARISON = RESULTS / "scores.csv"
SEEDS = 5
LAMBDA = RESULTS / "lambda.csv"
FIXED_LAMBDA = RESULTS / "fixed-lambda.csv"
"""APO before lambda adapted, and before the rise of the reset cost was slowed, which of the runs of
`COMPARISON` matters in one alone (Hopper, seed 2)."""


def against_ppo() -> str:
    """APO and PPO after 3M steps: each seed, the mean, and the mean of the best checkpoints."""
    heads = "3M steps, `tuned`", "each seed", "mean", "best checkpoint", "best of Tianshou's PPO"
    rows = [
        (
            f"{task} {name_of(setting)}",
            returns_of(own, task),
            _mean(own, "episode_return"),
            _mean(own, "best_checkpoint"),
            f"{REFERENCES[task]}",
        )
        for task in TASKS
        for setting, own in _contestants(task).items()
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
        found = _contestants(task)
        both = [found["apo", ""], found["ppo", "0.99"]]
        columns = "episode_return", "best_checkpoint"
        means = [_mean(own, column) for column in columns for own in both]
        rows.append((task, f"{min(map(len, both))}", *means, f"{REFERENCES[task]}"))
    return table(heads, rows)


def headline() -> str:
    """APO beside PPO with the task's best discount, and with the one that is best elsewhere.

    Best elsewhere is the discount with the highest score over the other tasks, of those that were
    run on all.
    """
    everywhere, rows = _complete(_scores()), []
    for index, task in enumerate(TASKS):
        means = {key: own[:, index].mean() * REFERENCES[task] for key, own in _scores().items()}
        apo = means.pop(("apo", ""))
        best = max((key for key in means if np.isfinite(means[key])), key=means.__getitem__)
        others = [key for key in everywhere if key in means]
        elsewhere = max(others, key=lambda key: _without(everywhere[key], index))
        named = [f"{means[key]:.0f} ({key[1].lstrip('0')})" for key in (best, elsewhere)]
        rows.append((task, f"{apo:.0f}", *named))
    heads = "return after 3M steps", "APO", "PPO, best discount", "PPO, the discount best elsewhere"
    return table(heads, rows)


def aggregates() -> str:
    """Of each contestant the score over all tasks, how far APO is ahead, and its worst task."""
    scores = _complete(_scores())
    apo = scores["apo", ""]
    rows = []
    for key, own in scores.items():
        means = own.mean(0)
        lead = "" if own is apo else "{:+.2f} [{:+.2f}, {:+.2f}]".format(*ahead(apo, own))
        worst = f"{TASKS[means.argmin()]} {means.min():.2f}"
        rows.append((name_of(key), f"{interquartile_mean(own):.2f}", lead, worst))
    return table(("all tasks, 3M steps", "score", "APO's is higher by", "worst task"), rows)


def adapted_tasks() -> list[str]:
    """The tasks on which APO was run with a lambda that adapts."""
    known = {row["env"] for row in rows_of(LAMBDA)}
    return [task for task in TASKS if task in known]


def ablation() -> str:
    """What the adaptive lambda gives, on the tasks that were run with it."""
    scores, fixed = rows_of(COMPARISON), rows_of(FIXED_LAMBDA)
    rows = []
    for task in adapted_tasks():
        pair = [
            [row for row in own if (row["env"], *_setting(row)) == (task, "apo", "")]
            for own in (scores, fixed)
        ]
        rows.append((task, *(cell for own in pair for cell in _each_and_mean(own, task))))
    heads = "APO, 3M steps", "lambda from .99 down to .9", "mean", "lambda .9", "mean"
    return table(heads, rows)


def _each_and_mean(rows: list[Row], task: str) -> tuple[str, str]:
    return returns_of(rows, task), _mean(rows, "episode_return")


def ahead(scores: np.ndarray, others: np.ndarray) -> tuple[float, float, float]:
    """Difference of the interquartile means of scores [seeds, tasks]: estimate, low, high.

    Seeds are drawn anew for each task and contestant.
    """
    rng = np.random.default_rng(0)
    drawn = [interquartile_mean(resampled(own, rng)) for own in (scores, others)]
    low, high = np.quantile(drawn[0] - drawn[1], (0.025, 0.975))
    estimate = interquartile_mean(scores) - interquartile_mean(others)
    return float(estimate), float(low), float(high)


def _scores() -> dict[Setting, np.ndarray]:
    """Scores [seeds, tasks] of each contestant, NaN where there is none; APO first."""
    rows = rows_of(COMPARISON)
    return {key: _matrix(rows, key) for key in sorted({_setting(row) for row in rows})}


def _complete(scores: dict[Setting, np.ndarray]) -> dict[Setting, np.ndarray]:
    """The contestants with all seeds on all tasks."""
    return {key: own for key, own in scores.items() if np.isfinite(own).all()}


def _without(scores: np.ndarray, task: int) -> float:
    """The score over all tasks but one."""
    return float(interquartile_mean(np.delete(scores, task, axis=1)))


def _matrix(rows: list[Row], setting: Setting) -> np.ndarray:
    """Scores [seeds, tasks] of one contestant, NaN where there is none."""
    own = [row for row in rows if _setting(row) == setting]
    scores = np.full((SEEDS, len(TASKS)), np.nan)
    for row in own:
        score = float(row["episode_return"]) / REFERENCES[row["env"]]
        scores[int(row["seed"]), TASKS.index(row["env"])] = score
    return scores


def _setting(row: Row) -> Setting:
    return row["algorithm"], row["discount"]


def _contestants(task: str) -> dict[Setting, list[Row]]:
    """Rows of each on a task: APO first, then PPO by its discount."""
    found: dict[Setting, list[Row]] = {}
    for row in rows_of(COMPARISON):
        if row["env"] == task:
            found.setdefault(_setting(row), []).append(row)
    return dict(sorted(found.items()))


def _mean(rows: list[Row], column: str) -> str:
    return f"{np.mean([float(row[column]) for row in rows]):.0f}"
