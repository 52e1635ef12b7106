"""The device loop's speed, meant for a GPU.

    python benchmarks/device.py criss-cross     # collection, whole iterations, against the limit
    python benchmarks/device.py replicas        # 1024 replicas of a 64-environment run, against one
    python benchmarks/device.py brax            # brax:halfcheetah and brax:ant, against Brax's PPO
    python benchmarks/device.py halfcheetah     # the paper's grid: 300 replicas as one program

Rows are appended to results/device.csv. Times are medians over calls after the first, which
compiles; rivals are run in the same process, ours before and after them.
"""

import argparse
import csv
import platform
import time
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from longrun.learning.envs.native.protocol import Environment
from longrun.learning.learn import learner
from longrun.learning.options.config import Config
from longrun.learning.options.config_options import make_config
from longrun.learning.train.device import program as device
from longrun.learning.train.device.program import ReplicaState, Span
from longrun.learning.train.device.sharding import stacked
from longrun.learning.train.open_run import open_env

BANDWIDTH, OPERATIONS = 4.8e12, 67e12
"""An H200's bytes and float32 operations a second, as its maker has them."""
BRAX: dict[str, dict[str, Any]] = {
    "halfcheetah": {
        "num_envs": 2048,
        "rollout_steps": 160,
        "minibatch_size": 512 * 20,
        "epochs": 8,
        "discount": 0.95,
        "entropy_coefficient": 0.001,
    },
    "ant": {
        "num_envs": 4096,
        "rollout_steps": 80,
        "minibatch_size": 2048 * 5,
        "epochs": 4,
        "discount": 0.97,
        "entropy_coefficient": 0.01,
    },
}
"""Brax's published settings in our words: batch_size x num_minibatches trajectories of
unroll_length steps make a rollout, batch_size x unroll_length samples a minibatch."""
BRAX_NETWORKS: dict[str, Any] = {
    "hidden_sizes": (32,) * 4,
    "value_hidden_sizes": (256,) * 5,
    "normalize_observations": True,
    "normalize_advantages": True,
    "learning_rate": 3e-4,
}


class Run:
    """Replicas on the device, advanced and timed."""

    def __init__(self, env: Environment, configs: list[Config]) -> None:
        self.env, self.config = env, configs[0]
        self.configs = stacked(configs)
        self.seeds = jnp.arange(len(configs), dtype=jnp.uint32)
        fresh = jax.vmap(lambda c, s: learner.init(c, env.spaces, jax.random.key(s)))
        begin = partial(device.begin, env, self.config.num_envs)
        start = jax.jit(lambda c, s: ReplicaState(fresh(c, s), begin(s)))
        self.replicas = start(self.configs, self.seeds)
        self.advance(1)

    def advance(self, iterations: int) -> float:
        """Seconds of one iteration."""
        began = time.perf_counter()
        span = Span(0, 10_000, iterations)
        program = device.compiled_advance(jax.default_backend())
        self.replicas, *_ = jax.block_until_ready(
            program(self.env, self.configs, self.seeds, span, self.replicas)
        )
        return (time.perf_counter() - began) / iterations

    def seconds(self, iterations: int = 4, rounds: int = 5) -> float:
        return float(np.median([self.advance(iterations) for _ in range(rounds)]))

    @property
    def steps(self) -> int:
        return len(self.seeds) * self.config.steps_per_iteration


def criss_cross() -> Iterator[dict[str, Any]]:
    """4096 environments in one replica: steps/s of collection and of everything, and the limit."""
    env = open_env("jax:criss-cross").env
    for minibatch, epochs in ((65536, 4), (262144, 10)):
        sizes = {"num_envs": 4096, "rollout_steps": 256, "minibatch_size": minibatch}
        config = make_config("apo", "paper", epochs=epochs, **sizes)
        run = Run(env, [config])
        everything = run.seconds()
        collecting = collection_seconds(env, config, run.replicas)
        limit, what = counted_limit(config, env)
        yield {
            "what": f"criss-cross, 4096 environments, minibatch {minibatch}, {epochs} epochs",
            "seconds": everything,
            "steps_per_second": run.steps / everything,
            "compared_with": f"limit of the update's {what}",
            "compared_seconds": limit,
            "ratio": everything / limit,
        }
        yield {
            "what": "  its collection alone",
            "seconds": collecting,
            "steps_per_second": run.steps / collecting,
        }


def collection_seconds(env: Environment, config: Config, replicas: ReplicaState) -> float:
    one: ReplicaState = jax.tree.map(lambda x: x[0], replicas)
    program = jax.jit(partial(device.collect, env, config, steps=config.rollout_steps))
    times = []
    for i in range(12):
        began = time.perf_counter()
        jax.block_until_ready(program(one.learned, one.chains, jax.random.key(i)))
        times.append(time.perf_counter() - began)
    return float(np.median(times[1:]))


def counted_limit(config: Config, env: Environment) -> tuple[float, str]:
    """Seconds that the update's operations and bytes take at the chip's rates, and which rules.

    A gradient of a network is three products with each weight matrix (forward, to the layer before,
    to the weights), two operations a weight and sample each. Layer by layer, a hidden activation is
    written and read on the way forward; on the way back it is read twice, its gradient written and
    read. Samples are gathered (read, written) and read twice.
    """
    samples = config.steps_per_iteration * config.epochs
    operations = moved = 0.0
    outputs = {"policy": env.spaces.policy_outputs, "value": 1}
    for network, last in outputs.items():
        hidden = config.hidden_sizes
        if network == "value" and config.value_hidden_sizes:
            hidden = config.value_hidden_sizes
        sizes = (env.spaces.feature_size, *hidden, last)
        operations += 6 * sum(a * b for a, b in pairwise(sizes))
        moved += 4 * (6 * sum(hidden) + 4 * (sizes[0] + last))
    times = {"bytes": samples * moved / BANDWIDTH, "operations": samples * operations / OPERATIONS}
    what = max(times, key=times.__getitem__)
    return times[what], what


def replicas(count: int = 1024) -> Iterator[dict[str, Any]]:
    """A run of 64 environments, alone and many times over."""
    env = open_env("jax:criss-cross").env
    for options in ({}, {"minibatch_size": 1600, "epochs": 4}):
        config = make_config("apo", "paper", num_envs=64, **options)
        alone = Run(env, [config]).seconds(2)
        together = Run(env, [config] * count).seconds(2, 3)
        yield {
            "what": f"criss-cross, {count} replicas of 64 environments, minibatch"
            f" {config.minibatch_size}, {config.epochs} epochs",
            "seconds": together,
            "steps_per_second": count * config.steps_per_iteration / together,
            "compared_with": "one replica",
            "compared_seconds": alone,
            "ratio": together / alone,
        }


def brax(names: Sequence[str] = tuple(BRAX), smaller: int = 1) -> Iterator[dict[str, Any]]:
    """Our PPO with Brax's hyper-parameters and networks, against Brax's own.

    On a CPU both may have so many times fewer environments, and samples in a minibatch.
    """
    from device_brax import brax_steps_per_second

    for name in names:
        sizes = {n: BRAX[name][n] // smaller for n in ("num_envs", "minibatch_size")}
        options = BRAX[name] | sizes
        env = open_env(f"brax:{name}?backend=spring").env
        run = Run(env, [make_config("ppo", "paper", **options, **BRAX_NETWORKS)])
        before = run.seconds(3, 3)
        rival = brax_steps_per_second(name, 5 * 4 * run.steps, smaller)
        after = run.seconds(3, 3)
        seconds = (before + after) / 2
        yield {
            "what": f"brax:{name} (spring), {options['num_envs']} environments",
            "seconds": seconds,
            "steps_per_second": run.steps / seconds,
            "compared_with": "brax.training PPO",
            "compared_seconds": run.steps / rival,
            "ratio": run.steps / rival / seconds,
        }


def halfcheetah(count: int = 300) -> Iterator[dict[str, Any]]:
    """The paper's grid, 60 settings x 5 seeds, as one program: seconds of an iteration."""
    env = open_env("brax:halfcheetah?backend=spring").env
    grid = [
        make_config("apo", "paper", gae_lambda=x, value_constraint=nu, gain_step_size=a)
        for x in (0.8, 0.9, 0.95, 0.99)
        for nu in (0.0, 0.03, 0.1, 0.3, 1.0)
        for a in (0.03, 0.1, 0.3)
        for _ in range(count // 60)
    ]
    alone = Run(env, grid[:1]).seconds(2, 3)
    together = Run(env, grid).seconds(2, 3)
    yield {
        "what": f"brax:halfcheetah (spring), {count} replicas of the paper's preset",
        "seconds": together,
        "steps_per_second": count * grid[0].steps_per_iteration / together,
        "compared_with": "one replica",
        "compared_seconds": alone,
        "ratio": together / alone,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parts = {
        "criss-cross": criss_cross,
        "replicas": replicas,
        "brax": brax,
        "brax-halfcheetah": lambda: brax(["halfcheetah"], given.smaller),
        "brax-ant": lambda: brax(["ant"], given.smaller),
        "halfcheetah": halfcheetah,
    }
    parser.add_argument("what", choices=list(parts))
    parser.add_argument("--smaller", type=int, default=1, help="divides Brax's sizes, for a CPU")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results/device.csv")
    given = parser.parse_args()
    machine = f"jax {jax.__version__}, {jax.devices()[0].device_kind}, {platform.python_version()}"
    columns = ("what", "seconds", "steps_per_second")
    columns += ("compared_with", "compared_seconds", "ratio", "machine")
    for row in parts[given.what]():
        print(row, flush=True)
        is_new = not given.out.exists()
        with given.out.open("a", newline="") as file:
            writer = csv.DictWriter(file, columns)
            if is_new:
                writer.writeheader()
            writer.writerow(row | {"machine": machine})


if __name__ == "__main__":
    main()
