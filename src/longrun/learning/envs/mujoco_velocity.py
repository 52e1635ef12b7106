"""MuJoCo tasks with a limited speed: a cost of 1 in each step that is faster than a threshold.

`HalfCheetahVelocity-v5` and its five siblings are Gymnasium's tasks (v5) with `info["cost"]`. The
thresholds are those of safety-gymnasium's velocity tasks (v1), whose limit of 25 in an episode of
1000 steps is a rate of .025: `APO("HalfCheetahVelocity-v5", limits={"cost": 0.025})`.
"""

from __future__ import annotations

import math
from typing import Any

import gymnasium

THRESHOLDS = {
    "Ant": 2.6222,
    "HalfCheetah": 3.2096,
    "Hopper": 0.7402,
    "Humanoid": 1.4149,
    "Swimmer": 0.2282,
    "Walker2d": 2.3415,
}
IN_THE_PLANE = ("Ant", "Humanoid")
"""Tasks whose speed is that in the plane; the others' is along x."""


class SpeedCost(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Adds the cost to `info`."""

    def __init__(self, env: gymnasium.Env[Any, Any], threshold: float, in_plane: bool) -> None:
        super().__init__(env)
        self.threshold, self.in_plane = threshold, in_plane

    def step(self, action: Any) -> Any:
        *facts, info = self.env.step(action)
        y_velocity = info["y_velocity"] if self.in_plane else 0.0
        return *facts, {**info, "cost": self.cost(info["x_velocity"], y_velocity)}

    def cost(self, x_velocity: float, y_velocity: float) -> float:
        speed = math.sqrt(x_velocity**2 + y_velocity**2) if self.in_plane else x_velocity
        return float(speed > self.threshold)


def velocity_task(task: str, **arguments: Any) -> SpeedCost:
    """The environment of a task in THRESHOLDS, with arguments of Gymnasium's."""
    env = gymnasium.make(f"{task}-v5", **arguments).unwrapped
    return SpeedCost(env, THRESHOLDS[task], task in IN_THE_PLANE)


for _task in THRESHOLDS:
    if f"{_task}Velocity-v5" not in gymnasium.registry:
        gymnasium.register(
            f"{_task}Velocity-v5",
            "longrun.learning.envs.mujoco_velocity:velocity_task",
            max_episode_steps=1000,
            kwargs={"task": _task},
        )
