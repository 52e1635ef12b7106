"""Training throughput in control steps per second: longrun, Stable-Baselines3, sbx, the simulator.

The machine drifts within minutes, so every measurement is a process of its own, a round measures
all contestants one after another, and ratios are formed inside a round; the tables show medians
over the rounds. The limit ("raw") is the simulator alone: open-loop mujoco.rollout, two threads.
Everyone trains with 10 environments x 200 steps, minibatches of 250, 10 epochs, 64x64 tanh
networks. The peers (benchmarks/requirements-peers.txt) may live in an interpreter of their own:

    python benchmarks/throughput.py --peers-python PEERS/bin/python --out
    python benchmarks/throughput.py --only cheetah memory --rounds 5
    python benchmarks/throughput.py --quick                          # does it all run? no figures
    python benchmarks/throughput.py --contestant raw --env Ant-v5    # one measurement, as JSON
"""

# Standard library only at the top: worker processes started by spawn import this file again.
import argparse
import contextlib
import csv
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from importlib import import_module, metadata
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

NUM_ENVS, ROLLOUT_STEPS, MINIBATCH, EPOCHS, REPLICAS = 10, 200, 250, 10, 4
ITERATION = NUM_ENVS * ROLLOUT_STEPS
RAW_STATES, RAW_SECONDS = 20, 2.0
PACKAGES = ("longrun", "stable-baselines3", "sbx-rl", "torch", "jax", "mujoco", "gymnasium")
CHEETAH, ANT, HUMANOID = "HalfCheetah-v5", "Ant-v5", "Humanoid-v5"
Row = dict[str, Any]


def measure_longrun(env: str, steps: int) -> float:
    """Steps per second of one run through the Python interface; a first call compiles."""
    from longrun import APO

    sizes = {"num_envs": NUM_ENVS, "rollout_steps": ROLLOUT_STEPS, "minibatch_size": MINIBATCH}
    agent = APO(env, seed=0, epochs=EPOCHS, **sizes)
    agent.learn(10 * ITERATION)
    start = time.perf_counter()
    agent.learn(steps)
    return steps / (time.perf_counter() - start)


def longrun_command(env: str, steps: int, out: Path, seeds: int = 1) -> list[str]:
    """The command line of a training run, with the `longrun` that belongs to this interpreter."""
    beside = Path(sys.executable).with_name("longrun")
    program = str(beside) if beside.exists() else shutil.which("longrun") or "longrun"
    sizes = ["--steps", str(steps), "--seeds", str(seeds), "--minibatch-size", str(MINIBATCH)]
    return [program, "train", "apo", "--env", env, *sizes, "--no-eval", "--out", str(out)]


def measure_replicas(env: str, steps: int) -> float:
    """Steps per second of all replicas together, as the command line's summary has it."""
    with tempfile.TemporaryDirectory() as folder:
        out, start = Path(folder, "run"), time.perf_counter()
        subprocess.run(longrun_command(env, steps, out, REPLICAS), check=True, stdout=sys.stderr)
        wall = time.perf_counter() - start
        summary = json.loads((out / "summary.json").read_text())
    if summary["steps_per_second"] < summary["steps"] * summary["replicas"] / wall:
        raise ValueError("summary.json: steps_per_second must count the steps of all replicas")
    return float(summary["steps_per_second"])


def measure_startup(env: str, steps: int) -> float:
    """Seconds from launching the command to its first row of metrics, compilation cache warm."""
    with tempfile.TemporaryDirectory() as folder:
        first, second = Path(folder, "first"), Path(folder, "second")
        subprocess.run(longrun_command(env, steps, first), check=True, stdout=sys.stderr)
        start, rows = time.perf_counter(), second / "metrics.csv"
        with subprocess.Popen(longrun_command(env, steps, second), stdout=sys.stderr) as process:
            ended = False
            while not rows.exists() or rows.read_text().count("\n") < 2:
                if ended:
                    raise RuntimeError("the run ended before it wrote a row to metrics.csv")
                ended = process.poll() is not None  # then look once more
                time.sleep(0.01)
            return time.perf_counter() - start


def measure_peer(module: str, env: str, steps: int) -> float:
    """Steps per second of a peer's PPO on its default vector environment, once it is warm."""
    import torch
    from stable_baselines3.common.env_util import make_vec_env

    if module == "stable_baselines3":
        torch.set_num_threads(1)  # two are no faster, and far slower when a core is busy
    sizes = {"n_steps": ROLLOUT_STEPS, "batch_size": MINIBATCH, "n_epochs": EPOCHS}
    model = import_module(module).PPO(
        "MlpPolicy",  # tanh is the default of both
        make_vec_env(env, n_envs=NUM_ENVS, seed=0),
        learning_rate=3e-4,
        gamma=0.99,
        gae_lambda=0.95,
        policy_kwargs={"net_arch": {"pi": [64, 64], "vf": [64, 64]}},
        device="cpu",
        seed=0,
        **sizes,
    )
    model.learn(2 * ITERATION)
    before, start = model.num_timesteps, time.perf_counter()
    model.learn(steps, reset_num_timesteps=False)
    return float(model.num_timesteps - before) / (time.perf_counter() - start)


def measure_raw(env: str, steps: int) -> float:
    """Steps per second of the simulator alone; random controls, each held for a control step.

    Each sweep takes the same states after reset through one rollout's length; `steps` is unused.
    The length matters for Humanoid only: fallen it is slow, 25 steps would run twice as fast.
    """
    import gymnasium
    import mujoco
    import numpy as np
    from mujoco.rollout import Rollout

    simulator: Any = gymnasium.make(env).unwrapped
    model, space = simulator.model, simulator.action_space
    full = mujoco.mjtState.mjSTATE_FULLPHYSICS
    states = np.empty((RAW_STATES, mujoco.mj_stateSize(model, full)))
    for seed, state in enumerate(states):
        simulator.reset(seed=seed)
        mujoco.mj_getState(model, simulator.data, state, full)
    shape = (RAW_STATES, ROLLOUT_STEPS, model.nu)
    controls = np.random.default_rng(0).uniform(space.low, space.high, shape)
    controls = controls.repeat(simulator.frame_skip, axis=1)
    data = [mujoco.MjData(model) for _ in range(2)]  # one a thread
    with Rollout(nthread=len(data)) as pool:
        pool.rollout(model, data, states, controls)
        start, sweeps = time.perf_counter(), 0
        while (seconds := time.perf_counter() - start) < RAW_SECONDS:
            pool.rollout(model, data, states, controls)
            sweeps += 1
    return sweeps * RAW_STATES * ROLLOUT_STEPS / seconds


CONTESTANTS: dict[str, Callable[[str, int], float]] = {
    "longrun": measure_longrun,
    "replicas": measure_replicas,
    "startup": measure_startup,
    "raw": measure_raw,
    "sb3": lambda env, steps: measure_peer("stable_baselines3", env, steps),
    "sbx": lambda env, steps: measure_peer("sbx", env, steps),
}
STEPS = {"longrun": 200_000, "replicas": 100_000, "sb3": 20_000, "sbx": 30_000}  # some 10 s each


def tree_memory(pid: int) -> float:
    """Megabytes of a process and its descendants (PSS: shared pages are split, not repeated)."""
    total = 0.0
    with contextlib.suppress(OSError):  # processes end while one looks at them
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            total += sum(tree_memory(int(child)) for child in task.read_text().split())
    return total


def run_contestant(name: str, env: str, steps: int) -> Row:
    """Measure in this process, while a thread watches its memory and that of its children."""
    peak, finished = [tree_memory(os.getpid())], threading.Event()

    def watch() -> None:
        while not finished.wait(0.5):
            peak.append(tree_memory(os.getpid()))

    threading.Thread(target=watch, daemon=True).start()
    value = CONTESTANTS[name](env, steps)
    finished.set()
    versions = {}
    for package in PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    unit = "seconds" if name == "startup" else "steps_per_second"
    return {unit: value, "memory_mb": max(peak), "versions": versions}


class Goal(NamedTuple):
    """A figure of each round: a column of `ours`, over that of `theirs` where there is one."""

    case: str
    title: str
    ours: str
    theirs: str | None
    env: str = CHEETAH
    column: str = "steps_per_second"
    target: float | None = None
    aim: float | None = None

    def value(self, rows: list[Row]) -> float | None:
        """The figure from the rows of one round and case; None where a measurement is missing."""
        found = {row["contestant"]: row.get(self.column) for row in rows if row["env"] == self.env}
        ours, theirs = found.get(self.ours), found.get(self.theirs) if self.theirs else 1.0
        return ours / theirs if ours and theirs else None

    def verdict(self, value: float) -> str:
        """Where the figure stands: rates ought to be high, megabytes and seconds low."""
        sign = 1 if self.column == "steps_per_second" else -1
        for level, words in ((self.aim, "aim reached"), (self.target, "target met")):
            if level is not None and sign * value >= sign * level:
                return words
        return "no target" if self.target is None else "target missed"


# What a round measures, in this order; a raw measurement stands next to each of ours.
PLANS: dict[str, list[tuple[str, str]]] = {
    "cheetah": [(name, CHEETAH) for name in ("longrun", "raw", "sb3", "sbx")],
    "limit": [(name, env) for env in (ANT, HUMANOID) for name in ("longrun", "raw")],
    "replicas": [("replicas", CHEETAH), ("raw", CHEETAH)],
    "memory": [("longrun", CHEETAH)],
    "startup": [("startup", CHEETAH)],
}
GOALS = (
    Goal("cheetah", "times sb3", "longrun", "sb3", target=4.5, aim=7),
    Goal("cheetah", "times sbx", "longrun", "sbx", target=4.5, aim=7),
    Goal("cheetah", "share of raw", "longrun", "raw"),
    Goal("limit", "share of raw, Ant", "longrun", "raw", ANT, target=0.5, aim=0.75),
    Goal("limit", "share of raw, Humanoid", "longrun", "raw", HUMANOID, target=0.5, aim=0.75),
    Goal("replicas", "share of raw, four replicas", "replicas", "raw", target=0.5, aim=0.65),
    Goal("memory", "peak memory, MB", "longrun", None, column="memory_mb", target=1500),
    Goal("startup", "seconds to first iteration", "startup", None, column="seconds", target=5),
)


def measure(name: str, env: str, options: argparse.Namespace) -> Row:
    """Run a contestant in a process of its own and read the JSON line it prints."""
    steps = 60_000 if env in (ANT, HUMANOID) else STEPS.get(name, 10 * ITERATION)
    python = options.peers_python if name in ("sb3", "sbx") else sys.executable
    script = str(Path(__file__).absolute())
    command = [python, "-W", "ignore", script, "--contestant", name, "--env", env]
    command += ["--steps", str(2 * ITERATION if options.quick else steps)]
    environment = {"JAX_PLATFORMS": "cpu", **os.environ}
    with tempfile.TemporaryDirectory() as folder:  # MuJoCo logs into the working directory
        done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        return {"error": (done.stderr.strip().splitlines() or ["no result"])[-1]}
    return dict(json.loads(lines[-1]))


def run_rounds(options: argparse.Namespace, say: Callable[[str], None]) -> list[Row]:
    """All measurements, round after round; one that fails is reported and carries its error."""
    rows: list[Row] = []
    for number in range(1, options.rounds + 1):
        for case in options.only:
            for name, env in PLANS[case]:
                row = {"case": case, "contestant": name, "env": env, "round": number}
                rows.append(row | measure(name, env, options))
                told = rows[-1].get("error") or figures(rows[-1:])
                say(f"round {number}, {case}: {name} {env}: {told}")
    return rows


def figures(rows: list[Row]) -> str:
    """The medians of each column that has numbers, in words."""
    words = []
    for column, unit in (("steps_per_second", "steps/s"), ("seconds", "s"), ("memory_mb", "MB")):
        if numbers := [row[column] for row in rows if column in row]:
            words.append(f"{median(numbers):,.{1 if unit == 's' else 0}f} {unit}")
    return ", ".join(words) or "failed"


def tables(rows: list[Row], rounds: int) -> list[Any]:
    """Two rich tables: the medians of each contestant, and the goals from ratios within rounds."""
    from rich.table import Table

    medians = Table("case", "contestant", "task", "median", title=f"Medians of {rounds} round(s)")
    goals = Table("case", "figure", "median", "range", "target", "aim", "verdict")
    goals.title = "Goals, from ratios within each round"
    for case, name, env in dict.fromkeys((r["case"], r["contestant"], r["env"]) for r in rows):
        group = [r for r in rows if (r["case"], r["contestant"], r["env"]) == (case, name, env)]
        medians.add_row(case, name, env, figures(group))
    for goal in GOALS:
        mine = [row for row in rows if row["case"] == goal.case]
        each = [goal.value([r for r in mine if r["round"] == k + 1]) for k in range(rounds)]
        levels = ["-" if level is None else f"{level:g}" for level in (goal.target, goal.aim)]
        if values := [value for value in each if value is not None]:
            middle, span = median(values), f"{min(values):.2f} to {max(values):.2f}"
            cells = [f"{middle:.2f}", span, *levels, goal.verdict(middle)]
            goals.add_row(goal.case, goal.title, *cells)
        elif mine:
            goals.add_row(goal.case, goal.title, "-", "-", *levels, "not measured")
    return [medians, goals]


def write_results(rows: list[Row], folder: Path) -> None:
    """throughput.csv, and beside it throughput.json with what made the figures."""
    folder.mkdir(parents=True, exist_ok=True)
    columns = ["case", "contestant", "env", "round", "steps_per_second", "seconds", "memory_mb"]
    with open(folder / "throughput.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    info = Path("/proc/cpuinfo")
    text = info.read_text() if info.exists() else ""
    models = [line.split(":")[1].strip() for line in text.splitlines() if "model name" in line]
    about = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": shlex.join(["python", *sys.argv]),
        "cpu": models[0] if models else platform.processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "versions": {row["contestant"]: row["versions"] for row in rows if "versions" in row},
        "errors": [row for row in rows if "error" in row],
    }
    (folder / "throughput.json").write_text(json.dumps(about, indent=2) + "\n")


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line; see --help."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--only", nargs="+", choices=PLANS, default=list(PLANS), help="the cases to measure")
    add("--rounds", type=int, help="how often to measure each (default 3; 1 with --quick)")
    add("--quick", action="store_true", help="few steps: shows that it runs, measures nothing")
    add("--peers-python", default=sys.executable, help="the interpreter that has the peers")
    results = Path(__file__).with_name("results")
    add("--out", type=Path, nargs="?", const=results, help="write CSV and JSON (to results/ here)")
    add("--contestant", choices=CONTESTANTS, help="measure one, in this process; print JSON")
    add("--env", default=CHEETAH, help="the task of --contestant")
    add("--steps", type=int, default=20_000, help="the timed steps of --contestant")
    options = parser.parse_args(arguments)
    options.rounds = options.rounds or (1 if options.quick else 3)
    found = shutil.which(options.peers_python) or parser.error("--peers-python: no such program")
    options.peers_python = os.path.abspath(found)  # not resolved: a venv is known by its link
    return options


def main() -> int:
    """Measure, show, write; the exit status is 1 when a measurement failed."""
    options = parse()
    if options.contestant:
        print(json.dumps(run_contestant(options.contestant, options.env, options.steps)))
        return 0
    from rich.console import Console

    console = Console()
    rows = run_rounds(options, partial(console.print, markup=False, soft_wrap=True))
    console.print(*tables(rows, options.rounds), sep="\n")
    if options.quick:
        console.print("A smoke run: it shows that everything runs, its figures mean nothing.")
    if options.out:
        write_results(rows, options.out)
    return int(any("error" in row for row in rows))


if __name__ == "__main__":
    sys.exit(main())
