"""One environment as rows: reset and step write flat observations to a given array."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

import gymnasium

from longrun.base.errors import InputError
from longrun.learning.envs.env_state import SavedState
from longrun.learning.envs.mujoco_fast import fast_stepper
from longrun.learning.envs.space_forms import action_maker, row_writer
from longrun.learning.envs.spaces import Array, form_of
from longrun.learning.envs.step_values import as_flag, as_number


class Stepper(Protocol):
    def reset(self, seed: int, obs_out: Array) -> None:
        """Start an episode; the first observation goes to `obs_out` [D]."""

    def step(self, action: Array, obs_out: Array) -> tuple[float, bool, bool]:
        """(reward, terminated, truncated); the true successor goes to `obs_out` [D]."""

    @property
    def info(self) -> Mapping[str, Any]:
        """What the environment says about its last step; only where it was asked for."""

    def save_state(self) -> bytes:
        """All that the next steps depend on; b"" if the environment cannot save it."""

    def load_state(self, state: bytes) -> None:
        """Set a state that `save_state` returned, after a reset."""


class GymnasiumStepper:
    """Any Gymnasium environment, by its own `reset` and `step`."""

    info: Mapping[str, Any]

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        self._env = env
        self._write = row_writer(form_of(env.observation_space))
        self._read = action_maker(form_of(env.action_space))
        self._state = SavedState(env)
        self.save_state, self.load_state = self._state.save, self._state.load

    def reset(self, seed: int, obs_out: Array) -> None:
        after = self._env.reset(seed=seed)
        if not isinstance(after, tuple | list):  # an array or dict of two could be unpacked
            raise InputError(f"reset returned a {type(after).__name__}")
        observation, _ = after
        self._write(observation, obs_out)

    def step(self, action: Array, obs_out: Array) -> tuple[float, bool, bool]:
        after = self._env.step(self._read(action))
        if len(after) == 6:  # safety-gymnasium's: the cost stands after the reward
            observation, reward, cost, terminated, truncated, info = after
            self.info = {**info, "cost": cost}
        else:
            observation, reward, terminated, truncated, self.info = after
        self._write(observation, obs_out)
        # The usual types need no conversion, and comparing types takes less time than one.
        if type(reward) is not float:
            reward = as_number("reward", reward)
        if type(terminated) is not bool:
            terminated = as_flag("terminated", terminated)
        if type(truncated) is not bool:
            truncated = as_flag("truncated", truncated)
        return reward, terminated, truncated


MOST_STATE_BYTES = 2**18
"""Most bytes of the state that `get_state` gives; a larger one is not saved. Only what is used
takes memory."""


def state_room(env: gymnasium.Env[Any, Any]) -> int:
    """Bytes to be reserved for the state of one such environment, 0 if it cannot save it."""
    fast = fast_stepper(env)
    if fast is not None:
        return len(fast.save_state())
    return MOST_STATE_BYTES if SavedState(env).is_possible else 0


def make_stepper(env: gymnasium.Env[Any, Any], info: Collection[str] = ()) -> Stepper:
    """A faster stepper for the MuJoCo tasks, with bitwise equal results, or the general one.

    `info`: what is read of the environment's info, of which the faster one has the cost of the
    velocity tasks alone.
    """
    fast = fast_stepper(env)
    return fast if fast is not None and set(info) <= set(fast.info) else GymnasiumStepper(env)
