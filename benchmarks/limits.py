"""Learning under limits on costs against the exact constrained optimum.

    python benchmarks/limits.py                                  # every row that is missing
    python benchmarks/limits.py --problem tandem --algorithm apo --seeds 2 --seed 100 --out try.csv

Writes benchmarks/results/limits.csv: how far the last policy's exact gain is below the optimum, and
how far its exact costs are above their limits, in percent. Rows that are in the file are not run
again, so that an interrupted benchmark is continued by the same command. On an H200 a run takes 2
to 5 s and each program 15 to 25 s to compile; on two cores a run takes about a minute, and several
on networks. The problems are in `limits_problems.py`.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from csv_rows import rows_of
from limits_problems import Problem, learned_table, problems

from longrun import APO, ATRPO, PPO, TRPO
from longrun.tabular import evaluate, solve

RESULTS = Path(__file__).parent / "results" / "limits.csv"
ALGORITHMS = {"apo": APO, "atrpo": ATRPO, "ppo": PPO, "trpo": TRPO}
RIVALS, OF_RIVALS = ("ppo", "trpo"), ("busy", "tandem")
"""The discounted algorithms, and the problems that they are run on by default."""
OPTIONS: dict[str, Any] = {
    "preset": "paper",
    "num_envs": 512,
    "rollout_steps": 64,
    "minibatch_size": 4096,
    "gae_lambda": 0.97,
    "learning_rate_decay": True,
    "hidden_sizes": (16, 16),
}
"""Of all problems and algorithms; chosen, as the following, on seeds 100 to 122."""
CLIPPED: dict[str, Any] = {
    "epochs": 4,
    "learning_rate": 2e-3,
    "normalize_advantages": True,
    "entropy_coefficient": 0.005,
    "limit_step_size": 0.5,
}
TRUST_REGION: dict[str, Any] = {
    "epochs": 2,
    "learning_rate": 3e-3,
}
OF_ALGORITHM = {"apo": CLIPPED, "ppo": CLIPPED, "atrpo": TRUST_REGION, "trpo": TRUST_REGION}
ITERATIONS = 400
"""of 32 768 samples, or 131 072 on networks"""
FIRST_SEED = 50
"""Lower ones, and 100 and above, were seen with other options."""


def run(name: str, problem: Problem, algorithm: str, seed: int) -> dict[str, Any]:
    """A row of the table."""
    best = solve(problem.mdp, limits=problem.limits)
    free = solve(problem.mdp, limits={})
    options = {**OPTIONS, **OF_ALGORITHM[algorithm], **problem.options}
    if OF_ALGORITHM[algorithm] is CLIPPED:
        options |= problem.of_multipliers
    agent = ALGORITHMS[algorithm](problem.env, seed=seed, limits=problem.limits, **options)
    steps = ITERATIONS * agent.config.steps_per_iteration
    log: list[Any] = []
    agent.learn(steps, progress_bar=False, on_log=lambda p: log.append(p.metrics))
    if len(log) < ITERATIONS:  # a signal ends a training early, and it is no row then
        raise SystemExit(f"stopped: {name}, {algorithm}, seed {seed}")
    policy = learned_table(problem, agent)
    gain = evaluate(problem.mdp, policy).gain
    above = {
        cost: evaluate(problem.mdp.with_rewards(problem.mdp.costs[cost]), policy).gain / limit - 1
        for cost, limit in problem.limits.items()
    }
    late = log[-len(log) // 4 :]
    multipliers = {
        cost: np.mean([row[f"multiplier_{cost}"] for row in late]) for cost in problem.limits
    }
    return {
        "problem": name,
        "algorithm": algorithm,
        "seed": seed,
        "steps": steps,
        "exact gain": f"{best.gain:.5f}",
        "gain below optimum %": f"{100 * (best.gain - gain) / abs(best.gain):.2f}",
        "costs above limit %": written(above, problem, "{:.2f}", 100),
        "multipliers": written(multipliers, problem),
        "exact multipliers": written(best.multipliers, problem),
        "gain without limits": f"{free.gain:.5f}",
        "costs without limits": written(free.cost_rates, problem, "{:.4g}"),
    }


def written(
    values: dict[str, Any], problem: Problem, form: str = "{:.3g}", factor: float = 1
) -> str:
    """A number for each limited cost."""
    return " ".join(form.format(factor * values[cost]) for cost in problem.limits)


def wanted(given: argparse.Namespace) -> Iterator[tuple[str, str, int]]:
    """Problem, algorithm and seed of each row; the first seed of all comes first."""
    for number in range(given.seeds):
        for algorithm in given.algorithm or ALGORITHMS:
            everywhere = given.problem or given.algorithm or algorithm not in RIVALS
            for name in given.problem or (problems() if everywhere else OF_RIVALS):
                yield name, algorithm, given.seed + number


def key_of(row: dict[str, Any]) -> tuple[str, str, int]:
    return row["problem"], row["algorithm"], int(row["seed"])


def append(path: Path, row: dict[str, Any]) -> None:
    """Add a row, and the header to a new file."""
    is_new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, list(row), lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerow(row)


def main() -> None:
    every = problems()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--algorithm", choices=list(ALGORITHMS), nargs="+")
    parser.add_argument("--problem", choices=list(every), nargs="+")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument(
        "--seed", type=int, default=FIRST_SEED, help=f"the first seed (default: {FIRST_SEED})"
    )
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    for place in wanted(given):
        known = rows_of(given.out) if given.out.exists() else []
        if place not in map(key_of, known):
            name, algorithm, seed = place
            row = run(name, every[name], algorithm, seed)
            print(*row.values(), sep=", ", flush=True)
            append(given.out, row)


if __name__ == "__main__":
    main()
