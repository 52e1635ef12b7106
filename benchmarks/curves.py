"""Files of evaluations: of one environment each, a row for each evaluation of each seed.

    python benchmarks/curves.py RUN ... results/figure1-raw/swimmer-3m.csv

writes such a file from runs or sweeps of APO and PPO. A score is the mean over the evaluations of
the last tenth of training.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from csv_rows import Row, rows_of, write_rows

Setting = tuple[str, str]
"""The algorithm and its discount; "" for APO."""
Curves = dict[int, list[tuple[int, float]]]
"""seed -> [(step, value)]"""
METRICS = ("average_reward", "episode_return")


def read_curves(path: Path, metric: str = "episode_return") -> dict[Setting, Curves]:
    """One of `METRICS` of every setting, sorted: APO first, then PPO by its discount."""
    found: dict[Setting, Curves] = defaultdict(lambda: defaultdict(list))
    for row in rows_of(path):
        point = int(row["step"]), float(row[metric])
        found[row["algorithm"], row["discount"]][int(row["seed"])].append(point)
    return dict(sorted(found.items()))


def scores(curves: Curves, end: int | None = None) -> list[float]:
    """The score of each seed after `end` steps, by default at the end of training."""
    if end is None:
        end = max(step for curve in curves.values() for step, _ in curve)
    return [
        float(np.mean([value for step, value in curves[seed] if 0.9 * end < step <= end]))
        for seed in sorted(curves)
    ]


def name_of(setting: Setting) -> str:
    """Such as "APO" or "PPO 0.99"."""
    algorithm, discount = setting
    return f"{algorithm.upper()} {discount}".strip()


def collect(runs: Sequence[Path]) -> list[Row]:
    """A row for each evaluation."""
    from longrun import read_results

    rows = []
    for setting in read_results(runs):
        discount = vars(setting.config).get("discount", "")
        for column, seed in enumerate(setting.seeds):
            for index, step in enumerate(setting.steps):
                values = {name: f"{setting.values[name][index, column]:.6g}" for name in METRICS}
                key = {"algorithm": setting.config.algorithm, "discount": f"{discount}"}
                rows.append(key | {"seed": f"{seed}", "step": f"{int(step)}"} | values)
    return sorted(rows, key=lambda row: (row["algorithm"], row["discount"], int(row["seed"])))


if __name__ == "__main__":
    *runs, out = map(Path, sys.argv[1:])
    write_rows(out, collect(runs))
