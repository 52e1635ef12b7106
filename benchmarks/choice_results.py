"""Tables of how the `tuned` preset was chosen; `quoted_figures.py` writes them.

Scores are returns divided by those of `search_results.REFERENCES`, all on tuning seeds.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
from csv_rows import Row, rows_of
from curves import name_of
from markdown_table import table
from run_scores import returns_of
from search_results import NAMES, REFERENCES, TASKS, with_scale

from longrun.lab.results.statistics import interquartile_mean

SEARCH = Path(__file__).parents[1] / "results" / "search"
SETTINGS = {
    "T": "lambda .95, 10 x 200, minibatch 100, 10 epochs",
    "L": "lambda .9, 2 x 1000, minibatch 50, 5 epochs",
}
"""Names of the runs: earlier `tuned` with an initial log standard deviation of -1, and the new."""
LEADS = {
    "base": "none",
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
    "f20": "at least 20, at most 100",
    "t2e4": "at most 100, and `termination_target=2e-4`",
    "step.1": "`reset_cost_step_size=0.1`",
    "fix500": "`reset_cost=500`, fixed",
    "stop": "reset cost that stops where it takes what the policy earns",
    "g": "`max_grad_norm=0.5`",
    "ppog": "PPO: `max_grad_norm=0.5`",
    "s99": "reward scale by sums with a decay of .99 instead of lambda",
    "s997": "by sums with a decay of .997",
    "s99g": "decay of .99 and `max_grad_norm=0.5`",
    "st": "reward scale by the spread of value targets",
    "mix": "sum of standardised advantages with lambda .9 and .99",
}
"""Names of the runs, and what they change."""


def choice() -> str:
    """Both settings for both algorithms: the returns of both seeds on each task, and the score."""
    rows = rows_of(SEARCH / "choice.csv")
    contestants = {
        f"{algorithm.upper()}, {words}": [r for r in rows if r["setting"] == f"{algorithm}_{name}"]
        for algorithm in ("apo", "ppo")
        for name, words in SETTINGS.items()
    }
    return _scores("1M steps, seeds 103, 104", contestants)


def discounts() -> str:
    """The chosen setting with one seed: APO, and PPO with each discount."""
    chosen = [row for row in rows_of(SEARCH / "choice.csv") if row["setting"].endswith("_L")]
    contestants = defaultdict(list)
    for row in chosen + rows_of(SEARCH / "discounts.csv"):
        if row["seed"] == "103":
            contestants[name_of((row["algorithm"], row["discount"]))].append(row)
    return _scores("1M steps, seed 103", dict(sorted(contestants.items())))


def _scores(title: str, contestants: dict[str, list[Row]]) -> str:
    """A row for each: its returns on each task, in the order of seeds, and its score."""
    rows = []
    for name, own in contestants.items():
        scores = [[float(row["episode_return"]) / REFERENCES[row["env"]]] for row in own]
        score = float(interquartile_mean(np.array(scores)))
        rows.append((name, *(returns_of(own, task) for task in TASKS), f"{score:.2f}"))
    return with_scale(table((title, *NAMES, "score"), rows))


def leads() -> str:
    """What else was tried: returns on each task, in the order of seeds."""
    found: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows_of(SEARCH / "leads.csv"):
        found[row["steps"], row["setting"]].append(row)
    order = {name: place for place, name in enumerate(LEADS)}

    def place(key: tuple[str, str]) -> tuple[int, bool, int]:
        return int(key[0]), key[1].startswith("T_"), order[_lead(key[1])]

    rows = []
    for steps, setting in sorted(found, key=place):
        words = LEADS[_lead(setting)] + (" (earlier preset)" if setting.startswith("T_") else "")
        returns = [returns_of(found[steps, setting], task) for task in TASKS]
        rows.append((f"{int(steps) // 1000}k", words, *returns))
    return table(("steps", "change", *NAMES), rows)


def _lead(setting: str) -> str:
    return setting.removeprefix("T_").removeprefix("L_")
