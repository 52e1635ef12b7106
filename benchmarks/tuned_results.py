"""Tables of APO against PPO with the `tuned` preset; `quoted_figures.py` writes them.

APO has seeds 0 to 9, PPO with each discount seeds 0 to 4. Scores are returns divided by the mean
return of PPO with a discount of 0.99 on the same task. The aggregate is the interquartile mean of
the scores of all seeds and tasks, which is also that of `longrun compare`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from csv_rows import Row, rows_of
from curves import Setting, name_of
from decomposition_results import change, percent
from markdown_table import table
from run_scores import mean_of, rows_of_task
from search_results import TASKS

from longrun.lab.results.statistics import (
    as_matrix,
    ends,
    interquartile_mean,
    normalised,
    resampled,
)

RESULTS = Path(__file__).parents[1] / "results" / "tuned-3m"
COMPARISON = RESULTS / "scores.csv"
"""Seeds 0 to 4 of all contestants."""
FRESH = RESULTS / "fresh-seeds.csv"
"""APO with seeds 5 to 9."""
FIRST_FRESH = 5
ADAPTIVE_PPO = RESULTS / "adaptive-ppo.csv"
APO: Setting = ("apo", "")
REFERENCE: Setting = ("ppo", "0.99")
"""Its mean return on a task is 1."""


def against_ppo() -> str:
    """APO and PPO after 3M steps: each seed, and means, also of the best checkpoints."""
    heads = ("return of each seed", "mean", "reward per step", "best checkpoint")
    rows = [
        (
            f"{task} {name_of(setting)}",
            each_seed(own),
            mean_of(own, "episode_return"),
            mean_of(own, "average_reward", ".3g"),
            mean_of(own, "best_checkpoint"),
        )
        for task in TASKS
        for setting, own in contestants(task).items()
    ]
    return table(("3M steps, `tuned`", *heads), rows)


def each_seed(rows: list[Row]) -> str:
    """Final scores in the order of seeds; a semicolon is before seed 5."""
    parts = [
        ", ".join(f"{float(row['episode_return']):.0f}" for row in part)
        for part in ([r for r in rows if not is_fresh(r)], [r for r in rows if is_fresh(r)])
    ]
    return "; ".join(part for part in parts if part)


def is_fresh(row: Row) -> bool:
    return int(row["seed"]) >= FIRST_FRESH


def in_short() -> str:
    """The means of APO and PPO 0.99, a row for each task."""
    columns = "episode_return", "best_checkpoint"
    rows = []
    for task in TASKS:
        both = [contestants(task)[key] for key in (APO, REFERENCE)]
        rows.append((task, *(mean_of(own, column) for column in columns for own in both)))
    heads = "APO", "PPO 0.99", "best checkpoints: APO", "PPO 0.99"
    return table(("return after 3M steps", *heads), rows)


def headline() -> str:
    """Percent of the best contestant's mean on each task, and of each contestant the worst task."""
    shares = shares_of_best()
    rows = [(task, *(f"{own[task]:.0f} %" for own in shares.values())) for task in TASKS]
    worst = [f"**{min(own.values()):.0f} %**" for own in shares.values()]
    rows.append(("**worst task**", *worst))
    return table(("percent of the best return", *map(name_of, shares)), rows)


def headline_scores() -> str:
    """The aggregate of each contestant in a sentence, for the README."""
    scores = {key: interquartile_mean(scores_of(rows_of_contestant(key))) for key in settings()}
    each = ", ".join(f"{name_of(key)} {score:.2f}" for key, score in scores.items())
    return f"Interquartile mean of return / mean return of PPO 0.99 on the same robot: {each}."


def other_scale() -> str:
    """The interquartile mean with the scale of `longrun compare`, as a sentence."""
    tasks = {task: contestants(task) for task in TASKS}
    found = {key: as_matrix([returns(own[key]) for own in tasks.values()]) for key in settings()}
    scores = {key: interquartile_mean(own) for key, own in normalised(found).items()}
    each = ", ".join(f"{name_of(key)} {score:.2f}" for key, score in scores.items())
    scale = "the scale of `longrun compare`, 0 for the lowest seed of a task and 1 for the highest"
    return f"With {scale}: {each}."


def headline_returns() -> str:
    """The same as mean returns; of PPO also how far APO's mean is above or below."""
    rows = []
    for task in TASKS:
        found = contestants(task)
        apo = returns(found.pop(APO))
        others = {key: returns(own) for key, own in found.items()}
        leads = [percent(change(apo, own)) for own in others.values()]
        means = [f"{own.mean():.0f}" for own in others.values()]
        cells = [f"{mean}: {lead}" for mean, lead in zip(means, leads, strict=True)]
        rows.append((task, f"{apo.mean():.0f}", *cells))
    shares = shares_of_best()
    worst = {key: min(own, key=lambda task: own[task]) for key, own in shares.items()}
    named = [
        f"{shares[key][task]:.0f} % ({task.removesuffix('-v5')})" for key, task in worst.items()
    ]
    rows.append(("worst task, percent of the best", *named))
    heads = [name_of(key) + (": APO's is higher by" if key != APO else "") for key in shares]
    return table(("mean return after 3M steps", *heads), rows)


def shares_of_best() -> dict[Setting, dict[str, float]]:
    """Of each contestant its mean on each task, in percent of the highest of all contestants."""
    means = {
        task: {key: returns(own).mean() for key, own in contestants(task).items()} for task in TASKS
    }
    return {
        key: {task: 100 * means[task][key] / max(means[task].values()) for task in TASKS}
        for key in settings()
    }


def aggregates() -> str:
    """Of each contestant the score over all tasks, and how far APO is ahead."""
    apo = scores_of(rows_of_contestant(APO))
    rivals = {name_of(key): own for key, own in _rivals().items()}
    for key in sorted({setting_of(row) for row in rows_of(ADAPTIVE_PPO)}):
        rivals[f"{name_of(key)}, on Swimmer with an adaptive lambda"] = _adaptive_on_swimmer(key)
    left_out = "Swimmer-v5", "Humanoid-v5"
    without = [np.array([task != each for task in TASKS]) for each in left_out]
    rows = [("APO", f"{interquartile_mean(apo):.2f}", "", "", "")]
    for rival, own in rivals.items():
        leads = [_lead(apo, own), *(_lead(apo[:, kept], own[:, kept]) for kept in without)]
        rows.append((rival, f"{interquartile_mean(own):.2f}", *leads))
    heads = "score", "APO's is higher by", "without Swimmer", "without Humanoid"
    return table(("interquartile mean, all tasks, 3M steps", *heads), rows)


def _rivals() -> dict[Setting, np.ndarray]:
    return {key: scores_of(rows_of_contestant(key)) for key in settings() if key != APO}


def fresh_seeds() -> str:
    """APO with seeds that no version of lambda had seen, beside those that were looked at."""
    rows = []
    for task in TASKS:
        own = contestants(task)[APO]
        halves = [[row for row in own if is_fresh(row) == fresh] for fresh in (False, True)]
        rows.append((task, *(mean_of(half, "episode_return") for half in (*halves, own))))
    apo = rows_of_contestant(APO)
    halves = [[row for row in apo if is_fresh(row) == fresh] for fresh in (False, True)]
    groups = [scores_of(each) for each in (*halves, apo)]
    rows.append(("score, all tasks", *(f"{interquartile_mean(own):.2f}" for own in groups)))
    for key, rival in _rivals().items():
        rows.append((f"higher than {name_of(key)} by", *(_lead(own, rival) for own in groups)))
    return table(("APO, 3M steps", "seeds 0 to 4", "seeds 5 to 9", "all ten"), rows)


def _lead(scores: np.ndarray, others: np.ndarray) -> str:
    return "{:+.2f} [{:+.2f}, {:+.2f}]".format(*ahead(scores, others))


def _adaptive_on_swimmer(setting: Setting) -> np.ndarray:
    """Scores [seeds, tasks] of PPO, those on Swimmer-v5 from the runs with an adaptive lambda."""
    task = "Swimmer-v5"
    others = [row for row in rows_of_contestant(setting) if row["env"] != task]
    adaptive = [row for row in rows_of(ADAPTIVE_PPO) if setting_of(row) == setting]
    return scores_of(others + rows_of_task(adaptive, task))


def ahead(scores: np.ndarray, others: np.ndarray) -> tuple[float, float, float]:
    """Difference of the interquartile means of scores [seeds, tasks]: estimate, low, high.

    Its bootstrap draws seeds anew for each task and side. What scores are divided by is taken as
    given.
    """
    rng = np.random.default_rng(0)
    drawn = [interquartile_mean(resampled(own, rng)) for own in (scores, others)]
    low, high = ends(drawn[0] - drawn[1], as_matrix([*scores.T, *others.T]))
    return float(interquartile_mean(scores) - interquartile_mean(others)), float(low), float(high)


def scores_of(rows: list[Row]) -> np.ndarray:
    """Scores [seeds, tasks] of one contestant, NaN where a task has fewer seeds than others."""
    means = {task: returns(contestants(task)[REFERENCE]).mean() for task in TASKS}
    return as_matrix([returns(rows_of_task(rows, task)) / means[task] for task in TASKS])


def returns(rows: list[Row]) -> np.ndarray:
    """Final returns [seeds]."""
    return np.array([float(row["episode_return"]) for row in rows])


def setting_of(row: Row) -> Setting:
    return row["algorithm"], row["discount"]


def settings() -> list[Setting]:
    """All contestants: APO first, then PPO by its discount."""
    return sorted({setting_of(row) for row in rows_of(COMPARISON)})


def rows_of_contestant(setting: Setting) -> list[Row]:
    """Of all tasks; APO with its ten seeds."""
    return [row for row in rows_of(COMPARISON) + rows_of(FRESH) if setting_of(row) == setting]


def contestants(task: str) -> dict[Setting, list[Row]]:
    """Rows of each on a task, by seed: APO first, then PPO by its discount."""
    return {key: rows_of_task(rows_of_contestant(key), task) for key in settings()}
