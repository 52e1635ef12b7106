"""Step Gymnasium's MuJoCo tasks without Gymnasium's Python layer, the same to the bit.

`fast_stepper(env)` drives the model and data *inside* a Gymnasium environment: it makes the same
`mj_step` call and does the same arithmetic, in the same order and precision, on arrays looked up
once, and leaves out the info dictionary, the wrapper calls, the checks and the temporary arrays.

What makes it exact:

* MuJoCo's arrays (`data.qpos`, ...) are views of C memory that never moves, not even in
  `mj_resetData`, so one view taken at construction stays current.
* Python floats are IEEE doubles, so scalar work on them equals NumPy's float64 work, only faster.
* NumPy multiplies a Python float by a float32 in float32. The control cost of a float32 action is
  therefore a float32, here as there; see `_control_cost`.
* Sums go through the reduction Gymnasium's `np.sum` ends in, so they add up in the same order.

Constants (weights, ranges, time step, masses) are read at construction: build a new stepper after
changing them. All that changes in the environment is a solver flag, see `FastStepper.__init__`.
Mujoco is imported only once a MuJoCo task turns up.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import gymnasium
import numpy as np
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]


def _sum_of_squares(x: Array) -> np.floating[Any]:
    """`np.sum(np.square(x))` in the dtype of `x`, without `np.sum`'s slow argument handling."""
    total: np.floating[Any] = np.add.reduce(np.square(x), axis=None)
    return total


class FastStepper(ABC):
    """One MuJoCo task. A subclass gives the x coordinate, reward and termination of its task.

    The stepper keeps one piece of state of its own, the steps since the last reset. Hence, between
    two resets, step either through it or through the environment, not through both.
    """

    # Leading root coordinates (x, or x and y) that the observation leaves out by default.
    _n_hidden = 1

    def __init__(self, env: gymnasium.Env[Any, Any], task: Any, max_steps: float) -> None:
        """`env` is the whole wrapper chain, `task` its innermost environment."""
        from mujoco import mj_step, mjtDisableBit

        # All six robots are one kinematic tree, hence at most one constraint island. Not looking
        # for it leaves the solver the same system and saves up to a tenth of the physics.
        if task.model.ntree == 1 and not task.model.opt.enableflags:
            task.model.opt.disableflags |= mjtDisableBit.mjDSBL_ISLAND

        self._env = env
        self._mj_step = mj_step
        self._model, self._data = task.model, task.data
        self._frame_skip, self._dt = task.frame_skip, task.dt
        self._max_steps = max_steps
        self._elapsed = 0

        self._qpos: Array = task.data.qpos
        self._qvel: Array = task.data.qvel
        self._ctrl: Array = task.data.ctrl
        self._forward_weight = float(task._forward_reward_weight)
        self._ctrl_weight = task._ctrl_cost_weight  # as given: its type decides the precision
        hidden = self._n_hidden if task._exclude_current_positions_from_observation else 0
        # 1-D views that, one after the other, make up the observation.
        self._obs_parts: list[Array] = [self._qpos[hidden:], self._qvel]

    def reset(self, seed: int, obs_out: Array) -> None:
        """Start an episode through Gymnasium's own reset; `obs_out`: (observation size,)."""
        obs_out[:] = self._env.reset(seed=seed)[0]
        self._elapsed = 0

    def step(self, action: Array, obs_out: Array) -> tuple[float, bool, bool]:
        """Apply `action` (nu,); write `obs_out` (observation size,).

        Returns (reward, terminated, truncated). Of an action beyond its bounds MuJoCo applies the
        bound, and the control cost is charged on the action itself, as in Gymnasium's step.
        """
        x_before = self._x()
        self._ctrl[:] = action
        self._mj_step(self._model, self._data, self._frame_skip)
        reward, terminated = self._outcome((self._x() - x_before) / self._dt, action)
        np.concatenate(self._obs_parts, out=obs_out)
        self._elapsed += 1
        return reward, terminated, self._elapsed >= self._max_steps

    def _x(self) -> float:
        """The coordinate whose rate of change is rewarded."""
        return self._qpos.item(0)

    @abstractmethod
    def _outcome(self, x_velocity: float, action: Array) -> tuple[float, bool]:
        """(reward, terminated) after a step; also refreshes computed parts of the observation."""

    def _control_cost(self, action: Array) -> float:
        return float(self._ctrl_weight * _sum_of_squares(action))


class _HalfCheetah(FastStepper):
    def _outcome(self, x_velocity: float, action: Array) -> tuple[float, bool]:
        return self._forward_weight * x_velocity - self._control_cost(action), False


class _Swimmer(_HalfCheetah):
    _n_hidden = 2


class _Mortal(FastStepper):
    """A task that rewards being healthy and may end when that is lost."""

    def __init__(self, env: gymnasium.Env[Any, Any], task: Any, max_steps: float) -> None:
        super().__init__(env, task, max_steps)
        self._healthy_reward = float(task._healthy_reward)
        self._ends_unhealthy = bool(task._terminate_when_unhealthy)
        self._z_min, self._z_max = map(float, task._healthy_z_range)


class _Walker2d(_Mortal):
    def __init__(self, env: gymnasium.Env[Any, Any], task: Any, max_steps: float) -> None:
        super().__init__(env, task, max_steps)
        self._angle_min, self._angle_max = map(float, task._healthy_angle_range)
        self._clipped_qvel = np.empty_like(self._qvel)
        self._obs_parts[1] = self._clipped_qvel

    def _is_healthy(self) -> bool:
        return (
            self._z_min < self._qpos.item(1) < self._z_max
            and self._angle_min < self._qpos.item(2) < self._angle_max
        )

    def _outcome(self, x_velocity: float, action: Array) -> tuple[float, bool]:
        self._qvel.clip(-10.0, 10.0, out=self._clipped_qvel)
        healthy = self._is_healthy()
        rewards = self._forward_weight * x_velocity + healthy * self._healthy_reward
        return rewards - self._control_cost(action), not healthy and self._ends_unhealthy


class _Hopper(_Walker2d):
    def __init__(self, env: gymnasium.Env[Any, Any], task: Any, max_steps: float) -> None:
        super().__init__(env, task, max_steps)
        self._state_min, self._state_max = map(float, task._healthy_state_range)

    def _is_healthy(self) -> bool:
        low, high = self._state_min, self._state_max
        state = self._qpos.tolist()[2:] + self._qvel.tolist()
        return super()._is_healthy() and all(low < value < high for value in state)


class _Bruisable(_Mortal):
    """A mortal task that charges for contact forces; no other task needs them computed."""

    _n_hidden = 2

    def __init__(self, env: gymnasium.Env[Any, Any], task: Any, max_steps: float) -> None:
        from mujoco import mj_rnePostConstraint

        super().__init__(env, task, max_steps)
        self._compute_cfrc_ext = mj_rnePostConstraint  # mj_step itself leaves cfrc_ext alone
        self._cfrc_ext: Array = task.data.cfrc_ext  # (bodies, 6)
        self._contact_weight = float(task._contact_cost_weight)


class _Ant(_Bruisable):
    def __init__(self, env: gymnasium.Env[Any, Any], task: Any, max_steps: float) -> None:
        super().__init__(env, task, max_steps)
        self._main_body_xyz: Array = task.data.body(task._main_body).xpos
        self._force_min, self._force_max = task._contact_force_range
        self._contact_forces = np.empty_like(self._cfrc_ext)
        if task._include_cfrc_ext_in_observation:
            self._obs_parts.append(self._contact_forces[1:].reshape(-1))

    def _x(self) -> float:
        return self._main_body_xyz.item(0)

    def _is_healthy(self) -> bool:
        return self._z_min <= self._qpos.item(2) <= self._z_max and all(
            map(math.isfinite, self._qpos.tolist() + self._qvel.tolist())
        )

    def _outcome(self, x_velocity: float, action: Array) -> tuple[float, bool]:
        self._compute_cfrc_ext(self._model, self._data)
        self._cfrc_ext.clip(self._force_min, self._force_max, out=self._contact_forces)
        contact_cost = self._contact_weight * float(_sum_of_squares(self._contact_forces))
        healthy = self._is_healthy()
        rewards = self._forward_weight * x_velocity + healthy * self._healthy_reward
        costs = self._control_cost(action) + contact_cost
        return rewards - costs, not healthy and self._ends_unhealthy


class _Humanoid(_Bruisable):
    def __init__(self, env: gymnasium.Env[Any, Any], task: Any, max_steps: float) -> None:
        super().__init__(env, task, max_steps)
        data = task.data
        self._mass: Array = task.model.body_mass  # (bodies,)
        self._total_mass = float(self._mass.sum())
        self._xipos: Array = data.xipos  # (bodies, 3), centres of mass of the bodies
        self._contact_min, self._contact_max = map(float, task._contact_cost_range)
        optional_parts = [
            (data.cinert[1:], task._include_cinert_in_observation),
            (data.cvel[1:], task._include_cvel_in_observation),
            (data.qfrc_actuator[6:], task._include_qfrc_actuator_in_observation),
            (data.cfrc_ext[1:], task._include_cfrc_ext_in_observation),
        ]
        # "is True" as in Gymnasium, where another true value leaves the part out.
        self._obs_parts += [part.reshape(-1) for part, wanted in optional_parts if wanted is True]

    def _x(self) -> float:
        # All three coordinates, though one is used: a shorter einsum may round differently.
        moment: float = np.einsum("b,bj->j", self._mass, self._xipos).item(0)
        return moment / self._total_mass

    def _outcome(self, x_velocity: float, action: Array) -> tuple[float, bool]:
        self._compute_cfrc_ext(self._model, self._data)
        contact_cost = self._contact_weight * float(_sum_of_squares(self._cfrc_ext))
        contact_cost = min(max(contact_cost, self._contact_min), self._contact_max)
        healthy = self._z_min < self._qpos.item(2) < self._z_max
        rewards = self._forward_weight * x_velocity + healthy * self._healthy_reward
        # Humanoid charges for the float64 control signal, the other tasks for the action as given.
        costs = self._control_cost(self._ctrl) + contact_cost
        return rewards - costs, not healthy and self._ends_unhealthy


def fast_stepper(env: gymnasium.Env[Any, Any]) -> FastStepper | None:
    """A stepper for `env`, or None where only Gymnasium's own `step` will do.

    It takes exactly the v5 classes of Swimmer, HalfCheetah, Hopper, Walker2d, Ant and Humanoid (no
    subclasses), with any constructor argument but a render mode, inside no other wrappers than
    those `gymnasium.make` adds.
    """
    task: Any = env
    max_steps = math.inf
    while type(task) in (TimeLimit, OrderEnforcing, PassiveEnvChecker):
        if type(task) is TimeLimit:
            max_steps = min(max_steps, task._max_episode_steps)
        task = task.env
    # Looking at the module's name first keeps mujoco out of processes that have no use for it.
    in_mujoco = type(task).__module__.startswith("gymnasium.envs.mujoco.")
    if not in_mujoco or task.render_mode is not None:
        return None

    from gymnasium.envs.mujoco.ant_v5 import AntEnv
    from gymnasium.envs.mujoco.half_cheetah_v5 import HalfCheetahEnv
    from gymnasium.envs.mujoco.hopper_v5 import HopperEnv
    from gymnasium.envs.mujoco.humanoid_v5 import HumanoidEnv
    from gymnasium.envs.mujoco.swimmer_v5 import SwimmerEnv
    from gymnasium.envs.mujoco.walker2d_v5 import Walker2dEnv

    steppers: dict[type, type[FastStepper]] = {
        AntEnv: _Ant,
        HalfCheetahEnv: _HalfCheetah,
        HopperEnv: _Hopper,
        HumanoidEnv: _Humanoid,
        SwimmerEnv: _Swimmer,
        Walker2dEnv: _Walker2d,
    }
    stepper = steppers.get(type(task))
    return None if stepper is None else stepper(env, task, max_steps)
