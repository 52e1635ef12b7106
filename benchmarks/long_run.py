"""A run that never ends, followed for a long time: memory, gain and value offset stay bounded.

    python benchmarks/long_run.py --steps 1e7                the host: a Gymnasium environment
    python benchmarks/long_run.py --device --steps 1e10      a device: jax:criss-cross
    python benchmarks/long_run.py --device --steps 2e6 --num-envs 64      the same on a small CPU

Writes benchmarks/results/long-run-NAME.csv (500 rows at most, each at once) and a picture beside it
at the end. The exit status is 1 if memory grows, gain or offset leave their bounds, or a counter is
wrong.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import jax
import numpy as np
from matplotlib.figure import Figure

from longrun import APO

RESULTS = Path(__file__).parent / "results"
ROWS = 500
COLUMNS = ("step", "seconds", "memory_mb", "device_mb", "reward", "gain", "value_offset")
COLUMNS += ("value_mean",)
GROWTH = 1.05
"""Most that memory may be in the last quarter of a run relative to the second one."""


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


def on_device() -> float:
    """Memory in use on the first device in MB; 0 where it does not tell."""
    return float((jax.local_devices()[0].memory_stats() or {}).get("bytes_in_use", 0)) / 1e6


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--steps", type=float, default=1e7)
    parser.add_argument("--device", action="store_true", help="jax:criss-cross in one program")
    parser.add_argument("--num-envs", type=int, default=4096, help="with --device")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--name", help="of the results (default: device or host)")
    given = parser.parse_args()
    agent, name = _agent(given), given.name or ("device" if given.device else "host")
    rows = follow(agent, int(given.steps), given.out / f"long-run-{name}.csv")
    draw(given.out / f"long-run-{name}.png", rows)
    table = np.array(rows).T
    memory, gain, offset = (table[COLUMNS.index(c)] for c in ("memory_mb", "gain", "value_offset"))
    half = len(rows) // 2
    print(
        f"{agent.steps_:,} steps in {rows[-1][1]:.0f} s; memory {memory[half]:.0f} MB half way,"
        f" {memory[-1]:.0f} MB at the end; gain {gain[half:].min():.4f} to {gain[half:].max():.4f},"
        f" offset {offset[half:].min():.4f} to {offset[half:].max():.4f} in the second half"
    )
    wrong = list(problems(agent, int(given.steps), table))
    for what in wrong:
        print(f"wrong: {what}")
    return 1 if wrong else 0


def _agent(given: argparse.Namespace) -> APO:
    if not given.device:
        return APO(Walk, preset="tuned", num_envs=10, rollout_steps=1000, minibatch_size=500)
    batch = given.num_envs * 256
    options = {"num_envs": given.num_envs, "minibatch_size": batch // 16}
    return APO("jax:criss-cross", preset="queueing", **options)


def follow(agent: APO, steps: int, path: Path) -> list[tuple[float, ...]]:
    """Train, and note the columns above at most `ROWS` times, also in the file."""
    rows: list[tuple[float, ...]] = []
    every, began = steps / ROWS, time.perf_counter()

    def on_log(progress: Any) -> None:
        if progress.step >= every * (len(rows) + 1) or progress.step >= progress.total_steps:
            metrics, seconds = progress.metrics, time.perf_counter() - began
            row = (progress.step, seconds, resident(), on_device(), metrics["reward"])
            rows.append((*row, *(metrics[n] for n in ("gain", "value_offset", "value_mean"))))
            write(path, rows)  # so that a run that is cut short leaves what it has

    agent.learn(steps, on_log=on_log, progress_bar=False)
    return rows


def problems(agent: APO, steps: int, table: Any) -> Iterator[str]:
    """What is not as it should be; `table` has a row for each of the columns above."""
    column = dict(zip(COLUMNS, table, strict=True))
    per_iteration = agent.config.steps_per_iteration
    iterations = -(-steps // per_iteration)
    counted = (agent.steps_, int(agent.state.iteration) * per_iteration, int(column["step"][-1]))
    if set(counted) != {iterations * per_iteration}:
        yield f"{iterations * per_iteration} steps are counted as {counted}"
    for name in ("memory_mb", "device_mb"):
        early, late = np.array_split(column[name], 4)[1], np.array_split(column[name], 4)[3]
        if late.max() > GROWTH * early.max():
            yield f"{name} grows from {early.max():.0f} to {late.max():.0f}"
    # The gain is a running mean of rewards, and the offset one of values.
    for mean, of in (("gain", "reward"), ("value_offset", "value_mean")):
        low, high = column[of].min(), column[of].max()
        margin = high - low
        if not (low - margin <= column[mean].min() and column[mean].max() <= high + margin):
            yield f"{mean} leaves the range of {of}, {low:.4g} to {high:.4g}"


def write(path: Path, rows: list[tuple[float, ...]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows([int(row[0]), *(f"{x:.6g}" for x in row[1:])] for row in rows)


def draw(path: Path, rows: list[tuple[float, ...]]) -> None:
    columns = dict(zip(COLUMNS, np.array(rows).T, strict=True))
    figure = Figure(figsize=(9, 3), layout="constrained")
    titles = {"memory_mb": "memory, MB", "gain": "gain", "value_offset": "value offset"}
    for axis, (name, title) in zip(figure.subplots(1, 3), titles.items(), strict=True):
        axis.plot(columns["step"], columns[name], linewidth=1)
        axis.set_title(title)
        axis.set_xlabel("steps")
        if name == "memory_mb":
            axis.set_ylim(0, 1.2 * columns[name].max())
            if columns["device_mb"].any():
                axis.plot(columns["step"], columns["device_mb"], linewidth=1, linestyle="--")
                axis.legend(["process", "on the device"], fontsize="small")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    sys.exit(main())
