"""Gymnasium's spaces as a learner sees them: flat rows of observations and of actions."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces as gym_spaces
from gymnasium.vector import VectorEnv

from longrun.base.errors import InputError
from longrun.learning.envs.flat_spaces import Array as Array
from longrun.learning.envs.flat_spaces import Form, carries_mask, part_of, width
from longrun.learning.envs.flat_spaces import Spaces as Spaces

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
    if isinstance(space, gym_spaces.Space):
        return space
    wanted = f"must be a gymnasium.spaces.Space: {needed}"
    raise InputError(f"{name}={space!r} of environment {kind} {wanted}")


def form_of(space: gym_spaces.Space[Any]) -> Form:
    """The form of a space, see `flat_spaces`. Raises InputError if it has no fixed flat size."""
    array = {"shape": list(space.shape or ()), "dtype": str(np.dtype(space.dtype))}
    match space:
        case gym_spaces.Box():
            return {"kind": "Box", **array}
        case gym_spaces.MultiBinary():
            return {"kind": "MultiBinary", **array}
        case gym_spaces.Discrete():
            about = {"n": int(space.n), "start": int(space.start), "dtype": array["dtype"]}
            return {"kind": "Discrete", **about}
        case gym_spaces.MultiDiscrete():
            n, start = (values.reshape(-1).tolist() for values in (space.nvec, space.start))
            return {"kind": "MultiDiscrete", **array, "n": n, "start": start}
        case gym_spaces.Dict():
            parts = [form_of(part) for part in space.values()]
            return {"kind": "Dict", "keys": list(space), "parts": parts}
        case gym_spaces.Tuple():
            parts = [form_of(part) for part in space]
            return {"kind": "Tuple", "keys": list(range(len(space))), "parts": parts}
    raise InputError(
        f"observation space {space} has no fixed flat size; use Box, Discrete, MultiDiscrete,"
        " MultiBinary, or a Dict or Tuple of these"
    )


def interface_of(owner: Any) -> dict[str, Form]:
    """Forms of the two spaces of an environment, or of a loop, which has them as well."""
    spaces = {"observation": owner.observation_space, "action": owner.action_space}
    return {name: form_of(space) for name, space in spaces.items()}


def describe(env: Any) -> Spaces:
    """The spaces of an environment or VectorEnv, or an InputError that names what is not supported.

    Observations that are a Dict of `action_mask` and `observation` mask the policy's choices.
    """
    observation, action = own_spaces(env)
    form = form_of(observation)
    categories = _categories(action)
    masked = carries_mask(form)
    if masked and (choices := width(part_of(form, "action_mask"))) != sum(categories):
        raise InputError(
            f"action_mask has {choices} entries and the action space is {action}; a mask needs one"
            " entry for each choice of a Discrete, MultiDiscrete or MultiBinary space"
        )
    if categories:
        return Spaces(width(form), len(categories), categories, masked=masked)
    low, high = (tuple(bound.reshape(-1).tolist()) for bound in (action.low, action.high))  # type: ignore[attr-defined]
    return Spaces(width(form), len(low), low=low, high=high)


def _categories(space: gym_spaces.Space[Any]) -> tuple[int, ...]:
    """The choices of each component; () for continuous actions."""
    match space:
        case gym_spaces.Box() if np.issubdtype(space.dtype, np.floating):
            return ()
        case gym_spaces.Discrete():
            return (int(space.n),)
        case gym_spaces.MultiDiscrete():
            return tuple(int(n) for n in space.nvec.reshape(-1))
        case gym_spaces.MultiBinary():
            return (2,) * int(np.prod(space.shape))
    raise InputError(
        f"action space {space} is not supported; use a floating-point Box, Discrete, MultiDiscrete"
        " or MultiBinary, or wrap the environment"
    )


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
