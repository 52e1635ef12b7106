"""How long it takes to look at results: `longrun compare` and `longrun plot` on 100 runs.

The runs are made up, of the size of real ones: 5 settings on 4 environments with 5 seeds each, a
run folder for every seed as a sweep writes them, 20 evaluations and 500 iterations. Times are of
whole commands, imports included; on a busy machine the seconds of CPU tell more than those of the
clock.

    python benchmarks/analysis.py --out benchmarks/results
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from csv_rows import write_rows

from longrun.learning.options.config_options import make_config
from longrun.learning.runs.evaluation_report import EvaluationReport
from longrun.learning.runs.run_folder import RunFolder
from longrun.learning.runs.spec import RunSpec

SETTINGS = [
    ("apo", {"value_constraint": 0.0}),
    ("apo", {"value_constraint": 0.1}),
    ("apo", {"value_constraint": 0.3}),
    ("ppo", {"discount": 0.99}),
    ("ppo", {"discount": 0.999}),
]
ENVIRONMENTS = {"Swimmer-v5": 0.3, "HalfCheetah-v5": 4.0, "Ant-v5": 2.0, "Hopper-v5": 3.0}
"""And about what is earned there in a step."""
SEEDS = 5
EVALUATIONS = 20
ITERATIONS = 500
STEPS = 1_000_000
COMMANDS = {
    "compare": ["compare", "{sweep}"],
    "compare, with table and profile": [
        *("compare", "{sweep}", "--out", "{out}/table.tex", "--profile", "{out}/profile.png")
    ],
    "plot": ["plot", "{sweep}", "--out", "{out}/curves.png"],
    "plot value_mean": ["plot", "{sweep}", "--metric", "value_mean", "--out", "{out}/value.png"],
}


def make_sweep(path: Path) -> None:
    """Curves that rise and level off, each setting to its own height, with noise between seeds."""
    path.mkdir(parents=True)
    (path / "sweep.json").write_text("{}\n")
    rng = np.random.default_rng(0)
    for number, (algorithm, options) in enumerate(SETTINGS):
        for env, reward in ENVIRONMENTS.items():
            for seed in range(SEEDS):
                height = reward * (0.6 + 0.1 * number + 0.08 * rng.normal())
                name = f"{algorithm}-{number}-{env}-{seed}"
                make_run(path / "runs" / name, algorithm, options, env, seed, height, rng)


def make_run(
    path: Path,
    algorithm: str,
    options: dict[str, float],
    env: str,
    seed: int,
    height: float,
    rng: np.random.Generator,
) -> None:
    config = make_config(algorithm, "paper", **options)
    spec = RunSpec(env=env, configs=(config,), seeds=(seed,), steps=STEPS, preset="paper")
    folder = RunFolder.create(path, spec, {"identity": env})
    every = STEPS // EVALUATIONS
    folder.add_evaluations(
        (
            {"replica": 0, "seed": seed, "step": step},
            _report(height * (1 - np.exp(-4 * step / STEPS)) * (1 + 0.03 * rng.normal())),
        )
        for step in range(every, STEPS + 1, every)
    )
    names = ["clip_fraction", "entropy", "explained_variance", "gain", "kl", "policy_loss"]
    names += ["reset_cost", "reward", "reward_max", "reward_min", "terminations"]
    names += ["value_constraint", "value_loss", "value_mean", "value_offset"]
    folder.add_metrics(
        {"replica": 0, "seed": seed, "step": step, "steps_per_second": 1000.0}
        | dict(zip(names, rng.normal(size=len(names)).tolist(), strict=True))
        for step in range(STEPS // ITERATIONS, STEPS + 1, STEPS // ITERATIONS)
    )


def _report(reward: float) -> EvaluationReport:
    return EvaluationReport(reward, reward - 0.1, reward + 0.1, 1000 * reward, 1000.0, 10, 10_000)


def measure(sweep: Path, out: Path, rounds: int) -> list[dict[str, object]]:
    """Commands in turn, so that a busy moment of the machine does not hit one of them alone."""
    seconds: dict[str, list[float]] = {name: [] for name in COMMANDS}
    cpu: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(rounds):
        for name, command in COMMANDS.items():
            words = [word.format(sweep=sweep, out=out) for word in command]
            began, used = time.perf_counter(), _cpu_of_children()
            subprocess.run(
                [sys.executable, "-m", "longrun", *words], check=True, stdout=subprocess.DEVNULL
            )
            seconds[name].append(time.perf_counter() - began)
            cpu[name].append(_cpu_of_children() - used)
    return [
        {
            "command": name,
            "runs": len(SETTINGS) * len(ENVIRONMENTS) * SEEDS,
            "rounds": rounds,
            "median_s": f"{statistics.median(taken):.2f}",
            "least_s": f"{min(taken):.2f}",
            "most_s": f"{max(taken):.2f}",
            "cpu_s": f"{statistics.median(cpu[name]):.2f}",
        }
        for name, taken in seconds.items()
    ]


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sweep", type=Path, help="keep the runs that were made up here")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        sweep = given.sweep or Path(temporary) / "sweep"
        if not sweep.exists():
            make_sweep(sweep)
        rows = measure(sweep, Path(temporary), given.rounds)
        versions = json.loads(next(sweep.glob("runs/*/config.json")).read_text())["versions"]
    given.out.mkdir(parents=True, exist_ok=True)
    write_rows(given.out / "analysis.csv", rows)
    for row in rows:
        clock = f"{row['median_s']} s ({row['least_s']} to {row['most_s']})"
        print(f"{row['command']:34}{clock}, CPU {row['cpu_s']} s")
    print(f"{platform.platform()}, Python {versions['python']}, NumPy {versions['numpy']}")


if __name__ == "__main__":
    main()
