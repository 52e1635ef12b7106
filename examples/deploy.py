"""From training to a program that uses the policy: a shop's orders, when its demand grows.

What one learns from it: to save the agent with the best evaluation; to measure what it is worth
after the demand has changed; to fine-tune it with other options and arguments of the environment
(`APO.load(path, learning_rate=..., env_args=...)`); to export it to ONNX; to use it in a program
that imports NumPy alone (`longrun.load_policy`). Needs the extra `onnx`.

One seed took 45 seconds of processor time when nothing was compiled before. `--seeds 3` then took
15 seconds and printed (seeds 0 to 2; less than the least cost is noise):

    least cost per day: 14.42, after the demand has grown 26.80
    APO, seed 0: 14.40; after the demand has grown 31.67, fine-tuned 28.07
    APO, seed 1: 14.40; after the demand has grown 32.41, fine-tuned 27.65
    APO, seed 2: 14.41; after the demand has grown 31.65, fine-tuned 27.69
    ONNX: orders at stocks of 0 to 20: 9 9 9 9 9 9 9 0 0 0 0 0 0 0 0 0 0 0 0 0 0
    NumPy: orders at stocks of 0 to 20: 9 9 9 9 9 9 9 0 0 0 0 0 0 0 0 0 0 0 0 0 0
    JAX was imported: False
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnxruntime

from longrun import APO, callbacks
from longrun.tabular import MODELS, solve

BEFORE, AFTER = {"mean_demand": 3.0}, {"mean_demand": 7.0}
CAPACITY = 20
PROGRAM = """
import sys
import numpy as np
from longrun import load_policy

policy = load_policy(sys.argv[1])
orders = []
for stock in range(21):
    room = np.arange(21) <= 20 - stock  # the orders for which there is room
    seen = {"action_mask": room.astype(np.int8), "observation": np.float32([stock / 10 - 1])}
    orders.append(int(policy.predict(seen)[0]))
print("orders at stocks of 0 to 20:", *orders)
print("JAX was imported:", "jax" in sys.modules)
"""
"""What runs in the shop; its observations are those of the training (`agent.observation_space`)."""


def env_name(arguments: dict[str, float]) -> str:
    return "jax:inventory?" + "&".join(f"{name}={value}" for name, value in arguments.items())


def optimum(arguments: dict[str, float]) -> float:
    """The least cost per day; it is known exactly here."""
    return -solve(MODELS["inventory"](**arguments)).gain


def train(folder: Path, seed: int, given: argparse.Namespace) -> Path:
    """The folder of the agent with the best evaluation during a training."""
    agent = APO(
        "jax:inventory",
        preset="queueing",
        env_args=BEFORE,
        seed=seed,
        num_envs=32,
        rollout_steps=64,
        minibatch_size=512,
        learning_rate=2e-3,
        hidden_sizes=(32, 32),
    )
    agent.learn(
        given.steps,
        log_dir=folder / "trained",
        eval_every=given.steps // 10,
        eval_steps=given.eval_steps,
        on_log=callbacks.save_best(),
    )
    return folder / "trained" / "best"


def fine_tune(best: Path, folder: Path, given: argparse.Namespace) -> APO:
    """It starts from what was learned before: a smaller learning rate and fewer steps."""
    agent = APO.load(best, learning_rate=1e-3, env_args=AFTER)
    agent.learn(given.steps // 2, log_dir=folder / "tuned", eval_every=0)
    agent.save(folder / "policy")
    return agent


def deploy(agent: APO, folder: Path) -> None:
    """The same policy as an ONNX file, and in a process with NumPy alone."""
    agent.export(folder / "policy.onnx")  # it is compared with agent.predict before it is written
    session = onnxruntime.InferenceSession(folder / "policy.onnx")
    stocks = np.arange(CAPACITY + 1)
    inputs = {
        "action_mask": (stocks <= CAPACITY - stocks[:, None]).astype(np.float32),
        "observation": np.float32(stocks[:, None] / 10 - 1),
    }
    (orders,) = session.run(["action"], inputs)
    print("ONNX: orders at stocks of 0 to 20:", *np.ravel(orders))
    command = [sys.executable, "-c", PROGRAM, str(folder / "policy")]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    print("NumPy:", printed.strip())


def run(given: argparse.Namespace) -> None:
    out = given.out or Path("runs") / time.strftime("deploy-%Y%m%d-%H%M%S")
    before, after = optimum(BEFORE), optimum(AFTER)
    print(f"least cost per day: {before:.2f}, after the demand has grown {after:.2f}")
    for seed in range(given.seed, given.seed + given.seeds):
        folder = out / str(seed)
        best = train(folder, seed, given)
        agent = APO.load(best)
        cost = -agent.evaluate(given.eval_steps).average_reward
        changed = -agent.evaluate(given.eval_steps, env=env_name(AFTER)).average_reward
        tuned = fine_tune(best, folder, given)
        mended = -tuned.evaluate(given.eval_steps).average_reward
        print(
            f"APO, seed {seed}: {cost:.2f}; after the demand has grown {changed:.2f},"
            f" fine-tuned {mended:.2f}"
        )
    deploy(tuned, folder)


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=400_000)
    parser.add_argument("--eval-steps", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--seeds", type=int, default=1, help="how many")
    parser.add_argument("--out", type=Path, help="a new folder (default: under runs/)")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    run(parsed())
