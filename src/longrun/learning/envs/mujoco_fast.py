"""Step Gymnasium's MuJoCo tasks without Gymnasium's Python layer, bit for bit the same.

`fast_stepper(env)` drives the model and data *inside* a Gymnasium environment: it makes the same
`mj_step` call and does the same arithmetic, in the same order and precision, and leaves out the
info dictionary, the wrapper calls, the checks and the temporary arrays.

- MuJoCo's arrays (`data.qpos`, ...) are views of C memory that never moves, so that one view taken
  at construction stays current.
- Python floats are IEEE doubles, so scalar work on them equals NumPy's float64 work, only faster.
  NumPy multiplies a Python float by a float32 in float32, hence `FastStepper._control_cost`.
- Sums go through the reduction that Gymnasium's `np.sum` ends in, so they add up in the same order.

Constants (weights, ranges, time step, masses) are read at construction: build a new stepper after
changing them. All that changes in the environment is a solver flag.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import gymnasium
import numpy as np
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit
from numpy.typing import NDArray

from longrun.learning.envs.factories import time_limit
from longrun.learning.envs.mujoco_velocity import SpeedCost

Array = NDArray[np.floating[Any]]


def sum_of_squares(x: Array) -> np.floating[Any]:
    """`np.sum(np.square(x))` in the dtype of `x`, without `np.sum`'s slow argument handling."""
    total: np.floating[Any] = np.add.reduce(np.square(x), axis=None)
    return total


class FastStepper:
    """One MuJoCo task, as HalfCheetah. A subclass has what is different in its task.

    The stepper keeps one piece of state of its own, the steps since the last reset. Hence, between
    two resets, step either the stepper or the environment, not both.
    """

    # Leading root coordinates (x, or x and y) that the observation leaves out by default.
    _n_hidden = 1

    def __init__(self, env: Any) -> None:
        """`env` is the whole wrapper chain."""
        from mujoco import mj_step

        self._env, self._task, self._mj_step = env, env.unwrapped, mj_step
        task = self._task
        self._speed_cost = env.get_wrapper_attr("cost") if env.has_wrapper_attr("cost") else None
        self._model, self._data = task.model, task.data
        self._frame_skip, self._dt = task.frame_skip, task.dt
        self._max_steps = time_limit(env) or math.inf
        self._elapsed = 0
        self._before = self._after = (0.0, 0.0)

        self._qpos: Array = task.data.qpos
        self._qvel: Array = task.data.qvel
        self._ctrl: Array = task.data.ctrl
        self._forward_weight = float(task._forward_reward_weight)
        self._ctrl_weight = task._ctrl_cost_weight  # as given: its type decides the precision
        hidden = self._n_hidden if task._exclude_current_positions_from_observation else 0
        # 1-D views that, one after the other, make up the observation.
        self._obs_parts: list[Array] = [self._qpos[hidden:], self._qvel]
        # What the next step reads besides the physics: computed by the last one, before it moved.
        self._lagging: list[Array] = []

    def reset(self, seed: int, obs_out: Array) -> None:
        """Start an episode through Gymnasium's own reset; `obs_out`: (observation size,)."""
        obs_out[:] = self._env.reset(seed=seed)[0]
        self._elapsed = 0

    def step(self, action: Array, obs_out: Array) -> tuple[float, bool, bool]:
        """Apply `action` (nu,); write `obs_out` (observation size,).

        Returns (reward, terminated, truncated). For an action beyond its bounds MuJoCo applies the
        bound, and the control cost is charged on the action itself, as in Gymnasium's step.
        """
        self._before = self.place()
        self._ctrl[:] = action
        self._mj_step(self._model, self._data, self._frame_skip)
        self._after = self.place()
        reward, terminated = self._outcome((self._after[0] - self._before[0]) / self._dt, action)
        np.concatenate(self._obs_parts, out=obs_out)
        self._elapsed += 1
        return reward, terminated, self._elapsed >= self._max_steps

    def save_state(self) -> bytes:
        """Physics, solver's warm start and elapsed steps, as float64."""
        from mujoco import mj_getState, mj_stateSize, mjtState

        physics = np.zeros(mj_stateSize(self._model, mjtState.mjSTATE_INTEGRATION))
        mj_getState(self._model, self._data, physics, mjtState.mjSTATE_INTEGRATION)
        lagging = (array.reshape(-1) for array in self._lagging)
        return np.concatenate([[float(self._elapsed)], physics, *lagging]).tobytes()

    def load_state(self, state: bytes) -> None:
        """Set a state that `save_state` returned. Raises ValueError if its size is wrong."""
        from mujoco import mj_setState, mj_stateSize, mjtState

        everything = mjtState.mjSTATE_INTEGRATION
        size = mj_stateSize(self._model, everything)
        sizes = [1, size, *(array.size for array in self._lagging)]
        numbers = np.frombuffer(state, np.float64)
        if numbers.size != sum(sizes):
            raise ValueError(f"a state of {numbers.size} numbers does not fit; {sum(sizes)} do")
        elapsed, physics, *lagging = np.split(numbers, np.cumsum(sizes)[:-1])
        self._elapsed = int(elapsed[0])
        mj_setState(self._model, self._data, physics, everything)
        for array, values in zip(self._lagging, lagging, strict=True):
            array[...] = values.reshape(array.shape)

    @property
    def info(self) -> dict[str, float]:
        """The cost of the last step of a velocity task. Others have none, which would take time."""
        if self._speed_cost is None:
            return {}
        velocities = [(b - a) / self._dt for a, b in zip(self._before, self._after, strict=True)]
        return {"cost": self._speed_cost(*velocities)}

    def place(self) -> tuple[float, float]:
        """x, whose rate of change is rewarded, and y, which is 0 where a task has none."""
        return self._qpos.item(0), 0.0

    def _outcome(self, x_velocity: float, action: Array) -> tuple[float, bool]:
        """(reward, terminated) after a step; also refreshes computed parts of the observation."""
        return self._forward_weight * x_velocity - self._control_cost(action), False

    def _control_cost(self, action: Array) -> float:
        return float(self._ctrl_weight * sum_of_squares(action))


class Swimmer(FastStepper):
    _n_hidden = 2


class HealthTask(FastStepper):
    """A task that rewards being healthy and may terminate when unhealthy."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        task = self._task
        self._healthy_reward = float(task._healthy_reward)
        self._ends_unhealthy = bool(task._terminate_when_unhealthy)
        self._z_min, self._z_max = map(float, task._healthy_z_range)

    def is_healthy(self) -> bool:
        return self._z_min < self._qpos.item(2) < self._z_max

    def _outcome(self, x_velocity: float, action: Array) -> tuple[float, bool]:
        healthy = self.is_healthy()
        rewards = self._forward_weight * x_velocity + healthy * self._healthy_reward
        return rewards - self._cost(action), not healthy and self._ends_unhealthy

    def _cost(self, action: Array) -> float:
        return self._control_cost(action)


class Walker2d(HealthTask):
    def __init__(self, env: Any) -> None:
        super().__init__(env)
        task = self._task
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
        return super()._outcome(x_velocity, action)


class Hopper(Walker2d):
    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self._state_min, self._state_max = map(float, self._task._healthy_state_range)

    def is_healthy(self) -> bool:
        low, high = self._state_min, self._state_max
        state = self._qpos.tolist()[2:] + self._qvel.tolist()
        return super().is_healthy() and all(low < value < high for value in state)


class ContactTask(HealthTask):
    """A task that also charges for contact forces, which only these tasks compute."""

    _n_hidden = 2

    def __init__(self, env: Any) -> None:
        from mujoco import mj_rnePostConstraint

        super().__init__(env)
        task = self._task
        self._compute_cfrc_ext = mj_rnePostConstraint  # mj_step itself does not compute cfrc_ext
        self._cfrc_ext: Array = task.data.cfrc_ext  # (bodies, 6)
        self._contact_weight = float(task._contact_cost_weight)


class Ant(ContactTask):
    def __init__(self, env: Any) -> None:
        super().__init__(env)
        task = self._task
        self._main_body_xyz: Array = task.data.body(task._main_body).xpos
        self._lagging.append(self._main_body_xyz)
        self._force_min, self._force_max = task._contact_force_range
        self._contact_forces = np.empty_like(self._cfrc_ext)
        if task._include_cfrc_ext_in_observation:
            self._obs_parts.append(self._contact_forces[1:].reshape(-1))

    def place(self) -> tuple[float, float]:
        return self._main_body_xyz.item(0), self._main_body_xyz.item(1)

    def is_healthy(self) -> bool:
        return self._z_min <= self._qpos.item(2) <= self._z_max and all(
            map(math.isfinite, self._qpos.tolist() + self._qvel.tolist())
        )

    def _cost(self, action: Array) -> float:
        self._compute_cfrc_ext(self._model, self._data)
        self._cfrc_ext.clip(self._force_min, self._force_max, out=self._contact_forces)
        contact_cost = self._contact_weight * float(sum_of_squares(self._contact_forces))
        return self._control_cost(action) + contact_cost


class Humanoid(ContactTask):
    def __init__(self, env: Any) -> None:
        super().__init__(env)
        task, data = self._task, self._data
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

    def _cost(self, action: Array) -> float:
        self._compute_cfrc_ext(self._model, self._data)
        contact_cost = self._contact_weight * float(sum_of_squares(self._cfrc_ext))
        contact_cost = min(max(contact_cost, self._contact_min), self._contact_max)
        # Humanoid charges for the float64 control signal, the other tasks for the action as given.
        return self._control_cost(self._ctrl) + contact_cost


TASKS: dict[str, type[FastStepper]] = {
    "gymnasium.envs.mujoco.ant_v5.AntEnv": Ant,
    "gymnasium.envs.mujoco.half_cheetah_v5.HalfCheetahEnv": FastStepper,
    "gymnasium.envs.mujoco.hopper_v5.HopperEnv": Hopper,
    "gymnasium.envs.mujoco.humanoid_v5.HumanoidEnv": Humanoid,
    "gymnasium.envs.mujoco.swimmer_v5.SwimmerEnv": Swimmer,
    "gymnasium.envs.mujoco.walker2d_v5.Walker2dEnv": Walker2d,
}
"""Steppers by the names of classes: MuJoCo is imported for its own tasks alone."""


def fast_stepper(env: gymnasium.Env[Any, Any]) -> FastStepper | None:
    """A stepper for `env`, or None where Gymnasium's own `step` is needed.

    It takes the classes of TASKS (no subclasses), with any argument but a render mode, inside no
    other wrappers than those `gymnasium.make` adds and the cost of the velocity tasks. It reads
    private fields of these: if one is missing, as is possible in another version of Gymnasium, a
    warning says so once, and the result is None.
    """
    task: Any = env
    while type(task) in (TimeLimit, OrderEnforcing, PassiveEnvChecker, SpeedCost):
        task = task.env
    stepper_class = TASKS.get(f"{type(task).__module__}.{type(task).__qualname__}")
    try:
        if stepper_class is None or task.render_mode is not None:
            return None
        stepper = stepper_class(env)
    except AttributeError as error:
        warnings.warn(
            f"Gymnasium {gymnasium.__version__} differs from the versions that longrun's fast"
            f" MuJoCo steps are made for ({error}); its own, slower steps are used",
            stacklevel=1,  # one line for all environments, so that Python shows it once
        )
        return None
    from mujoco import mjtDisableBit

    # All six robots are one kinematic tree, with one constraint island at most. Not looking for
    # others leaves the solver the same system and saves up to a tenth of the physics.
    if task.model.ntree == 1 and not task.model.opt.enableflags:
        task.model.opt.disableflags |= mjtDisableBit.mjDSBL_ISLAND
    return stepper
