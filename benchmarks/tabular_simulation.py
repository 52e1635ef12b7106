"""Criss-cross networks without a box: simulate the policy that was solved for inside one.

The exact optimum of BH is 0.9 % below the figure in the literature (15.228). Truncation could be
suspected, so here is the policy of the box, run where queues may grow without limit: 4096 chains,
a fifth of each thrown away as a start, the interval from the spread between chains. Near its walls
the policy is shaped by them (followed there as it is, it lets queues grow for ever): queues beyond
seven tenths of the box count as if they ended there, and the server never idles when it could work.

    python benchmarks/tabular_simulation.py            # writes results/tabular-simulation.csv
"""

import csv
import time
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from longrun.exact.queueing.known_networks import MODELS, REGIMES
from longrun.tabular import solve

CHAINS, BLOCK, BLOCKS = 4096, 2000, 250
INNER = 0.7
PRINTED = {"BM": 2.829, "IH": 9.970, "BH": 15.228}
SIZES = {"BM": 40, "IH": 100, "BH": 100}


def main() -> None:
    rows = []
    for regime, size in SIZES.items():
        started = time.perf_counter()
        solution = solve(MODELS["criss-cross"](regime, size), tolerance=1e-6)
        mean, half = simulated(regime, size, solution.policy)
        rows.append(
            {
                "regime": regime,
                "box": size,
                "exact_in_the_box": -solution.gain,
                "simulated_without": mean,
                "half_width_95": half,
                "printed": PRINTED[regime],
                "steps": CHAINS * BLOCK * BLOCKS * 4 // 5,
                "seconds": time.perf_counter() - started,
            }
        )
        print(rows[-1], flush=True)
    out = Path(__file__).parent / "results" / "tabular-simulation.csv"
    with out.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def simulated(regime: str, size: int, policy: np.ndarray) -> tuple[float, float]:
    """Average cost of a policy [S] over (size + 1)^3 states, and the half-width of its interval."""
    table = jnp.asarray(policy.reshape((size + 1,) * 3).astype(np.int8))
    queues = jnp.zeros((CHAINS, 3), jnp.int32)
    totals = []
    for number in range(BLOCKS):
        key = jax.random.fold_in(jax.random.key(0), number)
        queues, cost = simulate_block(table, REGIMES[regime], queues, key)
        if number >= BLOCKS // 5:
            totals.append(np.asarray(cost))
    means = np.mean(totals, axis=0)
    return float(means.mean()), float(1.96 * means.std(ddof=1) / np.sqrt(CHAINS))


@partial(jax.jit, donate_argnums=2)
def simulate_block(table, rates, queues, key):
    """BLOCK events for each chain [CHAINS, 3]; returns the queues and each chain's mean cost."""
    arrival, second = rates
    edges = jnp.cumsum(jnp.array([arrival, arrival, second, 2.0]))
    edges = edges / edges[-1]

    def event(queues, key):
        draw = jax.random.uniform(key, (CHAINS,))
        one, two, three = queues.T
        inside = jnp.minimum(queues, int(INNER * len(table)))
        action = table[inside[:, 0], inside[:, 1], inside[:, 2]]  # class 1, class 3, idle
        action = jnp.where(action == 2, jnp.where(three > 0, 1, 0), action)
        served = draw >= edges[2]
        first = served & (action == 0) & (one > 0)
        third = served & (action == 1) & (three > 0)
        left = (draw >= edges[1]) & (draw < edges[2]) & (two > 0)
        one_more = draw < edges[0]
        three_more = (draw >= edges[0]) & (draw < edges[1])
        after = jnp.stack(
            [one + one_more - first, two + first - left, three + three_more - third], 1
        )
        return after, queues.sum(1)

    queues, costs = jax.lax.scan(event, queues, jax.random.split(key, BLOCK))
    return queues, costs.astype(jnp.float32).mean(0)


if __name__ == "__main__":
    main()
