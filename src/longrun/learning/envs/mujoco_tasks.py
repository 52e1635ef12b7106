"""Rewards, terminations and observations of Gymnasium's six MuJoCo tasks (v5)."""

from __future__ import annotations

import math
from typing import Any

import gymnasium
import numpy as np

from longrun.learning.envs.mujoco_stepper import Array, FastStepper, sum_of_squares


class HalfCheetah(FastStepper):
    def _outcome(self, x_velocity: float, action: Array) -> tuple[float, bool]:
        return self._forward_weight * x_velocity - self._control_cost(action), False


class Swimmer(HalfCheetah):
    _n_hidden = 2


class HealthTask(FastStepper):
    """A task that rewards being healthy and may terminate when unhealthy."""

    def __init__(self, env: gymnasium.Env[Any, Any], task: Any, max_steps: float) -> None:
        super().__init__(env, task, max_steps)
        self._healthy_reward = float(task._healthy_reward)
        self._ends_unhealthy = bool(task._terminate_when_unhealthy)
        self._z_min, self._z_max = map(float, task._healthy_z_range)


class Walker2d(HealthTask):
    def __init__(self, env: gymnasium.Env[Any, Any], task: Any, max_steps: float) -> None:
        super().__init__(env, task, max_steps)
        self._angle_min, self._angle_max = map(float, task._healthy_angle_range)
        self._clipped_qvel = np.empty_like(self._qvel)
        self._obs_parts[1] = self._clipped_qvel

    def is_healthy(self) -> bool:
        return (
            self._z_min < self._qpos.item(1) < self._z_max
            and self._angle_min < self._qpos.item(2) < self._angle_max
        )

    def _outcome(self, x_velocity: float, action: Array) -> tuple[float, bool]:
        self._qvel.clip(-10.0, 10.0, out=self._clipped_qvel)
        healthy = self.is_healthy()
        rewards = self._forward_weight * x_velocity + healthy * self._healthy_reward
        return rewards - self._control_cost(action), not healthy and self._ends_unhealthy


class Hopper(Walker2d):
    def __init__(self, env: gymnasium.Env[Any, Any], task: Any, max_steps: float) -> None:
        super().__init__(env, task, max_steps)
        self._state_min, self._state_max = map(float, task._healthy_state_range)

    def is_healthy(self) -> bool:
        low, high = self._state_min, self._state_max
        state = self._qpos.tolist()[2:] + self._qvel.tolist()
        return super().is_healthy() and all(low < value < high for value in state)


class ContactTask(HealthTask):
    """A task that also charges for contact forces, which only these tasks compute."""

    _n_hidden = 2

    def __init__(self, env: gymnasium.Env[Any, Any], task: Any, max_steps: float) -> None:
        from mujoco import mj_rnePostConstraint

        super().__init__(env, task, max_steps)
        self._compute_cfrc_ext = mj_rnePostConstraint  # mj_step itself does not compute cfrc_ext
        self._cfrc_ext: Array = task.data.cfrc_ext  # (bodies, 6)
        self._contact_weight = float(task._contact_cost_weight)


class Ant(ContactTask):
    def __init__(self, env: gymnasium.Env[Any, Any], task: Any, max_steps: float) -> None:
        super().__init__(env, task, max_steps)
        self._main_body_xyz: Array = task.data.body(task._main_body).xpos
        self._lagging.append(self._main_body_xyz)
        self._force_min, self._force_max = task._contact_force_range
        self._contact_forces = np.empty_like(self._cfrc_ext)
        if task._include_cfrc_ext_in_observation:
            self._obs_parts.append(self._contact_forces[1:].reshape(-1))

    def place(self) -> tuple[float, float]:
        return self._main_body_xyz.item(0), self._main_body_xyz.item(1)

    def _x(self) -> float:
        return self._main_body_xyz.item(0)

    def is_healthy(self) -> bool:
        return self._z_min <= self._qpos.item(2) <= self._z_max and all(
            map(math.isfinite, self._qpos.tolist() + self._qvel.tolist())
        )

    def _outcome(self, x_velocity: float, action: Array) -> tuple[float, bool]:
        self._compute_cfrc_ext(self._model, self._data)
        self._cfrc_ext.clip(self._force_min, self._force_max, out=self._contact_forces)
        contact_cost = self._contact_weight * float(sum_of_squares(self._contact_forces))
        healthy = self.is_healthy()
        rewards = self._forward_weight * x_velocity + healthy * self._healthy_reward
        costs = self._control_cost(action) + contact_cost
        return rewards - costs, not healthy and self._ends_unhealthy


class Humanoid(ContactTask):
    def __init__(self, env: gymnasium.Env[Any, Any], task: Any, max_steps: float) -> None:
        super().__init__(env, task, max_steps)
        data = task.data
        self._mass: Array = task.model.body_mass  # (bodies,)
        self._total_mass = float(self._mass.sum())
        self._xipos: Array = data.xipos  # (bodies, 3), centres of mass of the bodies
        self._lagging.append(self._xipos)
        self._contact_min, self._contact_max = map(float, task._contact_cost_range)
        optional_parts = [
            (data.cinert[1:], task._include_cinert_in_observation),
            (data.cvel[1:], task._include_cvel_in_observation),
            (data.qfrc_actuator[6:], task._include_qfrc_actuator_in_observation),
            (data.cfrc_ext[1:], task._include_cfrc_ext_in_observation),
        ]
        # "is True" as in Gymnasium, where other true values leave the part out.
        self._obs_parts += [part.reshape(-1) for part, wanted in optional_parts if wanted is True]

    def place(self) -> tuple[float, float]:
        # All three coordinates, though two are used: a shorter einsum may round differently.
        x, y, _ = np.einsum("b,bj->j", self._mass, self._xipos).tolist()
        return x / self._total_mass, y / self._total_mass

    def _x(self) -> float:
        return self.place()[0]

    def _outcome(self, x_velocity: float, action: Array) -> tuple[float, bool]:
        self._compute_cfrc_ext(self._model, self._data)
        contact_cost = self._contact_weight * float(sum_of_squares(self._cfrc_ext))
        contact_cost = min(max(contact_cost, self._contact_min), self._contact_max)
        healthy = self._z_min < self._qpos.item(2) < self._z_max
        rewards = self._forward_weight * x_velocity + healthy * self._healthy_reward
        # Humanoid charges for the float64 control signal, the other tasks for the action as given.
        costs = self._control_cost(self._ctrl) + contact_cost
        return rewards - costs, not healthy and self._ends_unhealthy
