"""A run that never ends, followed for a long time: memory, gain and value offset stay bounded.

    python benchmarks/long_run.py --steps 10000000            Gymnasium environment on the host
    python benchmarks/long_run.py --steps 10000000000 --env jax:criss-cross --preset queueing

Writes benchmarks/results/long-run-NAME.csv (500 rows at most) and a picture beside it.
"""

from __future__ import annotations

import argparse
import csv
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from matplotlib.figure import Figure

from longrun import APO

RESULTS = Path(__file__).parent / "results"
ROWS = 500


class Walk(gymnasium.Env[Any, Any]):
    """A point that noise pushes and an action pulls back; it never ends."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,))
    action_space = gymnasium.spaces.Box(-1, 1, (1,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.place = 0.0
        return np.array([self.place], np.float32), {}

    def step(self, action: Any) -> Any:
        self.place += 0.1 * float(action[0]) + 0.1 * self.np_random.normal()
        return np.array([self.place], np.float32), 1 - self.place**2, False, False, {}


def resident() -> float:
    """Memory of this process in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=10_000_000)
    parser.add_argument("--env", help="a string; by default a random walk, through Gymnasium")
    parser.add_argument("--preset", default="tuned")
    given = parser.parse_args()
    rows: list[tuple[float, ...]] = []
    every, began = given.steps // ROWS, time.perf_counter()

    def on_log(progress: Any) -> None:
        if progress.step >= every * (len(rows) + 1):
            metrics = progress.metrics
            seconds = time.perf_counter() - began
            row = (progress.step, seconds, resident(), metrics["reward"], metrics["gain"])
            rows.append((*row, metrics["value_offset"], metrics["value_mean"]))

    options = {} if given.env else {"num_envs": 10, "rollout_steps": 1000, "minibatch_size": 500}
    agent = APO(given.env or Walk, preset=given.preset, **options)
    agent.learn(given.steps, on_log=on_log, progress_bar=False)
    assert agent.steps_ >= given.steps
    name = "device" if given.env else "host"
    write(RESULTS / f"long-run-{name}.csv", rows)
    draw(RESULTS / f"long-run-{name}.png", rows)
    memory = [row[2] for row in rows]
    half = len(memory) // 2
    print(
        f"{agent.steps_:,} steps in {rows[-1][1]:.0f} s; memory {memory[half]:.0f} MB half way,"
        f" {memory[-1]:.0f} MB at the end; gain {rows[-1][4]:.4f}, offset {rows[-1][5]:.4f}"
    )


def write(path: Path, rows: list[tuple[float, ...]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(
            ["step", "seconds", "memory_mb", "reward", "gain", "value_offset", "value_mean"]
        )
        writer.writerows([int(row[0]), *(f"{x:.6g}" for x in row[1:])] for row in rows)


def draw(path: Path, rows: list[tuple[float, ...]]) -> None:
    columns = np.array(rows).T
    figure = Figure(figsize=(9, 3), layout="constrained")
    axes = figure.subplots(1, 3)
    for axis, k, title in zip(axes, (2, 4, 5), ("memory, MB", "gain", "value offset"), strict=True):
        axis.plot(columns[0], columns[k], linewidth=1)
        axis.set_title(title)
        axis.set_xlabel("steps")
    axes[0].set_ylim(0)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
