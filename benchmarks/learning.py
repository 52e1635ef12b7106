"""Proof that it learns: the paper's comparison on three MuJoCo tasks, and two classics.

Each setting is one `longrun train` command with the `paper` preset and seeds from 0 on (three, or
`--seeds`); the options that differ from it are listed below and in the table that comes out.
Several settings run
at once, `--jobs` of them with `--workers` simulating processes each.

    python benchmarks/learning.py swimmer --out benchmarks/results
    python benchmarks/learning.py all --jobs 8 --workers 2 --out benchmarks/results
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from csv_rows import write_rows

from longrun.base.student import student_reach
from longrun.lab.results.comparison_table import print_final
from longrun.lab.results.read import read_results


@dataclass(frozen=True)
class Run:
    """One setting: `longrun train ALGORITHM --env ENV --steps STEPS --preset paper OPTIONS`."""

    task: str
    env: str
    steps: int
    algorithm: str
    options: str

    @property
    def name(self) -> str:
        words = f"{self.task} {self.algorithm} {self.options}"
        return words.replace("--", "").replace(" ", "_")

    def command(self, out: Path, seeds: int, workers: int) -> list[str]:
        run = f"train {self.algorithm} --env {self.env} --steps {self.steps} --preset paper"
        run += f" {self.options}"
        rest = f"--seeds {seeds} --workers {workers} --quiet --out"
        return [sys.executable, "-m", "longrun", *run.split(), *rest.split(), str(out)]


def _mujoco(task: str, env: str, settings: Sequence[tuple[str, str]]) -> list[Run]:
    return [Run(task, env, 1_000_000, algorithm, options) for algorithm, options in settings]


SWIMMER = _mujoco(
    "swimmer",
    "Swimmer-v5",
    [
        ("apo", "--gae-lambda 0.99 --value-constraint 0.1"),
        ("apo", "--gae-lambda 0.99 --value-constraint 0"),
        ("ppo", "--gae-lambda 0.99 --discount 0.99"),
        ("ppo", "--gae-lambda 0.99 --discount 0.999"),
    ],
)
WALKING = [
    ("apo", "--gae-lambda 0.8"),
    ("apo", "--gae-lambda 0.9"),
    ("ppo", "--gae-lambda 0.8 --discount 0.999"),
    ("ppo", "--gae-lambda 0.9 --discount 0.999"),
]
HALFCHEETAH = _mujoco("halfcheetah", "HalfCheetah-v5", WALKING)
ANT = _mujoco("ant", "Ant-v5", WALKING)
STEADY = "--normalize-advantages --learning-rate-decay"  # chosen on seeds 100 and 101
PENDULUM = [
    Run("pendulum", "Pendulum-v1", 600_000, algorithm, STEADY)
    for algorithm in ("apo", "ppo", "atrpo", "trpo")
]
RESET = "--termination reset --reset-cost 10"
CARTPOLE = [
    Run("cartpole", "CartPole-v1", 300_000, algorithm, options)
    for algorithm, options in (("ppo", ""), ("trpo", ""), ("apo", RESET), ("atrpo", RESET))
]
TASKS = {
    "ant": ANT,  # the longest first
    "halfcheetah": HALFCHEETAH,
    "swimmer": SWIMMER,
    "pendulum": PENDULUM,
    "cartpole": CARTPOLE,
}


def train(run: Run, folder: Path, seeds: int, workers: int) -> Path:
    """Run one setting, unless it is finished; its output goes to a log beside its folder."""
    out = folder / run.name
    if (out / "summary.json").exists():
        return out
    with (folder / f"{run.name}.log").open("w") as log:
        environment = os.environ | {"JAX_PLATFORMS": "cpu"}
        command = run.command(out, seeds, workers)
        subprocess.run(command, stdout=log, stderr=log, env=environment, check=True)
    print(f"done: {run.name}", flush=True)
    return out


def write_table(runs: Sequence[Run], folders: Sequence[Path], out: Path) -> None:
    """One row for each setting, and every seed's final return in it."""
    rows = []
    for run, folder in zip(runs, folders, strict=True):
        (setting,) = read_results(folder)
        row: dict[str, object] = {"env": run.env, "algorithm": run.algorithm}
        row |= {"options": run.options, "steps": int(setting.steps[-1])}
        for metric in ("average_reward", "episode_return"):
            final = setting.values[metric][-1]
            mean, reach = final.mean(), student_reach(final)
            row |= {metric: f"{mean:.5g}", f"{metric}_low": f"{mean - reach:.5g}"}
            row |= {f"{metric}_high": f"{mean + reach:.5g}"}
        row["seeds"] = " ".join(map(str, setting.seeds))
        returns = setting.values["episode_return"][-1]
        row["episode_return_of_seeds"] = " ".join(f"{x:.5g}" for x in returns)
        rows.append(row)
    out.mkdir(parents=True, exist_ok=True)
    task = runs[0].task
    write_rows(out / f"learning-{task}.csv", rows)
    versions = json.loads((folders[0] / "config.json").read_text())["versions"]
    (out / f"learning-{task}.json").write_text(json.dumps(versions, indent=2) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("task", nargs="+", choices=[*TASKS, "all"])
    parser.add_argument("--seeds", type=int, default=3, help="replicas of each setting")
    parser.add_argument("--jobs", type=int, default=1, help="settings that run at once")
    parser.add_argument("--workers", type=int, default=2, help="simulating processes of each")
    parser.add_argument(
        "--runs", type=Path, help="keep the run folders here; finished ones are not run again"
    )
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    given = parser.parse_args()
    tasks = list(TASKS) if "all" in given.task else given.task
    runs = [run for task in tasks for run in TASKS[task]]
    with tempfile.TemporaryDirectory() as temporary, ThreadPoolExecutor(given.jobs) as pool:
        folder: Path = given.runs or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        folders = list(pool.map(lambda run: train(run, folder, given.seeds, given.workers), runs))
        for task in tasks:
            chosen = [(r, f) for r, f in zip(runs, folders, strict=True) if r.task == task]
            write_table([r for r, _ in chosen], [f for _, f in chosen], given.out)
        print_final([setting for f in folders for setting in read_results(f)])


if __name__ == "__main__":
    main()
