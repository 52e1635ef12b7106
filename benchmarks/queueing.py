"""Queueing networks: APO against discounted PPO at equal samples, and against the optimum.

    python benchmarks/queueing.py criss-cross          # six regimes, writes results/queueing-*.csv
    python benchmarks/queueing.py six-class            # APO and PPO
    python benchmarks/queueing.py classical            # the classical policies on the same network

Five seeds (0 to 4) of each setting; settings were chosen on seeds 100 and up. A policy's cost is
that of its deterministic policy: exact, in a box of queue lengths, where regimes are light enough
for that, and simulated without any box elsewhere (chains that start empty, a fifth of each thrown
away, 95 % interval between chains). Meant for a GPU: about eight minutes on an H200.
"""

import argparse
import csv
import platform
import time
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from longrun import queueing as classical
from longrun.base.student import student_reach
from longrun.learning.envs.native import batching as native
from longrun.learning.learn.acting import act
from longrun.learning.options.config import Config
from longrun.learning.options.config_options import make_config
from longrun.learning.runs.spec import RunSpec
from longrun.learning.train.device.sharding import stacked
from longrun.learning.train.open_run import OpenRun, open_env
from longrun.learning.train.training import Training
from longrun.tabular import MDP, evaluate

OPTIMA = {
    "IL": 0.670623,
    "BL": 0.843212,
    "IM": 2.083550,
    "BM": 2.828829,
    "IH": 9.97203,
    "BH": 15.09511,
}
"""Certified by longrun.tabular, see results/tabular-gains.csv; BH is printed as 15.228 elsewhere"""
BOXES = {"IL": 30, "BL": 30, "IM": 40, "BM": 40}
"""Queue lengths up to which a policy is evaluated exactly."""
DISCOUNTS = (0.99, 0.998, 0.999)
ITERATIONS = {"L": 150, "M": 300, "H": 1000}
"""by traffic, the second letter of a regime"""
HEAVY = {"gae_lambda": 0.99}
"""What changes in heavy traffic, where what a choice leads to shows later."""
SIX_CLASS_ITERATIONS = 1000


def train(env: Any, configs: list[Config], seeds: list[int], iterations: int) -> tuple[Any, float]:
    """Learnt states of all replicas, leaves [R, ...], and the seconds that it took."""
    loop = open_env(env)
    steps = iterations * configs[0].steps_per_iteration
    spec = RunSpec(
        env=loop.name, configs=tuple(configs), seeds=tuple(seeds), steps=steps, eval_every=0
    )
    starts = [loop.fresh_snapshot(c, s) for c, s in zip(configs, seeds, strict=True)]
    began = time.perf_counter()
    training = Training(OpenRun(spec, loop, starts))
    training.run(progress_bar=False)
    states = jax.tree.map(lambda *xs: np.stack(xs), *(s.state for s in training.snapshots))
    return states, time.perf_counter() - began


@partial(jax.jit, static_argnames=("env", "chains", "block", "blocks"))
def simulate(env: Any, configs: Any, learnt: Any, key: Any, chains: int, block: int, blocks: int):
    """[R, blocks, chains] mean rewards of each replica's deterministic policy."""

    def replica(config, learnt):
        def one_step(carry, key):
            running, total = carry
            action = act(config.acting, env.spaces, learnt, running.obs, None)
            running, facts = native.step(env, key, running, action, None)
            return (running, total + facts.reward), None

        def one_block(running, key):
            start = (running, jnp.zeros(chains))
            (running, total), _ = jax.lax.scan(one_step, start, jax.random.split(key, block))
            return running, total / block

        first, rest = jax.random.split(key)
        start = native.start(env, first, chains)
        return jax.lax.scan(one_block, start, jax.random.split(rest, blocks))[1]

    return jax.vmap(replica)(configs, learnt)


def simulated_costs(
    env: Any, configs: list[Config], learnt: Any, chains: int, steps: int
) -> tuple[np.ndarray, np.ndarray]:
    """[R] mean costs and half-widths of their 95 % intervals."""
    block = 1000
    means = simulate(
        env, stacked(configs), learnt, jax.random.key(12345), chains, block, steps // block
    )
    kept = np.asarray(means, np.float64)[:, steps // block // 5 :].mean(1)  # [R, chains]
    return -kept.mean(-1), student_reach(kept)


def exact_cost(env: Any, model: MDP, config: Config, state: Any) -> float:
    """The deterministic policy's average cost in a box of queue lengths."""
    size = model.shape[0] - 1
    queues = np.indices((size + 1,) * env.network.num_classes).reshape(env.network.num_classes, -1)
    obs = jax.vmap(env.observation)(jnp.asarray(queues.T, jnp.int32))
    action = np.asarray(act(config, env.spaces, state, obs, None))
    return -evaluate(model, action[:, 0]).gain


def settings(algorithms: list[str], **changes: Any) -> list[list[tuple[str, Config]]]:
    """Programs to run, each with its labelled configurations: APO, then PPO with all discounts."""
    labelled = {
        "apo": [("APO", {})],
        "ppo": [(f"PPO {discount}", {"discount": discount}) for discount in DISCOUNTS],
    }
    return [
        [
            (label, make_config(algorithm, "queueing", **changes, **options))
            for label, options in labelled[algorithm]
        ]
        for algorithm in algorithms
    ]


def run(
    env_name: str,
    iterations: int,
    seeds: list[int],
    algorithms: list[str],
    box: int | None = None,
    **changes: Any,
):
    """Rows of results, one a replica; `changes` are to the preset."""
    env = open_env(env_name).env
    model = env.exact(box) if box else None
    for labelled in settings(algorithms, **changes):
        pairs = [(label, config, seed) for label, config in labelled for seed in seeds]
        configs = [config for _, config, _ in pairs]
        learnt, took = train(env, configs, [seed for *_, seed in pairs], iterations)
        costs, reaches = np.full((2, len(pairs)), np.nan)
        if model is None:
            costs, reaches = simulated_costs(env, configs, learnt, chains=4096, steps=200_000)
        for i, (label, config, seed) in enumerate(pairs):
            state = jax.tree.map(lambda x, i=i: x[i], learnt)
            yield {
                "env": env_name,
                "algorithm": label,
                "gae_lambda": config.gae_lambda,
                "seed": seed,
                "samples": iterations * config.steps_per_iteration,
                "exact": exact_cost(env, model, config, state) if model else np.nan,
                "simulated": costs[i],
                "half_width_95": reaches[i],
                "training_seconds_all": round(took, 1),
                "replicas": len(pairs),
            }


def criss_cross(regimes: list[str], seeds: list[int], algorithms: list[str]):
    for regime in regimes:
        rows = run(
            f"jax:criss-cross?regime={regime}",
            ITERATIONS[regime[1]],
            seeds,
            algorithms,
            box=BOXES.get(regime),
            **(HEAVY if regime[1] == "H" else {}),
        )
        for row in rows:
            gap = 100 * (np.nanmin([row["exact"], row["simulated"]]) / OPTIMA[regime] - 1)
            yield row | {"optimum": OPTIMA[regime], "gap_percent": gap}


def six_class_name(stations: int) -> str:
    return f"jax:six-class?stations={stations}" if stations != 2 else "jax:six-class"


def classical_policies(name: str):
    """Rows of results, one a policy."""
    env = open_env(name).env
    policies = {
        "c mu": classical.c_mu(env),
        "MaxWeight": classical.max_weight(env),
        "LBFS": classical.last_buffer_first(env),
        "FBFS": classical.first_buffer_first(env),
    }
    if env.network.num_classes == 6:  # the best of the orders that were tried
        policies["priority 2, 3, 1 / 6, 5, 4"] = classical.fixed_priority(env, (1, 2, 0, 5, 4, 3))
    for label, policy in policies.items():
        mean, reach = classical.average_cost(env, policy, steps=200_000, chains=512)
        row = {"env": name, "algorithm": label}
        yield row | {"simulated": mean, "half_width_95": reach}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=["criss-cross", "six-class", "classical"])
    parser.add_argument("--regimes", nargs="+", default=list(OPTIMA), choices=list(OPTIMA))
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(5)))
    parser.add_argument("--algorithms", nargs="+", default=["apo", "ppo"], choices=["apo", "ppo"])
    parser.add_argument("--stations", type=int, default=2)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    network = six_class_name(given.stations)
    found = {
        "criss-cross": lambda: criss_cross(given.regimes, given.seeds, given.algorithms),
        "six-class": lambda: run(network, SIX_CLASS_ITERATIONS, given.seeds, given.algorithms),
        "classical": lambda: classical_policies(network),
    }[given.what]()
    out = given.out or Path(__file__).parent / "results" / f"queueing-{given.what}.csv"
    machine = f"jax {jax.__version__}, {jax.devices()[0].device_kind}, {platform.python_version()}"
    rows: list[dict[str, Any]] = []
    for row in found:
        print(row, flush=True)
        rows.append(row | {"machine": machine})
        with out.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
