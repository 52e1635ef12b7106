"""Tables of the `tuned` preset: how it was chosen, and APO against PPO; `quoted_figures.py` writes
them.

Scores are returns divided by those of `search_results.REFERENCES`.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
from csv_rows import Row, rows_of
from curves import Setting, name_of
from search_results import REFERENCES, TASKS

from longrun.results.statistics import interquartile_mean

RESULTS = Path(__file__).parents[1] / "results"
CHOICE, TRIED = RESULTS / "search" / "choice.csv", RESULTS / "search" / "leads.csv"
COMPARISON = RESULTS / "tuned-3m" / "scores.csv"
RESAMPLES = 4000
SETTINGS = {
    "T": "lambda .95, 10 x 200, minibatch 100, 10 epochs",
    "L": "lambda .9, 2 x 1000, minibatch 50, 5 epochs",
}
"""Names of the runs: earlier `tuned` with an initial log standard deviation of -1, and the new."""
LEADS = {
    "f03": "observations divided by a standard deviation of at least .3",
    "f10": "the same, at least 1",
    "v99": "value targets with lambda .99",
    "v100": "value targets with lambda 1",
    "rec": "`recompute_advantages`",
    "vh": "value network of 256 x 256 units",
    "td": "`gain_estimate=td`",
    "c30": "reset cost of at most 30 mean absolute rewards",
    "c100": "at most 100",
    "c300": "at most 300",
    "step.1": "`reset_cost_step_size=0.1`",
    "fix500": "`reset_cost=500`, fixed",
    "g": "`max_grad_norm=0.5`",
    "ppog": "PPO: `max_grad_norm=0.5`",
    "ppo999": "PPO: a discount of .999",
    "s99": "reward scale by sums with a decay of .99 instead of lambda",
    "s997": "by sums with a decay of .997",
    "s99g": "decay of .99 and `max_grad_norm=0.5`",
    "st": "reward scale by the spread of value targets",
}
"""Names of the runs, and what they change."""


def choice() -> str:
    """Both settings for both algorithms: the returns of both seeds on each task, and the score."""
    names = [task.removesuffix("-v5") for task in TASKS]
    lines = [
        f"| 1M steps, seeds 103, 104 | {' | '.join(names)} | score |",
        "|" + "---|" * (2 + len(names)),
    ]
    rows = rows_of(CHOICE)
    for algorithm in ("apo", "ppo"):
        for name, words in SETTINGS.items():
            own = [row for row in rows if row["setting"] == f"{algorithm}_{name}"]
            cells = [_returns(own, task) for task in TASKS]
            scores = [[float(row["episode_return"]) / REFERENCES[row["env"]]] for row in own]
            score = float(interquartile_mean(np.array(scores)))
            lines.append(f"| {algorithm.upper()}, {words} | {' | '.join(cells)} | {score:.2f} |")
    return "\n".join(lines)


def leads() -> str:
    """What else was tried: returns on each task, in the order of seeds."""
    names = [task.removesuffix("-v5") for task in TASKS]
    lines = [f"| steps | change | {' | '.join(names)} |", "|" + "---|" * (2 + len(names))]
    found: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows_of(TRIED):
        found[row["steps"], row["setting"]].append(row)
    order = {name: place for place, name in enumerate(LEADS)}

    def place(key: tuple[str, str]) -> tuple[int, bool, int]:
        return int(key[0]), key[1].startswith("T_"), order[_lead(key[1])]

    for steps, setting in sorted(found, key=place):
        words = LEADS[_lead(setting)] + (" (earlier preset)" if setting.startswith("T_") else "")
        cells = [_returns(found[steps, setting], task) for task in TASKS]
        lines.append(f"| {int(steps) // 1000}k | {words} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _lead(setting: str) -> str:
    return setting.removeprefix("T_").removeprefix("L_")


def _returns(rows: list[Row], task: str) -> str:
    """In the order of seeds."""
    own = sorted((row for row in rows if row["env"] == task), key=lambda row: int(row["seed"]))
    return ", ".join(f"{float(row['episode_return']):.0f}" for row in own)


def against_ppo() -> str:
    """APO and PPO after 3M steps: each seed, the mean, and the mean of the best checkpoints."""
    lines = [
        "| 3M steps, `tuned` | each seed | mean | best checkpoint | best of Tianshou's PPO |",
        "|---|---|---|---|---|",
    ]
    for task in TASKS:
        for algorithm in ("apo", "ppo"):
            if own := _of_task(algorithm, task):
                cells = [_name(own[0]), _returns(own, task), _mean(own, "episode_return")]
                cells += [_mean(own, "best_checkpoint"), f"{REFERENCES[task]}"]
                lines.append(f"| {task} {' | '.join(cells)} |")
    return "\n".join(lines)


def in_short() -> str:
    """The means of the same, a row for each task."""
    lines = [
        "| return after 3M steps | seeds | APO | PPO .99 | best checkpoints: APO | PPO .99"
        " | Tianshou's PPO |",
        "|---|---|---|---|---|---|---|",
    ]
    for task in TASKS:
        both = [_of_task(algorithm, task) for algorithm in ("apo", "ppo")]
        if all(both):
            cells = [f"{min(map(len, both))}"]
            for column in ("episode_return", "best_checkpoint"):
                cells += [_mean(rows, column) for rows in both]
            lines.append(f"| {task} | {' | '.join(cells)} | {REFERENCES[task]} |")
    return "\n".join(lines)


def aggregates() -> str:
    """Of each contestant the score over all tasks, how far APO is ahead, and its worst task."""
    lines = [
        "| all tasks, 3M steps | score | APO's is higher by | worst task |",
        "|---|---|---|---|",
    ]
    rows = rows_of(COMPARISON)
    found = {key: _matrix(rows, key) for key in sorted({_setting(row) for row in rows})}
    complete = {key: own for key, own in found.items() if np.isfinite(own).all()}
    apo = complete["apo", ""]
    for key, own in complete.items():
        means = own.mean(0)
        cells = [name_of(key), f"{interquartile_mean(own):.2f}"]
        cells.append("" if own is apo else "{:+.2f} [{:+.2f}, {:+.2f}]".format(*ahead(apo, own)))
        cells.append(f"{TASKS[means.argmin()]} {means.min():.2f}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def ahead(scores: np.ndarray, others: np.ndarray) -> tuple[float, float, float]:
    """Difference of the interquartile means of scores [seeds, tasks]: estimate, low, high.

    Seeds are drawn anew for each task and contestant.
    """
    rng = np.random.default_rng(0)

    def resampled(own: np.ndarray) -> np.ndarray:
        drawn = rng.integers(len(own), size=(RESAMPLES, *own.shape))
        return interquartile_mean(np.take_along_axis(own[None], drawn, axis=1))

    low, high = np.quantile(resampled(scores) - resampled(others), (0.025, 0.975))
    estimate = interquartile_mean(scores) - interquartile_mean(others)
    return float(estimate), float(low), float(high)


def _matrix(rows: list[Row], setting: Setting) -> np.ndarray:
    """Scores [seeds, tasks] of one contestant, NaN where there is none."""
    own = [row for row in rows if _setting(row) == setting]
    scores = np.full((1 + max(int(row["seed"]) for row in own), len(TASKS)), np.nan)
    for row in own:
        score = float(row["episode_return"]) / REFERENCES[row["env"]]
        scores[int(row["seed"]), TASKS.index(row["env"])] = score
    return scores


def _setting(row: Row) -> Setting:
    return row["algorithm"], row["discount"]


def _of_task(algorithm: str, task: str) -> list[Row]:
    rows = rows_of(COMPARISON)
    return [row for row in rows if (row["algorithm"], row["env"]) == (algorithm, task)]


def _name(row: Row) -> str:
    return name_of(_setting(row))


def _mean(rows: list[Row], column: str) -> str:
    return f"{np.mean([float(row[column]) for row in rows]):.0f}"
