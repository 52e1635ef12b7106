"""What an adaptive lambda starts with: the agreement of halves of the first batches.

    python benchmarks/lambda_agreement.py results/lambda/agreement.csv
    python benchmarks/lambda_agreement.py results/lambda/small-tasks-agreement.csv Pendulum-v1 ...

The first is of the six tasks for APO and for PPO with three discounts, the second of other tasks
for APO. A run of 3M steps is stopped as soon as lambda is chosen: five minutes on two cores for
the six tasks.
"""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

from csv_rows import Row, write_rows
from search_results import TASKS

import longrun
from longrun.learning.learn.trace import COMPARED, FIRST

SEEDS = range(5)
DISCOUNTS = ("0.99", "0.995", "0.999")


def agreement(algorithm: str, discount: str, task: str, seed: int) -> Row:
    """One run until lambda is chosen; `discount` is empty for APO."""
    options: dict[str, Any] = {"discount": float(discount)} if discount else {}
    kind = {"apo": longrun.APO, "ppo": longrun.PPO}[algorithm]
    agent = kind(task, seed=seed, num_workers=0, gae_lambda=0.9, adaptive_lambda=True, **options)
    agent.learn(
        3_000_000,
        on_log=lambda progress: int(agent.state.iteration) < FIRST + COMPARED,
        progress_bar=False,
    )
    trace = agent.state.trace
    assert trace is not None and int(trace.undecided) == 0
    return {
        "algorithm": algorithm,
        "discount": discount,
        "env": task,
        "seed": f"{seed}",
        "agreement": f"{float(trace.shared / trace.own):.3f}",
        "lambda": f"{float(trace.gae_lambda):.4f}",
    }


if __name__ == "__main__":
    out, *tasks = sys.argv[1:]
    settings = [("apo", "")] + [("ppo", each) for each in DISCOUNTS if not tasks]
    jobs = [(*each, task, seed) for each, task, seed in product(settings, tasks or TASKS, SEEDS)]
    with ProcessPoolExecutor(2) as pool:
        write_rows(Path(out), list(pool.map(agreement, *zip(*jobs, strict=True))))
