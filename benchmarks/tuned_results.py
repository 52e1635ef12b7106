"""Tables of how the `tuned` preset was chosen; `quoted_figures.py` writes them.

Scores are returns divided by those of `search_results.REFERENCES`.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
from csv_rows import Row, rows_of
from search_results import REFERENCES, TASKS

from longrun.results.statistics import interquartile_mean

RESULTS = Path(__file__).parents[1] / "results" / "search"
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
    rows = rows_of(RESULTS / "choice.csv")
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
    for row in rows_of(RESULTS / "leads.csv"):
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
