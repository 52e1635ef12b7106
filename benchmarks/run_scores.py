"""Scores of runs: one row for each seed of each setting.

    python benchmarks/run_scores.py RUN ... results/search/choice.csv

A score is the mean over the evaluations of the last tenth of training; the best checkpoint is the
best evaluation. `choice_results.py` and `tuned_results.py` make the tables.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from csv_rows import Row, write_rows


def collect(runs: Sequence[Path]) -> list[Row]:
    """Sorted by setting, environment and seed."""
    from longrun import read_results
    from longrun.lab.results.scores import scores_of

    rows = []
    for setting in read_results(runs):
        final, steps = scores_of(setting, "episode_return")
        best, _ = scores_of(setting, "episode_return", best=True)
        rate, _ = scores_of(setting, "average_reward")
        options = vars(setting.config)
        key = {
            "setting": setting.label,
            "algorithm": setting.config.algorithm,
            "discount": f"{options.get('discount', '')}",
            "env": setting.env,
        }
        for index, seed in enumerate(setting.seeds):
            scores = {
                "episode_return": f"{final[index]:.1f}",
                "best_checkpoint": f"{best[index]:.1f}",
                "average_reward": f"{rate[index]:.4g}",
            }
            rows.append(key | {"seed": f"{seed}", "steps": f"{steps}"} | scores)
    order = ("algorithm", "discount", "setting", "env", "seed")
    return sorted(rows, key=lambda row: tuple(row[name] for name in order))


def rows_of_task(rows: list[Row], task: str) -> list[Row]:
    """Those of one task, in the order of seeds."""
    return sorted((row for row in rows if row["env"] == task), key=lambda row: int(row["seed"]))


def returns_of(rows: list[Row], task: str) -> str:
    """Final scores on one task, in the order of seeds."""
    own = rows_of_task(rows, task)
    return ", ".join(f"{float(row['episode_return']):.0f}" for row in own)


def mean_of(rows: list[Row], column: str, digits: str = ".0f") -> str:
    """The mean of a column, as text."""
    return f"{sum(float(row[column]) for row in rows) / len(rows):{digits}}"


def each_and_mean(rows: list[Row], task: str) -> tuple[str, str]:
    return returns_of(rows, task), mean_of(rows, "episode_return")


if __name__ == "__main__":
    *runs, out = map(Path, sys.argv[1:])
    write_rows(out, collect(runs))
