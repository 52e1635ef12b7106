"""The common part of a step of all MuJoCo tasks; `mujoco_fast.py` explains why it is exact."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]


def sum_of_squares(x: Array) -> np.floating[Any]:
    """`np.sum(np.square(x))` in the dtype of `x`, without `np.sum`'s slow argument handling."""
    total: np.floating[Any] = np.add.reduce(np.square(x), axis=None)
    return total


class FastStepper(ABC):
    """One MuJoCo task. A subclass gives the x coordinate, reward and termination of its task.

    The stepper keeps one piece of state of its own, the steps since the last reset. Hence, between
    two resets, step either the stepper or the environment, not both.
    """

    info: Mapping[str, Any] = MappingProxyType({})
    """Empty: making it would take time, and who needs it steps the environment itself."""

    # Leading root coordinates (x, or x and y) that the observation leaves out by default.
    _n_hidden = 1

    def __init__(self, env: gymnasium.Env[Any, Any], task: Any, max_steps: float) -> None:
        """`env` is the whole wrapper chain, `task` its innermost environment."""
        from mujoco import mj_step

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
        x_before = self._x()
        self._ctrl[:] = action
        self._mj_step(self._model, self._data, self._frame_skip)
        reward, terminated = self._outcome((self._x() - x_before) / self._dt, action)
        np.concatenate(self._obs_parts, out=obs_out)
        self._elapsed += 1
        return reward, terminated, self._elapsed >= self._max_steps

    def save_state(self) -> bytes:
        """Physics, solver's warm start and elapsed steps, as float64."""
        from mujoco import mj_getState, mj_stateSize, mjtState

        everything = mjtState.mjSTATE_INTEGRATION
        physics = np.zeros(mj_stateSize(self._model, everything))
        mj_getState(self._model, self._data, physics, everything)
        elapsed = np.array([self._elapsed], np.float64)
        parts = [elapsed, physics, *(array.reshape(-1) for array in self._lagging)]
        return np.concatenate(parts).tobytes()

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
    def dt(self) -> float:
        """Seconds of a step."""
        return float(self._dt)

    def place(self) -> tuple[float, float]:
        """x and y, from which Gymnasium computes velocities; y is 0 where a task has none."""
        return self._x(), 0.0

    def _x(self) -> float:
        """The coordinate whose rate of change is rewarded."""
        return self._qpos.item(0)

    @abstractmethod
    def _outcome(self, x_velocity: float, action: Array) -> tuple[float, bool]:
        """(reward, terminated) after a step; also refreshes computed parts of the observation."""

    def _control_cost(self, action: Array) -> float:
        return float(self._ctrl_weight * sum_of_squares(action))
