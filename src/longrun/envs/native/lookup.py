"""From what a user calls an environment to a JAX-native one, where it names one."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from longrun.envs.env_strings import split_env
from longrun.envs.native.protocol import Environment

PREFIXES = ("jax", "brax", "playground", "gymnax")
"""What JAX-native env strings begin with, as in 'jax:criss-cross' and 'brax:halfcheetah'."""


def is_native(env: str) -> bool:
    """Whether an env string names an environment that runs inside the compiled program."""
    prefix, colon, _ = env.partition(":")
    return bool(colon) and prefix in PREFIXES


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
    # Lazily, since each adapter imports a package that most users do not have.
    if prefix == "jax":
        made = import_module("longrun.builtin_envs").make_builtin(name, args)
    else:
        made = import_module(f"longrun.envs.native.adapters.{prefix}").make(name, args)
    assert isinstance(made, Environment)
    return made
