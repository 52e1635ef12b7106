"""Spaces as a learner sees them: flat rows of observations and of actions."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeGuard

import gymnasium
import numpy as np
from gymnasium import spaces as gym_spaces

from longrun.errors import InputError, warn

Array = np.ndarray[Any, np.dtype[Any]]
IMAGE_SIDE = 32
"""An array with two sides of this length or more is taken for an image."""
MASKED_KEYS = {"action_mask", "observation"}
"""Keys of a Dict observation that carries a mask, as in PettingZoo and other libraries."""


@dataclass(frozen=True)
class Spaces:
    """Sizes of one environment's flat rows; hashable, since they shape compiled programs."""

    observation_size: int
    action_size: int
    """columns of an action row"""
    categories: tuple[int, ...] = ()
    """choices of each categorical component; empty for continuous actions"""
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    """bounds of continuous actions; `longrun.envs.actions` applies them"""
    masked: bool = False
    """observation rows begin with a mask: a column for each policy output, 0 where forbidden"""

    def __post_init__(self) -> None:
        for name in ("categories", "low", "high"):
            value = getattr(self, name)
            if not isinstance(value, tuple) or len(value) not in (0, self.action_size):
                raise InputError(
                    f"Spaces {name}={value!r} must be a tuple of action_size={self.action_size}"
                    " entries, or ()"
                )
        if bool(self.categories) == bool(self.low) or len(self.low) != len(self.high):
            raise InputError(
                f"Spaces categories={self.categories}, low={self.low}, high={self.high}: give"
                " categories for choices, or low and high for continuous actions"
            )
        if self.masked and not self.categories:
            raise InputError("Spaces masked=True needs categories: a mask is for choices")
        if self.feature_size < 1:
            raise InputError(
                f"Spaces observation_size={self.observation_size} leaves no feature beside a mask"
                f" of {self.mask_size} columns; a row is the mask and then the features"
            )

    @property
    def policy_outputs(self) -> int:
        return sum(self.categories) or self.action_size

    @property
    def mask_size(self) -> int:
        """Columns of an observation row that are the mask."""
        return self.policy_outputs if self.masked else 0

    @property
    def feature_size(self) -> int:
        """Columns of an observation row that the networks see."""
        return self.observation_size - self.mask_size

    @cached_property
    def limits(self) -> tuple[Array, Array]:
        """low and high of continuous actions, [A] float32 each, rounded inwards.

        A bound in double precision may have no float32 of its own, and the nearest one may lie
        outside the action space.
        """
        low, high = (np.asarray(bound, np.float64) for bound in (self.low, self.high))
        low32, high32 = low.astype(np.float32), high.astype(np.float32)
        low32 = np.where(low32 < low, np.nextafter(low32, np.float32(np.inf)), low32)
        high32 = np.where(high32 > high, np.nextafter(high32, np.float32(-np.inf)), high32)
        return low32, high32

    @cached_property
    def centre_and_reach(self) -> tuple[Array, Array]:
        """The middle of the limits and how far they are from it, [A] float32 each."""
        low, high = self.limits
        return 0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low

    @property
    def action_dtype(self) -> type:
        return np.int32 if self.categories else np.float32


def describe(env: gymnasium.Env[Any, Any]) -> Spaces:
    """The environment's spaces, or an InputError that names what is not supported.

    Observations that are a Dict of `action_mask` and `observation` mask the policy's choices.
    """
    spaces = _sizes(env)
    observation = env.observation_space
    if _carries_mask(observation):
        width = gym_spaces.flatdim(observation["action_mask"])
        if not spaces.categories or width != spaces.policy_outputs:
            raise InputError(
                f"action_mask has {width} entries and the action space is {env.action_space}; a"
                " mask needs one entry for each choice of a Discrete or MultiDiscrete space"
            )
        spaces = dataclasses.replace(spaces, masked=True)
    return spaces


def _carries_mask(space: gym_spaces.Space[Any]) -> TypeGuard[gym_spaces.Dict]:
    return isinstance(space, gym_spaces.Dict) and set(space) == MASKED_KEYS


def _sizes(env: gymnasium.Env[Any, Any]) -> Spaces:
    observation_size = _flat_size(env.observation_space)
    space = env.action_space
    if isinstance(space, gym_spaces.Box) and np.issubdtype(space.dtype, np.floating):
        low, high = space.low.reshape(-1), space.high.reshape(-1)
        return Spaces(
            observation_size, low.size, low=tuple(low.tolist()), high=tuple(high.tolist())
        )
    if isinstance(space, gym_spaces.Discrete):
        return Spaces(observation_size, 1, (int(space.n),))
    if isinstance(space, gym_spaces.MultiDiscrete):
        sizes = tuple(int(n) for n in space.nvec.reshape(-1))
        return Spaces(observation_size, len(sizes), sizes)
    raise InputError(
        f"action space {space} is not supported; use a floating-point Box, Discrete or"
        " MultiDiscrete, or wrap the environment"
    )


def warn_of_images(space: gym_spaces.Space[Any]) -> None:
    """Say that an image is flattened: the networks have no convolutions."""
    parts = space.spaces.values() if isinstance(space, gym_spaces.Dict) else [space]
    for part in parts:
        if isinstance(part, gym_spaces.Box) and sorted(part.shape)[-2:-1] >= [IMAGE_SIDE]:
            warn(
                f"observations look like images of shape {part.shape}: they become"
                f" {math.prod(part.shape):,} inputs of fully connected layers, which learn little"
                " from pixels; observe features, or wrap the environment with a fixed encoder"
            )


def _flat_size(space: gym_spaces.Space[Any]) -> int:
    if not space.is_np_flattenable:
        raise InputError(
            f"observation space {space} has no fixed flat size; use Box, Discrete, MultiDiscrete,"
            " MultiBinary, or a Dict or Tuple of these"
        )
    return gym_spaces.flatdim(space)


def observation_writer(space: gym_spaces.Space[Any]) -> Callable[[Any, Array], None]:
    """A function (observation, row) that writes the flat observation; Discrete becomes one-hot."""
    if _carries_mask(space):
        return _masked_writer(space)
    return _box_writer(space) if isinstance(space, gym_spaces.Box) else _general_writer(space)


def _masked_writer(space: gym_spaces.Dict) -> Callable[[Any, Array], None]:
    # A Dict may have its keys in any order; in a row the mask comes first.
    mask, rest = space["action_mask"], space["observation"]
    width = gym_spaces.flatdim(mask)
    write_mask, write_rest = observation_writer(mask), observation_writer(rest)

    def write(observation: Any, row: Array) -> None:
        write_mask(observation["action_mask"], row[:width])
        write_rest(observation["observation"], row[width:])

    return write


def _box_writer(space: gym_spaces.Box) -> Callable[[Any, Array], None]:
    shape = space.shape

    def write(observation: Any, row: Array) -> None:
        observation = np.asarray(observation)
        if observation.shape != shape:
            raise InputError(
                f"an observation of shape {observation.shape} does not fit the observation"
                f" space's {shape}"
            )
        row[:] = observation.reshape(-1)

    return write


def _general_writer(space: gym_spaces.Space[Any]) -> Callable[[Any, Array], None]:
    def write(observation: Any, row: Array) -> None:
        try:
            flat = np.asarray(gym_spaces.flatten(space, observation))
        except (KeyError, IndexError, TypeError, ValueError, AssertionError) as error:
            raise InputError(
                f"an observation does not fit its space {space}:"
                f" {' '.join(str(observation).split())[:80]} ({error})"
            ) from None
        if flat.shape != row.shape:
            raise InputError(
                f"an observation has {flat.size} numbers, its space {space} {row.size}"
            )
        row[:] = flat

    return write


def action_reader(space: gym_spaces.Space[Any]) -> Callable[[Array], Any]:
    """A function that gives an action row the environment's own shape and type."""
    if isinstance(space, gym_spaces.Box):
        shape, dtype = space.shape, space.dtype
        return lambda row: row.reshape(shape).astype(dtype, copy=False)
    if isinstance(space, gym_spaces.Discrete):
        first, kind = space.start, np.dtype(space.dtype).type
        return lambda row: kind(row[0] + first)
    assert isinstance(space, gym_spaces.MultiDiscrete)  # `describe` refuses all others
    return lambda row: row.reshape(space.shape).astype(space.dtype) + space.start
