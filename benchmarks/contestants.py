"""One contestant's training throughput, measured in this process and printed as a line of JSON.

python benchmarks/contestants.py raw --env Ant-v5 --steps 20000
"""

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

NUM_ENVS, ROLLOUT_STEPS, MINIBATCH, EPOCHS, REPLICAS = 10, 200, 250, 10, 4
ITERATION = NUM_ENVS * ROLLOUT_STEPS
RAW_STATES, RAW_SECONDS = 20, 2.0
PACKAGES = ("longrun", "stable-baselines3", "sbx-rl", "torch", "jax", "mujoco", "gymnasium")
Row = dict[str, Any]


def measure_longrun(env: str, steps: int) -> float:
    """Steps per second of one run through the Python interface, after its first iteration."""
    from longrun import APO

    sizes = {"num_envs": NUM_ENVS, "rollout_steps": ROLLOUT_STEPS, "minibatch_size": MINIBATCH}
    rates: list[float] = []
    agent = APO(env, seed=0, preset="paper", epochs=EPOCHS, **sizes)
    agent.learn(steps, on_log=lambda progress: rates.append(progress.steps_per_second))
    return rates[-1]


def longrun_command(env: str, steps: int, out: Path, seeds: int = 1) -> list[str]:
    """The command line of a training run, with the `longrun` that belongs to this interpreter."""
    beside = Path(sys.executable).with_name("longrun")
    program = str(beside) if beside.exists() else shutil.which("longrun") or "longrun"
    sizes = ["--steps", str(steps), "--seeds", str(seeds), "--minibatch-size", str(MINIBATCH)]
    words = ["train", "apo", "--preset", "paper", "--env", env, *sizes, "--no-eval"]
    return [program, *words, "--out", str(out)]


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


def measure_peer(module: str, processes: str, threads: int, env: str, steps: int) -> float:
    """Steps per second of a peer's PPO, once it is warm; in one process or with subprocesses."""
    if threads == 1:  # XLA reads it when JAX is imported
        os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    import torch
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

    torch.set_num_threads(threads)
    kind = SubprocVecEnv if processes == "subprocesses" else DummyVecEnv
    sizes = {"n_steps": ROLLOUT_STEPS, "batch_size": MINIBATCH, "n_epochs": EPOCHS}
    model = import_module(module).PPO(
        "MlpPolicy",  # tanh is the default of both
        make_vec_env(env, n_envs=NUM_ENVS, seed=0, vec_env_cls=kind),
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
    rate = float(model.num_timesteps - before) / (time.perf_counter() - start)
    model.get_env().close()
    return rate


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
} | {
    f"{peer}, {processes}, {words}": partial(measure_peer, module, processes, threads)
    for peer, module in (("sb3", "stable_baselines3"), ("sbx", "sbx"))
    for processes in ("one process", "subprocesses")
    for threads, words in ((1, "1 thread"), (2, "2 threads"))
}
STEPS = {"longrun": 200_000, "replicas": 100_000, "startup": 20_000}
PEER_STEPS = 30_000  # some 10 s each


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("contestant", choices=CONTESTANTS)
    parser.add_argument("--env", default="HalfCheetah-v5")
    parser.add_argument("--steps", type=int, default=20_000, help="timed steps")
    given = parser.parse_args()
    print(json.dumps(run_contestant(given.contestant, given.env, given.steps)))


if __name__ == "__main__":
    main()
