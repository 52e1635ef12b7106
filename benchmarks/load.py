"""Load: many replicas in one run, and one environment that is much slower than the others.

    python benchmarks/load.py replicas --count 300      one program on a device, with its run folder
    python benchmarks/load.py slow --count 64           one of 64 environments is 100 times slower

Rows are appended to benchmarks/results/load.csv. A sleeping environment takes no time of a
processor, so that the second one can be measured on a busy machine.
"""

from __future__ import annotations

import argparse
import csv
import platform
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import jax
import numpy as np

from longrun import APO
from longrun.cli import main as longrun
from longrun.learning.train import checkpoint

RESULTS = Path(__file__).parent / "results" / "load.csv"
PAUSE = 0.2e-3
"""Seconds of a step of the fast environments."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("what", choices=["replicas", "slow"])
    parser.add_argument("--count", type=int, help="replicas (300), or environments (64)")
    given = parser.parse_args()
    row = replicas(given.count or 300) if given.what == "replicas" else slow(given.count or 64)
    new = not RESULTS.exists()
    with RESULTS.open("a", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if new:
            writer.writerow(["what", "seconds", "compared_with", "compared_seconds", "machine"])
        what, seconds, other, compared = row
        writer.writerow(
            [
                what,
                f"{seconds:.4g}",
                other,
                f"{compared:.4g}",
                f"jax {jax.__version__}, {_machine()}",
            ]
        )
    print(*row, sep=", ")


def _machine() -> str:
    device = jax.local_devices()[0].device_kind
    return f"{device}, {platform.python_version()}"


# Replicas.

SMALL = ["--num-envs", "8", "--rollout-steps", "32", "--minibatch-size", "64", "--epochs", "2"]
SMALL += ["--preset", "paper"]


def replicas(count: int, iterations: int = 40) -> tuple[Any, ...]:
    """Train, save, resume and read back so many seeds in one program; seconds, and those of one."""
    with tempfile.TemporaryDirectory() as folder:
        together, alone = (_seconds(Path(folder) / str(n), n, iterations) for n in (count, 1))
    return f"{count} replicas of criss-cross, resumed once", together, "one replica", alone


def _seconds(run: Path, count: int, iterations: int) -> float:
    """Of a run that is resumed half way; its folder has every replica's rows and state."""
    steps = 8 * 32 * iterations
    command = ["train", "apo", "--env", "jax:criss-cross", *SMALL, "--quiet"]
    evaluation = ["--eval-every", str(steps // 4), "--eval-steps", "100", "--out", str(run)]
    began = time.perf_counter()
    new = [*command, "--seeds", str(count), "--steps", str(steps // 2), *evaluation]
    assert longrun(new) == 0
    assert longrun(["train", "--resume", "--out", str(run), "--steps", str(steps), "--quiet"]) == 0
    seconds = time.perf_counter() - began
    saved = checkpoint.load(run)
    assert [int(s.state.iteration) for s in saved.snapshots] == [iterations] * count
    with (run / "metrics.csv").open() as file:
        rows = [(int(row["replica"]), int(row["step"])) for row in csv.DictReader(file)]
    per_iteration = steps // iterations
    expected = [(r, per_iteration * (i + 1)) for i in range(iterations) for r in range(count)]
    assert sorted(rows) == sorted(expected)
    return seconds


# One environment that is slower than the others.


class Sleeper(gymnasium.Env[Any, Any]):
    """A random walk whose step takes `pause` seconds, and more with a seed that is chosen."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,))
    action_space = gymnasium.spaces.Box(-1, 1, (1,))

    def __init__(self, pause: float, slow_pause: float, slow_seed: int) -> None:
        self.pauses, self.slow_seed = (pause, slow_pause), slow_seed

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.pause = self.pauses[seed == self.slow_seed]
        self.place = 0.0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        time.sleep(self.pause)
        self.place += 0.1 * float(action[0]) + 0.1 * self.np_random.normal()
        return np.array([self.place], np.float32), -(self.place**2), False, False, {}


def slow(count: int, factor: float = 100.0, workers: int = 2, steps: int = 40) -> tuple[Any, ...]:
    """Seconds of a rollout where one environment is `factor` times slower, and where none is.

    A rollout waits for its slowest worker, which steps its share of the environments one after
    another: it should take as long as all steps of that worker. The results are the same.
    """
    from longrun.learning.envs import seeding

    times, learned = [], []
    for slower in (factor, 1.0):
        seed = seeding.episode_seed(0, seeding.EPISODE, count - 1, 0)
        env = partial(Sleeper, PAUSE, slower * PAUSE, seed)
        agent = APO(
            env,
            preset="paper",
            num_envs=count,
            rollout_steps=steps,
            minibatch_size=count * steps // 4,
            hidden_sizes=(8,),
            num_workers=workers,
            step_timeout=max(2.0, 10 * factor * PAUSE),
        )
        moments: list[float] = []
        agent.learn(4 * count * steps, on_log=lambda _, m=moments: m.append(time.perf_counter()))
        times.append(float(np.median(np.diff(moments))))
        learned.append(jax.tree.leaves(agent.state))
    same = all(np.array_equal(a, b) for a, b in zip(*learned, strict=True))
    assert same, "what is learned depends on the time that a step takes"
    name = f"rollout of {steps} steps, one of {count} environments {factor:g} times slower"
    return name, times[0], "all as fast as the others", times[1]


if __name__ == "__main__":
    main()
