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
from longrun.learning.envs.env_state import SavedState
from longrun.learning.envs.mujoco_fast import fast_stepper
from longrun.learning.envs.mujoco_tasks import FastStepper
from longrun.learning.envs.row_hashes import UNKNOWN, row_hashes
from longrun.learning.envs.space_forms import action_maker, row_writer
from longrun.learning.envs.spaces import Array, form_of
from longrun.learning.envs.watchdog import TURN, Heartbeat


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
            terminated = as_flag("terminated", terminated)
        if type(truncated) is not bool:
            truncated = as_flag("truncated", truncated)
        return reward, terminated, truncated


Stepper = GymnasiumStepper | FastStepper
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


SCALARS = (float, int, np.floating, np.integer, np.bool_)
LONGEST = 80
"""Characters of a value that a message shows."""


def as_number(name: str, value: Any, wanted: str = "a number") -> float:
    """The value as a float: a number of any library, or an array of one.

    Raises InputError for all else, also for text that reads as a number.
    """
    if isinstance(value, SCALARS):
        return float(value)
    if hasattr(value, "shape"):  # of NumPy, JAX, PyTorch
        array = np.asarray(value)
        if array.size == 1 and array.dtype.kind in "biuf":
            return float(array.item())
    elif hasattr(value, "__float__"):  # a Fraction, a Decimal
        return float(value)
    raise _wrong(name, value, wanted)


def as_flag(name: str, value: Any) -> bool:
    """The value as a bool: one of any library, or 0 or 1. Raises InputError for all else."""
    number = as_number(name, value, "a bool")
    if number not in (0.0, 1.0):
        raise _wrong(name, value, "a bool")
    return bool(number)


def _wrong(name: str, value: Any, wanted: str) -> InputError:
    text = repr(value)
    shown = text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
    return InputError(f"{name} {shown} of type {type(value).__name__} must be {wanted}")


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

    def repeats(self, actions: Array, seen: Array, obs_out: Array) -> bool:
        """Repeat actions [t, A] as the environment got them; whether it did the same as then.

        `seen` [t]: hashes of the observations that followed. No action is given after one that
        differs; an action that is an error now counts as a difference.
        """
        for step, (action, expected) in enumerate(zip(actions, seen, strict=True)):
            self._heartbeat.row[TURN] = step
            try:
                _, terminated, truncated = self.stepper.step(action, obs_out)
            except KeyboardInterrupt:  # of the user
                raise
            except BaseException:  # such as that of sys.exit()
                return False
            same = expected in (UNKNOWN, row_hashes(obs_out))
            if terminated or truncated or not same:
                return False
        return True

    def restores(self, state: bytes) -> bool:
        """Set a saved state after the reset; whether the environment is in that state now."""
        try:
            self.stepper.load_state(state)
            return self.stepper.save_state() == state
        except KeyboardInterrupt:  # of the user
            raise
        except BaseException:  # whatever an environment makes of a state that does not fit it
            return False
