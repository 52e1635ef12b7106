"""Spaces as a learner sees them: flat rows of observations and of actions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeGuard

import numpy as np
from gymnasium import spaces as gym_spaces
from gymnasium.vector import VectorEnv

from longrun.base.errors import InputError
from longrun.learning.envs.flat_spaces import Array as Array
from longrun.learning.envs.flat_spaces import Spaces as Spaces
from longrun.learning.envs.space_forms import MASKED_KEYS, array_writer

IMAGE_NUMBERS = 1000
"""Bytes in two or more dimensions from which on an observation counts as an image; boards of games
and views of small grids have fewer, and suit a perceptron."""


def own_spaces(env: Any) -> tuple[gym_spaces.Space[Any], gym_spaces.Space[Any]]:
    """Observation and action space of an environment, or of each one in a VectorEnv.

    Raises InputError if one is missing or is no space of Gymnasium's.
    """
    prefix = "single_" if isinstance(env, VectorEnv) else ""
    return _space(env, f"{prefix}observation_space"), _space(env, f"{prefix}action_space")


def _space(env: Any, name: str) -> gym_spaces.Space[Any]:
    kind = type(getattr(env, "unwrapped", env)).__name__
    needed = "it has to be a gymnasium.Env with observation_space and action_space"
    try:
        space = getattr(env, name)
    except AttributeError as error:
        raise InputError(f"environment {kind} has no {name}: {needed} ({error})") from None
    if not isinstance(space, gym_spaces.Space):
        raise InputError(
            f"{name}={space!r} of environment {kind} must be a gymnasium.spaces.Space: {needed}"
        )
    return space


def describe(env: Any) -> Spaces:
    """The spaces of an environment or VectorEnv, or an InputError that names what is not supported.

    Observations that are a Dict of `action_mask` and `observation` mask the policy's choices.
    """
    observation, action = own_spaces(env)
    spaces = _sizes(observation, action)
    if _carries_mask(observation):
        width = gym_spaces.flatdim(observation["action_mask"])
        if not spaces.categories or width != spaces.policy_outputs:
            raise InputError(
                f"action_mask has {width} entries and the action space is {action}; a"
                " mask needs one entry for each choice of a Discrete, MultiDiscrete or MultiBinary"
                " space"
            )
        spaces = dataclasses.replace(spaces, masked=True)
    return spaces


def _carries_mask(space: gym_spaces.Space[Any]) -> TypeGuard[gym_spaces.Dict]:
    return isinstance(space, gym_spaces.Dict) and set(space) == MASKED_KEYS


def _sizes(observation: gym_spaces.Space[Any], space: gym_spaces.Space[Any]) -> Spaces:
    observation_size = _flat_size(observation)
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
    if isinstance(space, gym_spaces.MultiBinary):
        switches = int(np.prod(space.shape))
        return Spaces(observation_size, switches, (2,) * switches)
    raise InputError(
        f"action space {space} is not supported; use a floating-point Box, Discrete, MultiDiscrete"
        " or MultiBinary, or wrap the environment"
    )


def _flat_size(space: gym_spaces.Space[Any]) -> int:
    if not space.is_np_flattenable:
        raise InputError(
            f"observation space {space} has no fixed flat size; use Box, Discrete, MultiDiscrete,"
            " MultiBinary, or a Dict or Tuple of these"
        )
    return gym_spaces.flatdim(space)


def require_no_image(space: gym_spaces.Space[Any]) -> None:
    """Raise InputError for an image, which a perceptron would learn from badly and slowly."""
    numbers = gym_spaces.flatdim(space)
    is_image = isinstance(space, gym_spaces.Box) and space.dtype == np.uint8
    if is_image and len(space.shape or ()) > 1 and numbers >= IMAGE_NUMBERS:
        raise InputError(
            f"observation space of shape {space.shape} is an image; give policy_network and"
            " value_network, each a pair of functions (init, apply) with a convolution, or wrap the"
            f" environment in FlattenObservation to learn from {numbers} numbers"
        )


def observation_writer(space: gym_spaces.Space[Any]) -> Callable[[Any, Array], None]:
    """A function (observation, row) that writes the flat observation; Discrete becomes one-hot."""
    if _carries_mask(space):
        return _masked_writer(space)
    if isinstance(space, gym_spaces.Box):
        return array_writer(space.shape)
    return _general_writer(space)


def _masked_writer(space: gym_spaces.Dict) -> Callable[[Any, Array], None]:
    # A Dict may have its keys in any order; in a row the mask comes first.
    mask, rest = space["action_mask"], space["observation"]
    width = gym_spaces.flatdim(mask)
    write_mask, write_rest = observation_writer(mask), observation_writer(rest)

    def write(observation: Any, row: Array) -> None:
        try:
            allowed, seen = observation["action_mask"], observation["observation"]
        except (KeyError, IndexError, TypeError):
            raise InputError(
                "an observation needs 'action_mask' and 'observation', as its space has them"
            ) from None
        write_mask(allowed, row[:width])
        write_rest(seen, row[width:])

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
    if isinstance(space, gym_spaces.MultiBinary):
        return lambda row: row.reshape(space.shape).astype(space.dtype)
    assert isinstance(space, gym_spaces.MultiDiscrete)  # `describe` refuses all others
    return lambda row: row.reshape(space.shape).astype(space.dtype) + space.start
