"""The interface of a JAX-native environment: two pure functions, and its spaces.

`batching.py` does batching, time limits and resets for all environments. It also clips actions,
unless `action_bounds="raw"` asks that the environment gets what was sampled.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib import import_module
from typing import Any, NamedTuple

import jax

from longrun.learning.envs.env_strings import NATIVE_MAKERS, split_env
from longrun.learning.envs.spaces import Spaces


class Step(NamedTuple):
    """The result of one step of one environment."""

    state: Any
    """a pytree of arrays; no PRNG keys, since each step is given its own"""
    obs: jax.Array
    """[D] float32, of the true successor: never of the state after a reset"""
    reward: jax.Array
    """[]"""
    terminated: jax.Array | bool
    """[] bool; a time limit is not a termination"""
    costs: dict[str, jax.Array] | tuple[()] = ()
    """[] each, by name, the same names in every step; () for none"""


class Environment(ABC):
    """A JAX-native environment. It is hashable, since it shapes compiled programs: use a frozen
    dataclass, or keep hashing by identity.

    Where `spaces.masked`, an observation row begins with the mask: one column for each of the
    policy's outputs, 1 where the choice is allowed and 0 where it is not.
    """

    time_limit: int = 0
    """steps after which an episode is cut off (truncated); 0 for never"""
    terminates: bool = True
    """False where `step` never reports a termination, which saves the reset"""
    costly_reset: bool = False
    """True where a reset costs about as much as a step or more. Each environment then gets one new
    start state in each rollout, instead of one in each episode."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What run folders call it; an env string such as 'jax:criss-cross' where it has one."""

    @property
    @abstractmethod
    def spaces(self) -> Spaces:
        """Sizes of the flat observation and action rows."""

    @abstractmethod
    def reset(self, key: jax.Array) -> tuple[Any, jax.Array]:
        """A start state and its observation [D]."""

    @abstractmethod
    def step(self, key: jax.Array, state: Any, action: jax.Array) -> Step:
        """One step from a row of actions [A]: int32 choices counted from 0, or numbers, which lie
        within the bounds unless `action_bounds="raw"` passes on the policy's raw actions."""


def is_native(env: str) -> bool:
    """Whether an env string names an environment that runs inside the compiled program."""
    prefix, colon, _ = env.partition(":")
    return bool(colon) and prefix in NATIVE_MAKERS


def native_env(env: object) -> Environment | None:
    """An `Environment` as it is, or made from its env string; None for anything else."""
    if isinstance(env, Environment):
        return env
    if not isinstance(env, str) or not is_native(env):
        return None
    env_id, args = split_env(env)
    prefix, _, name = env_id.partition(":")
    # Imported here, since each adapter imports a package that most users do not have.
    module, function = NATIVE_MAKERS[prefix]
    made = getattr(import_module(module), function)(name, args)
    assert isinstance(made, Environment)
    return made
