"""How often the interval of an evaluation covers the long-run rate, on processes with known rates.

The process pays 1 a step from `delay` steps after a reset and ends with probability `chance` at
each step, so that its long-run rate is (1 - chance)^delay; or its episodes take 100 steps (a fifth
of them) or 1600. Evaluations are those of `agent.evaluate`, without an agent. The last columns are
the share that is settled, the share that covers the rate or says that it has not settled, and the
mean of the episode returns, where there is one.

    python benchmarks/evaluation_coverage.py            # about two minutes
    python benchmarks/evaluation_coverage.py --out results/evaluation-coverage.csv
"""

import argparse
import csv
import math
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from longrun.learning.train.evaluation import Streams, evaluation_shape, measured
from longrun.learning.train.long_run_rate import ages_of

REPETITIONS, SEED = 200, 0
Process = Callable[[int, int, int], Streams]
"""Makes the streams of a repetition from (environments, steps); longer ones begin with shorter."""


def by_chance(
    repetition: int, envs: int, steps: int, chance: float, delay: int, noise: float
) -> Streams:
    ends, noises = (np.random.default_rng([SEED, repetition, k]) for k in range(2))
    ended = ends.random((steps, envs)) < chance
    paid = (ages_of(ended).age >= delay) * 1.0
    return Streams(paid + noise * noises.normal(size=paid.shape), ended)


def by_law(repetition: int, envs: int, steps: int, delay: int) -> Streams:
    """A fifth of the episodes take 100 steps, the others 1600."""
    ended = np.zeros((steps, envs), bool)
    for env in range(envs):
        rng = np.random.default_rng([SEED, repetition, env])
        ends = np.where(rng.random(steps) < 0.2, 100, 1600).cumsum()
        ended[ends[ends <= steps] - 1, env] = True
    return Streams((ages_of(ended).age >= delay) * 1.0, ended)


def cases() -> Iterator[tuple[str, Process, float]]:
    """A name, the process, and its long-run rate."""
    for noise in (0.0, 1.0):
        for chance in (1e-4, 2e-4, 1e-3, 0.0):
            process = partial(by_chance, chance=chance, delay=500, noise=noise)
            yield f"ends with {chance:g}, noise {noise:g}", process, (1 - chance) ** 500
    rate = 1 - 50 / (0.2 * 100 + 0.8 * 1600)
    yield "100 or 1600 steps", partial(by_law, delay=50), rate


def coverage(process: Process, rate: float, steps: int) -> dict[str, Any]:
    shape = evaluation_shape(steps)
    found = [measured(partial(process, k), shape) for k in range(REPETITIONS)]
    held = [not f.settled or f.low - 1e-9 <= rate <= f.high + 1e-9 for f in found]
    returns = [f.episode_return for f in found if not math.isnan(f.episode_return)]
    return {
        "rate": f"{rate:.4f}",
        "mean_estimate": f"{np.mean([f.average_reward for f in found]):.4f}",
        "mean_width": f"{np.mean([f.high - f.low for f in found]):.4f}",
        "settled": f"{np.mean([f.settled for f in found]):.3f}",
        "covered_or_not_settled": f"{np.mean(held):.3f}",
        "mean_return": f"{np.mean(returns):.0f}" if returns else "",
        "with_return": f"{len(returns) / len(found):.3f}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, help="a CSV file")
    given = parser.parse_args()
    rows = []
    for steps in (10_000, 100_000):
        for name, process, rate in cases():
            rows.append({"process": name, "steps": steps} | coverage(process, rate, steps))
            print(*rows[-1].values(), sep="  ", flush=True)
    if given.out:
        with given.out.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
