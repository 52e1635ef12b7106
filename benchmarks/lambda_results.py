"""Tables of what the adaptive lambda gives, on seeds of the report.

How it was chosen is in `lambda_tuning.py`; `quoted_figures.py` writes them.
"""

from __future__ import annotations

import numpy as np
from csv_rows import Row, rows_of
from curves import Setting, name_of
from decomposition_results import change, percent
from markdown_table import table
from run_scores import each_and_mean, mean_of, returns_of, rows_of_task
from search_results import NAMES, TASKS
from tuned_results import (
    ADAPTIVE_PPO,
    APO,
    RESULTS,
    contestants,
    each_seed,
    rows_of_contestant,
    setting_of,
)

from longrun.learning.learn.trace import AGREEMENT as AGREED

LONGER_START = RESULTS / "longer-start.csv"
"""APO with a lambda that started at .999 on every task; not run on Humanoid."""
SHORTER_START = RESULTS / "shorter-start.csv"
"""APO with a lambda that started at .99, and could rise again."""
FIXED_LAMBDA = RESULTS / "fixed-lambda.csv"
"""APO before that, and before the rise of the reset cost was slowed, which of the runs of
`SHORTER_START` matters on Humanoid and in one other alone (Hopper, seed 2)."""
ANT_FIXED = RESULTS / "ant-fixed-lambda.csv"
"""APO on Ant with a fixed lambda and the present version otherwise, seeds 0 to 9."""

LAMBDA = RESULTS.parent / "lambda"
AGREEMENT = LAMBDA / "agreement.csv"
"""Of the halves of the first batches, for APO and PPO on the six tasks."""
SMALL_AGREEMENT = LAMBDA / "small-tasks-agreement.csv"
SMALL_SCORES = LAMBDA / "small-tasks.csv"
"""Tasks that had no part in the choice of any option."""


def versions() -> str:
    """What the adaptive lambda gives, on ten seeds, beside earlier ones, on five."""
    earlier = [rows_of(path) for path in (LONGER_START, SHORTER_START, FIXED_LAMBDA)]
    tried = [rows_of_contestant(APO), *earlier]
    rows = []
    for task in TASKS:
        found = [rows_of_task(own, task) for own in tried]
        rows.append((task, *(_mean_and_each(own) if own else "not run" for own in found)))
    heads = (
        "chosen once the values are learned: 0.999 or 0.9",
        "from 0.999 on every task",
        "from 0.99, up and down",
        "lambda 0.9",
    )
    return table(("APO, 3M steps, mean: each seed", *heads), rows)


def _mean_and_each(rows: list[Row]) -> str:
    return f"{mean_of(rows, 'episode_return')}: {each_seed(rows)}"


def ant() -> str:
    """What learning only the values at first does to APO on Ant-v5: ten seeds with, ten without."""
    task, rows = "Ant-v5", []
    first = contestants(task)[APO]
    names = {
        "`tuned`: the values first, then lambda 0.9": first,
        "`--no-adaptive-lambda`: lambda 0.9 from the start": rows_of(ANT_FIXED),
    }
    for name, own in names.items():
        cells = []
        for column, digits in (("episode_return", ".0f"), ("average_reward", ".3g")):
            values, others = (
                np.array([float(row[column]) for row in each]) for each in (own, first)
            )
            against = "" if own is first else percent(change(values, others))
            cells += [mean_of(own, column, digits), against]
        rows.append((name, returns_of(own, task), *cells))
    heads = "each seed", "mean return", "change", "reward per step", "change"
    return table((f"{task}, 3M steps, seeds 0 to 9", *heads), rows)


def adaptive_ppo() -> str:
    """What an adaptive lambda gives PPO on Swimmer-v5."""
    task, rows = "Swimmer-v5", []
    adaptive = rows_of(ADAPTIVE_PPO)
    for setting, fixed in contestants(task).items():
        if own := [row for row in adaptive if setting_of(row) == setting]:
            cells = (*each_and_mean(own, task), *each_and_mean(fixed, task))
            rows.append((name_of(setting), *cells))
    heads = f"{task}, 3M steps", "lambda from 0.999 down to 0.9", "mean", "lambda 0.9", "mean"
    return table(heads, rows)


def chosen() -> str:
    """For each contestant and task, how far the halves agree, and how many seeds start long."""
    found: dict[Setting, list[Row]] = {}
    for row in rows_of(AGREEMENT):
        found.setdefault(setting_of(row), []).append(row)
    rows = [
        (name_of(setting), *(_agreement(rows_of_task(own, task)) for task in TASKS))
        for setting, own in sorted(found.items())
    ]
    return table(("agreement of the halves: seeds that start long", *NAMES), rows)


def _agreement(rows: list[Row]) -> str:
    """The range over seeds, and the number of seeds whose lambda starts long."""
    values = sorted(float(row["agreement"]) for row in rows)
    return f"{values[0]:.2f} to {values[-1]:.2f}: {len(_started_long(rows))}"


def _started_long(rows: list[Row]) -> list[str]:
    """Their seeds."""
    return [row["seed"] for row in rows if float(row["agreement"]) > AGREED]


def small_tasks() -> str:
    """Tasks that had no part in any choice: what lambda starts with, and what comes of it."""
    agreements, scores = rows_of(SMALL_AGREEMENT), rows_of(SMALL_SCORES)
    rows = []
    for task in dict.fromkeys(row["env"] for row in agreements):
        own = rows_of_task(agreements, task)
        cells = [f"{float(row['agreement']):.2f}" for row in own]
        final = [
            ", ".join(
                f"{float(row['episode_return']):.4g}"
                for row in rows_of_task(scores, task)
                if row["setting"] == f"APO adaptive_lambda={adapts}"
            )
            for adapts in (True, False)
        ]
        rows.append((task, ", ".join(cells), ", ".join(_started_long(own)) or "none", *final))
    heads = (
        "seeds 0 to 4",
        "agreement of the halves",
        "seeds that start long",
        "return, 600k steps",
        "with lambda 0.9",
    )
    return table(heads, rows)
