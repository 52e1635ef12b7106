"""Pictures of docs/diagnostics.md: from short runs on a thermostat, and from files of results."""

from __future__ import annotations

import csv
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator
from numpy.typing import NDArray

from longrun import APO, Environment, Spaces, Step, read_metrics

BLUE, RED, GREY = "#0a6fb8", "#d1495b", "#b5b9c0"
RESULTS = Path(__file__).parents[1] / "results"
STEPS = 600_000
COLUMNS = ["value_mean", "entropy", "reward"]
COMMON = {
    "preset": "paper",
    "num_envs": 32,
    "rollout_steps": 100,
    "action_bounds": "clip",
    "normalize_advantages": True,
}
LOST_SEED = 1
"""The seed of Swimmer that loses its gait; the others are drawn in grey."""

Curve = tuple[list[float], list[float]]
Curves = Mapping[str, NDArray[np.float64]]


@dataclass(frozen=True)
class Thermostat(Environment):
    """Keep a room at 20 degrees; heating costs. As in docs/own-environment.md."""

    name = "thermostat"
    spaces = Spaces(observation_size=1, action_size=1, low=(0.0,), high=(2.0,))
    terminates = False

    def reset(self, key: Any) -> Any:
        temperature = 20.0 + jax.random.normal(key)
        return temperature, jnp.array([temperature - 20.0])

    def step(self, key: Any, temperature: Any, action: Any) -> Step:
        heat = action[0] - 0.1 * (temperature - 5.0)
        temperature += heat + 0.1 * jax.random.normal(key)
        reward = -((temperature - 20.0) ** 2) - 0.1 * action[0]
        return Step(temperature, jnp.array([temperature - 20.0]), reward, terminated=False)


@cache
def trained(**options: float) -> Curves:
    """`COLUMNS` of metrics.csv and the steps, each [iterations], of one run with seed 0."""
    with tempfile.TemporaryDirectory() as folder:
        agent = APO(Thermostat(), **COMMON, **options)
        agent.learn(STEPS, log_dir=Path(folder) / "run", eval_every=0, progress_bar=False)
        found = read_metrics(Path(folder) / "run", COLUMNS)[0]
    return {"step": found.steps} | {name: found.values[name][:, 0] for name in COLUMNS}


def drifting_values(path: Path) -> None:
    """Average value and reward, without the constraint and with it."""
    figure = Figure(figsize=(10.5, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    for nu, colour in ((0.0, RED), (0.1, BLUE)):
        curves = trained(value_constraint=nu)
        left.plot(curves["step"], curves["value_mean"], color=colour, label=f"nu {nu:g}")
        right.plot(curves["step"], curves["reward"], color=colour, label=f"nu {nu:g}")
    left.set_title("value_mean", loc="left")
    left.legend(frameon=False)
    right.set_title("reward", loc="left")
    right.set_ylim(-3, 0)
    for axis in (left, right):
        _step_axis(axis)
    figure.savefig(path, dpi=120)


def saturated_deviation(path: Path) -> None:
    """Deviation and reward with a strong entropy bonus, and a run that such a deviation ruined."""
    figure = Figure(figsize=(10.5, 3.6), layout="constrained")
    deviation, reward, cheetah = figure.subplots(1, 3)
    for bonus, colour in ((0.1, RED), (0.01, BLUE)):
        curves = (
            trained(entropy_coefficient=bonus) if bonus != 0.01 else trained(value_constraint=0.1)
        )
        label = f"entropy bonus {bonus:g}"
        spread = np.exp(curves["entropy"] - 0.5 * np.log(2 * np.pi * np.e))
        deviation.plot(curves["step"], spread, color=colour, label=label)
        reward.plot(curves["step"], curves["reward"], color=colour, label=label)
    deviation.axhline(2, color="0.4", linestyle="--", linewidth=1)
    deviation.annotate("width of the bounds", (STEPS, 2.2), ha="right", color="0.4", fontsize=9)
    deviation.set_yscale("log")
    deviation.set_title("standard deviation of the actions", loc="left", fontsize=11)
    deviation.legend(frameon=False, fontsize=9)
    reward.set_ylim(-3, 0)
    reward.set_title("reward", loc="left", fontsize=11)
    for (algorithm, discount, _), curve in _read("halfcheetah-3m.csv").items():
        if algorithm == "ppo" and discount in ("0.999", "0.99"):
            colour = RED if discount == "0.999" else BLUE
            cheetah.plot(*curve, color=colour, linewidth=1)
    cheetah.set_yscale("symlog", linthresh=1000)
    cheetah.set_title("HalfCheetah-v5, episode return", loc="left", fontsize=11)
    cheetah.set_yticks([1000, 0, -1000, -1e4, -1e5, -1e6])
    cheetah.yaxis.set_major_formatter(EngFormatter())
    cheetah.annotate("PPO 0.999", (1e6, -1e5), color=RED, ha="right")
    cheetah.annotate("PPO 0.99", (2.9e6, 400), color=BLUE, ha="right", va="top")
    for axis in (deviation, reward, cheetah):
        _step_axis(axis)
    figure.savefig(path, dpi=120)


def collapsing_gait(path: Path) -> None:
    """Episode return of APO's seeds on Swimmer, of which one loses its gait."""
    figure = Figure(figsize=(8.4, 3.6), layout="constrained")
    axis = figure.subplots()
    for (algorithm, _, seed), curve in _read("swimmer-3m.csv").items():
        if algorithm == "apo":
            lost = int(seed) == LOST_SEED
            axis.plot(*curve, color=RED if lost else GREY, linewidth=1.6 if lost else 1)
    axis.set_title("Swimmer-v5, APO, paper preset: episode return of five seeds", loc="left")
    _step_axis(axis)
    figure.savefig(path, dpi=120)


def _read(name: str) -> dict[tuple[str, str, str], Curve]:
    """Steps and episode returns of each algorithm, discount and seed in a file of results."""
    curves: dict[tuple[str, str, str], Curve] = defaultdict(lambda: ([], []))
    with (RESULTS / "figure1-raw" / name).open() as file:
        for row in csv.DictReader(file):
            steps, returns = curves[row["algorithm"], row["discount"], row["seed"]]
            steps.append(float(row["step"]))
            returns.append(float(row["episode_return"]))
    return dict(curves)


def _step_axis(axis: Axes) -> None:
    axis.xaxis.set_major_formatter(EngFormatter())
    axis.xaxis.set_major_locator(MaxNLocator(4))
    axis.set_xlabel("steps")
    axis.spines[["top", "right"]].set_visible(False)
