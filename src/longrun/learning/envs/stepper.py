"""One environment as rows: reset and step write flat observations to a given array.

A `Chain` is such an environment episode after episode.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import gymnasium
import numpy as np

from longrun.base.errors import InputError
from longrun.learning.envs import seeding
from longrun.learning.envs.env_state import MOST_STATE_BYTES, SavedState
from longrun.learning.envs.flat_spaces import action_maker, row_writer
from longrun.learning.envs.mujoco_fast import FastStepper, fast_stepper
from longrun.learning.envs.spaces import Array, form_of
from longrun.learning.envs.watchdog import Heartbeat


class GymnasiumStepper:
    """Any Gymnasium environment, by its own `reset` and `step`."""

    info: Mapping[str, Any]

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        self._env = env
        self._write = row_writer(form_of(env.observation_space))
        self._read = action_maker(form_of(env.action_space))
        state = SavedState(env)
        self.save_state, self.load_state = state.save, state.load

    def reset(self, seed: int, obs_out: Array) -> None:
        """Start an episode; the first observation goes to `obs_out` [D]."""
        after = self._env.reset(seed=seed)
        if not isinstance(after, tuple | list):  # an array or dict of two could be unpacked
            raise InputError(f"reset returned a {type(after).__name__}")
        observation, _ = after
        self._write(observation, obs_out)

    def step(self, action: Array, obs_out: Array) -> tuple[float, bool, bool]:
        """(reward, terminated, truncated); the true successor goes to `obs_out` [D]."""
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
            terminated = bool(as_number("terminated", terminated, is_flag=True))
        if type(truncated) is not bool:
            truncated = bool(as_number("truncated", truncated, is_flag=True))
        return reward, terminated, truncated


Stepper = GymnasiumStepper | FastStepper


def state_room(env: gymnasium.Env[Any, Any]) -> int:
    """Bytes to be reserved for the state of one such environment."""
    fast = fast_stepper(env)
    return MOST_STATE_BYTES if fast is None else len(fast.save_state())


def make_stepper(env: gymnasium.Env[Any, Any], info: Collection[str] = ()) -> Stepper:
    """A faster stepper for the MuJoCo tasks, with bitwise equal results, or the general one.

    `info`: what is read of the environment's info, of which the faster one has the cost of the
    velocity tasks alone.
    """
    fast = fast_stepper(env)
    return fast if fast is not None and set(info) <= set(fast.info) else GymnasiumStepper(env)


SCALARS = (float, int, np.floating, np.integer, np.bool_)
LONGEST = 80
"""Characters of a value that a message shows."""


def as_number(name: str, value: Any, is_flag: bool = False) -> float:
    """The value as a float: a number of any library, or an array of one; for a flag 0 or 1.

    Raises InputError for all else, also for text that reads as a number.
    """
    number = None
    if isinstance(value, SCALARS):
        number = float(value)
    elif hasattr(value, "shape"):  # of NumPy, JAX, PyTorch
        array = np.asarray(value)
        if array.size == 1 and array.dtype.kind in "biuf":
            number = float(array.item())
    elif hasattr(value, "__float__"):  # a Fraction, a Decimal
        number = float(value)
    if number is not None and (not is_flag or number in (0.0, 1.0)):
        return number
    text, wanted = repr(value), "a bool" if is_flag else "a number"
    shown = text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
    raise InputError(f"{name} {shown} of type {type(value).__name__} must be {wanted}")


class Chain:
    """An environment that starts episode after episode, each from a seed of its own."""

    def __init__(
        self, stepper: Stepper, stream: tuple[int, ...], heartbeat: Heartbeat, episode: int = 0
    ) -> None:
        self.stepper = stepper
        self.episode = episode
        self._stream = stream
        self._heartbeat = heartbeat

    def start_episode(self, obs_out: Array) -> None:
        self._heartbeat.reset()
        self.stepper.reset(seeding.episode_seed(*self._stream, self.episode), obs_out)
        self._heartbeat.reset()
        self.episode += 1

    def restores(self, state: bytes) -> bool:
        """Set a saved state after the reset; whether the environment is in that state now."""
        try:
            self.stepper.load_state(state)
            return self.stepper.save_state() == state
        except KeyboardInterrupt:  # of the user
            raise
        except BaseException:  # whatever an environment makes of a state that does not fit it
            return False
