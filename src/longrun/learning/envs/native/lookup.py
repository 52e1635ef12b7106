"""Finds the JAX-native environment that an env string names."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from longrun.learning.envs.env_strings import NATIVE_MAKERS, split_env
from longrun.learning.envs.native.protocol import Environment


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
    return _make(prefix, name, args)


def _make(prefix: str, name: str, args: dict[str, Any]) -> Environment:
    # Imported here, since each adapter imports a package that most users do not have.
    module, function = NATIVE_MAKERS[prefix]
    made = getattr(import_module(module), function)(name, args)
    assert isinstance(made, Environment)
    return made
