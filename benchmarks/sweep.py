"""Throughput of a sweep on all cores against the simulator alone, and what the sweep layer costs.

Each round measures, one after another and each in processes of its own:

- raw: the simulator alone, open-loop mujoco.rollout, one thread for each core (contestants.py);
- sweep: `longrun sweep` over four seeds, from the command's start to its end;
- direct: the same four runs in two processes that train them without a sweep around them.

Shares and overheads are formed inside a round; the table shows medians. The sweep is timed whole,
imports included, so its runs are long enough for these not to matter.

    python benchmarks/sweep.py --rounds 3 --out benchmarks/results/sweep.csv
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

TASKS = {"HalfCheetah-v5": 1_000_000, "Ant-v5": 150_000}
"""Steps of each of the four runs; short ones would show little but what it takes to start."""
RUNS = 4
OPTIONS = {"minibatch_size": 250}
"""as in throughput.py, where the rivals train with them"""
DIRECT = """
import sys
from pathlib import Path
from longrun.learning.options.config_options import make_config
from longrun.learning.runs.spec import RunSpec
from longrun.learning.train.open_run import new_run
from longrun.learning.train.training import Training
env, steps, out, *seeds = sys.argv[1:]
for seed in seeds:
    config = make_config("apo", "paper", minibatch_size=250)
    about = {"preset": "paper", "num_workers": 0, "eval_every": 0}
    replica = {"configs": (config,), "seeds": (int(seed),)}
    spec = RunSpec(env=env, steps=int(steps), **replica, **about)
    Training(new_run(spec, Path(out) / seed)).run(progress_bar=False)
"""
ONE_THREAD = {"OMP_NUM_THREADS": "1", "NPROC": "1", "JAX_PLATFORMS": "cpu"}


def raw(env: str) -> float:
    script = Path(__file__).absolute().with_name("contestants.py")
    steps = 200_000 if env == "HalfCheetah-v5" else 60_000
    command = [sys.executable, "-W", "ignore", script, "raw", "--env", env, "--steps", str(steps)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout.splitlines()[-1])["steps_per_second"])


def sweep(env: str, steps: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        words = f"sweep apo --preset paper --env {env} --steps {steps} --seeds {RUNS}"
        options = f"--minibatch-size {OPTIONS['minibatch_size']} --no-eval --quiet"
        options += f" --out {folder}/sweep"
        command = [sys.executable, "-m", "longrun", *words.split(), *options.split()]
        return _timed([command], os.environ.copy(), RUNS * steps)


def direct(env: str, steps: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        commands = [
            [sys.executable, "-c", DIRECT, env, str(steps), folder, *map(str, seeds)]
            for seeds in (range(0, RUNS, 2), range(1, RUNS, 2))
        ]
        return _timed(commands, os.environ | ONE_THREAD, RUNS * steps)


def _timed(commands: list[list[str]], environment: dict[str, str], steps: int) -> float:
    """Steps per second of commands that run side by side."""
    began = time.perf_counter()
    running = [subprocess.Popen(c, env=environment, stdout=subprocess.DEVNULL) for c in commands]
    if any(process.wait() for process in running):
        raise SystemExit(f"a measurement failed: {commands[0]}")
    return steps / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="write every measurement as CSV")
    options = parser.parse_args()
    rows = []
    for number in range(1, options.rounds + 1):
        for env, steps in TASKS.items():
            row = {
                "round": number,
                "env": env,
                "steps": steps,
                "raw": raw(env),
                "sweep": sweep(env, steps),
                "direct": direct(env, steps),
            }
            row["share_of_raw"] = row["sweep"] / row["raw"]
            row["overhead"] = row["direct"] / row["sweep"] - 1
            rows.append(row)
            print({k: round(v, 3) if isinstance(v, float) else v for k, v in row.items()})
    for env in TASKS:
        own = [row for row in rows if row["env"] == env]
        share, cost = (median(row[name] for row in own) for name in ("share_of_raw", "overhead"))
        print(f"{env}: {share:.0%} of the simulator alone, overhead {cost:.1%} (medians)")
    if options.out:
        with options.out.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(
                {k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()}
                for row in rows
            )


if __name__ == "__main__":
    main()
