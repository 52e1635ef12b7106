"""The choice between the two training loops, made once, when an environment is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, cast

import gymnasium
from gymnasium.vector import VectorEnv

from longrun.base.checks import STEP_TIMEOUT
from longrun.base.errors import InputError
from longrun.learning.envs.factories import (
    EnvLike,
    close_env,
    env_factory,
    env_name,
    is_a,
    make_env,
)
from longrun.learning.envs.native.protocol import Environment, native_env
from longrun.learning.envs.watchdog import making_limit
from longrun.learning.train.device.loop import DeviceLoop
from longrun.learning.train.host.loop import HostLoop

if TYPE_CHECKING:
    from longrun.exact.tabular.mdp import MDP

AnyEnv: TypeAlias = "EnvLike | Environment | MDP"
"""An id or env string, a Gymnasium environment, a function that makes one, a JAX-native one, or a
finite model."""


Loop: TypeAlias = HostLoop | DeviceLoop
"""Trains and measures policies on one environment, which has been opened; both have the same
methods."""


def open_env(env: AnyEnv, step_timeout: float = STEP_TIMEOUT) -> Loop:
    """The loop for an environment. Raises InputError if the environment cannot be used.

    Making a Gymnasium environment may take `step_timeout` seconds (0: no limit), but never less
    than five minutes, since modules are imported.
    """
    if is_a(env, "longrun.exact.tabular.mdp", "MDP"):
        from longrun.exact.tabular.gymnasium_tables import to_gymnasium

        return open_env(to_gymnasium(cast("MDP", env)))
    if isinstance(env, Environment):
        return DeviceLoop.open(env)
    native = native_env(env)
    if native is not None:
        return DeviceLoop.open(native)
    of_gymnasium = cast(EnvLike, env)
    factory = env_factory(of_gymnasium)
    with making_limit(env_name(factory), step_timeout):
        return _loop_of(of_gymnasium, make_env(factory))


def _loop_of(env: EnvLike, made: object) -> Loop:
    """The loop for `env`, which has made this; an environment of Gymnasium is closed."""
    if isinstance(made, Environment):  # `env` is a class or a function that makes one
        return DeviceLoop.open(made, env if isinstance(env, str) else None)
    if not isinstance(made, gymnasium.Env | VectorEnv):
        raise InputError(
            f"env={env!r} makes a {type(made).__name__}; it must make a gymnasium.Env, a VectorEnv"
            " or a longrun Environment"
        )
    try:
        return HostLoop.open(env, made)
    finally:
        close_env(made)  # type: ignore[arg-type]
