"""Two mechanisms that keep terminations rare: the adaptive reset cost, and a limit on them.

    python benchmarks/reset_cost.py --cores 2 --out results/reset-cost.csv

trains APO with the `tuned` preset, one process on each core, evaluates the last policies with
deterministic and with drawn actions, and adds both to the file as soon as a run is done; runs that
it holds are left out. `--table` prints the table of the file. A speed is per second of processor
time, without compilation.
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import Any, NamedTuple

from csv_rows import rows_of

ARMS: dict[str, dict[str, Any]] = {
    "reset cost": {"costs": ["terminated"]},
    "limit": {"limits": {"terminated": 1e-3}},
    "free": {"reset_cost_step_size": 0.0, "costs": ["terminated"]},
    "limit, zero": {"limits": {"terminated": 1e-3}, "termination": "zero"},
}
"""The preset; a limit, for which the preset leaves its reset cost out; resets at no cost; a limit
where nothing is worth anything after an end."""
BOTH = ["reset cost", "limit"]
MEASURED = ["average_reward", "low", "high", "episode_return", "episode_length", "terminations"]
COLUMNS = ["arm", "env", "seed", "steps", "actions", *MEASURED, "steps_per_second", "price"]
EVALUATED = 20_000
UNTIMED = 20
"""iterations, in which programs are compiled"""


class Run(NamedTuple):
    """A run; `steps` of its training."""

    arm: str
    env: str
    seed: int
    steps: int


def runs(steps: int | None, tasks: list[str]) -> Iterator[Run]:
    """Those that tell most come first."""

    def some(envs: list[str], arms: list[str], seeds: range, length: int) -> Iterator[Run]:
        wanted = [env for env in envs if not tasks or env in tasks]
        for seed in seeds:
            for env in wanted:
                yield from (Run(arm, env, seed, steps or length) for arm in arms)

    falling, first, later = ["Hopper-v5", "Walker2d-v5"], range(110, 114), range(114, 118)
    yield from some(falling, BOTH, range(110, 118), 1_000_000)
    yield from some(falling, ["free"], first, 1_000_000)
    yield from some(["Ant-v5"], BOTH, first, 1_000_000)
    yield from some(["CartPole-v1"], list(ARMS), range(110, 118), 300_000)
    yield from some(["Humanoid-v5"], BOTH, first, 600_000)
    yield from some(["Ant-v5"], BOTH, later, 1_000_000)
    yield from some(falling, ["free"], later, 1_000_000)
    yield from some(["Ant-v5"], ["free"], first, 1_000_000)
    yield from some(falling, ["limit, zero"], first, 1_000_000)
    yield from some(["Humanoid-v5"], ["free"], first, 600_000)
    yield from some(["Ant-v5"], ["free"], later, 1_000_000)
    yield from some(falling, ["limit, zero"], later, 1_000_000)


def measured(run: Run) -> Iterator[dict[str, Any]]:
    """Train, and evaluate in both ways."""
    from longrun import APO, Progress

    agent = APO(run.env, seed=run.seed, num_workers=0, **ARMS[run.arm])
    times: list[tuple[int, float]] = []
    prices: list[float] = []

    def log(progress: Progress) -> None:
        times.append((progress.step, time.process_time()))
        name = "multiplier_terminated" if run.arm == "limit" else "reset_cost"
        prices.append(progress.metrics[name])

    agent.learn(run.steps, on_log=log, progress_bar=False)
    (begin, start), (end, stop) = times[min(UNTIMED, len(times) // 2)], times[-1]
    for deterministic in (True, False):
        found = agent.evaluate(EVALUATED, deterministic=deterministic)
        yield {
            **run._asdict(),
            "actions": "deterministic" if deterministic else "drawn",
            "average_reward": f"{found.average_reward:.6g}",
            "low": f"{found.low:.6g}",
            "high": f"{found.high:.6g}",
            "episode_return": f"{found.episode_return:.6g}",
            "episode_length": f"{found.episode_length:.6g}",
            "terminations": f"{found.costs['terminated'].rate:.5g}",
            "steps_per_second": f"{(end - begin) / (stop - start):.0f}",
            "price": f"{prices[-1]:.5g}",
        }


def in_a_process(run: Run, cores: Queue[int]) -> str:
    """The rows of a run as CSV, of a process on a core of its own."""
    core = cores.get()
    try:
        command = [sys.executable, __file__, "--run", *map(str, run)]
        if hasattr(os, "sched_setaffinity"):
            command = ["taskset", "-c", str(core), *command]
        env = os.environ | {"JAX_PLATFORMS": "cpu"}
        return subprocess.run(
            command, env=env, stdout=subprocess.PIPE, text=True, check=True
        ).stdout
    finally:
        cores.put(core)


def add_rows(out: Path, todo: list[Run], first: int, count: int) -> None:
    """Run what is to be done, on `count` cores from `first` on; each run's rows are added at once.

    A run that fails is named, and left out.
    """
    cores: Queue[int] = Queue()
    for core in range(first, first + count):
        cores.put(core)

    def one(run: Run) -> None:
        try:
            rows = in_a_process(run, cores)
        except subprocess.CalledProcessError as error:
            print(f"{run} failed: {error}", file=sys.stderr, flush=True)
            return
        with out.open("a") as file:
            file.write(rows)
        print(*run, flush=True)

    if not out.exists():
        out.write_text(",".join(COLUMNS) + "\n")
    with ThreadPoolExecutor(count) as pool:
        list(pool.map(one, todo))


def table(path: Path) -> str:
    """Medians and interquartile means over the seeds."""
    import numpy as np
    from markdown_table import table

    from longrun.lab.results.statistics import interquartile_mean

    groups: dict[tuple[str, str, str], list[dict[str, str]]] = {}
    for row in rows_of(path):
        groups.setdefault((row["env"], row["arm"], row["actions"]), []).append(row)
    speeds = {
        (env, arm): float(np.median([float(r["steps_per_second"]) for r in rows]))
        for (env, arm, _), rows in groups.items()
    }
    lines = []
    for (env, arm, actions), rows in sorted(groups.items()):

        def both(column: str, digits: str, rows: list[dict[str, str]] = rows) -> str:
            found = np.array([float(r[column]) for r in rows])
            return f"{np.median(found):{digits}} / {interquartile_mean(found):{digits}}"

        ended = np.array([1000 * float(r["terminations"]) for r in rows])
        lines.append(
            [
                env,
                arm,
                actions,
                str(len(rows)),
                both("average_reward", ".3f"),
                both("episode_return", ".0f"),
                both("episode_length", ".0f"),
                f"{np.median(ended):.2f} / {interquartile_mean(ended):.2f}",
                f"{int((ended > 1).sum())}",
                f"{speeds[env, arm] / speeds.get((env, 'reset cost'), np.nan):.2f}",
            ]
        )
    head = (
        "task,arm,actions,seeds,reward per step,episode return,episode length,ends in 1000 steps,"
        "seeds above 1,speed"
    )
    return table(head.split(","), lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/reset-cost.csv"))
    parser.add_argument("--cores", type=int, default=1, help="number of processes")
    parser.add_argument("--first", type=int, default=0, help="the first core")
    parser.add_argument("--steps", type=int, help="of all runs; by default each task has its own")
    parser.add_argument("--tasks", nargs="*", default=[], help="only these")
    parser.add_argument("--arms", nargs="*", choices=ARMS, default=list(ARMS), help="only these")
    parser.add_argument("--seeds", nargs="*", type=int, default=list(range(110, 118)))
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--run", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.run:
        arm, env, seed, steps = args.run
        rows = list(measured(Run(arm, env, int(seed), int(steps))))
        csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n").writerows(rows)
    elif args.table:
        print(table(args.out))
    else:
        done = set()
        if args.out.exists():
            done = {tuple(row[name] for name in Run._fields) for row in rows_of(args.out)}
        wanted = [
            run
            for run in runs(args.steps, args.tasks)
            if run.arm in args.arms and run.seed in args.seeds and tuple(map(str, run)) not in done
        ]
        add_rows(args.out, wanted, args.first, args.cores)


if __name__ == "__main__":
    main()
