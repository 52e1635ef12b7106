"""From a user's description of an environment to a factory that can be sent to worker processes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import cloudpickle
import gymnasium
from gymnasium.envs.registration import EnvSpec

from longrun.config import known
from longrun.envs.env_strings import join_env, split_env
from longrun.errors import InputError

EnvLike = str | gymnasium.Env[Any, Any] | Callable[[], gymnasium.Env[Any, Any]]
Factory = Callable[[], gymnasium.Env[Any, Any]]


def make_env(factory: Factory) -> gymnasium.Env[Any, Any]:
    """Make an environment; MuJoCo's own warnings become Python's instead of a log file."""
    if "mujoco" in str(getattr(factory, "args", "")):
        import mujoco

        mujoco.set_mju_user_warning(mujoco_warning)
    try:
        return factory()
    except (gymnasium.error.Error, ImportError) as error:
        raise InputError(f"environment '{env_name(factory)}' cannot be made: {error}") from None
    except TypeError as error:
        if getattr(factory, "keywords", None):  # the environment's own message about its arguments
            raise InputError(f"environment '{env_name(factory)}' cannot be made: {error}") from None
        raise


def mujoco_warning(message: bytes | str) -> None:
    text = message.decode() if isinstance(message, bytes) else message
    if "settotalmass" not in text:  # from Gymnasium's own model of HalfCheetah
        warnings.warn(text, RuntimeWarning, stacklevel=2)


def env_factory(env: EnvLike) -> Factory:
    """A factory from an id, an instance (which is copied, never stepped) or a factory."""
    if isinstance(env, str):
        env_id, args = split_env(env)
        return partial(gymnasium.make, _spec(env_id), **args)
    if isinstance(env, gymnasium.Env):
        return partial(cloudpickle.loads, pickled(env))
    if callable(env):
        return env
    raise InputError(
        f"env={env!r} must be an environment id, a gymnasium.Env, a longrun Environment (such as"
        " QueueingEnv(network)) or a function that makes one"
    )


def env_name(env: EnvLike) -> str:
    """What run folders and checkpoints call the environment."""
    if isinstance(env, str):
        return env
    if isinstance(env, gymnasium.Env):
        return env.spec.id if env.spec is not None else type(env.unwrapped).__name__
    if isinstance(env, partial):
        first = next(iter(env.args), None)
        if isinstance(first, str):
            return first
        if isinstance(first, EnvSpec):
            try:
                return join_env(first.id, env.keywords)
            except ValueError:  # arguments that cannot be written as text
                return first.id
        return env_name(env.func)
    return getattr(env, "__name__", type(env).__name__)


def require_id(name: str, path: object) -> None:
    """An InputError if a saved environment's name is not an id that it can be made from."""
    if split_env(name)[0] not in gymnasium.registry and ":" not in name:
        raise InputError(
            f"'{path}' was trained on '{name}', which has no id; load it in Python and pass env="
        )


def _spec(env_id: str) -> EnvSpec:
    """The registered specification: workers get it too, if it was registered here only."""
    module, _, name = env_id.rpartition(":")
    try:
        if module:
            import_module(module)
        return gymnasium.spec(name)
    except (gymnasium.error.Error, ImportError) as error:
        if not module:
            # By name, since it imports JAX, which worker processes must not: they never come here.
            built_in = import_module("longrun.builtin_envs").BUILTIN
            names = [*sorted(gymnasium.registry), *(f"jax:{name}" for name in built_in)]
            known("environment", env_id, names)
        raise InputError(f"unknown environment '{env_id}'; {error}") from None


def pickled(env: object) -> bytes:
    """The object as bytes, to be sent to a worker process."""
    try:
        content: bytes = cloudpickle.dumps(env)
    except Exception as error:
        raise InputError(
            f"the environment cannot be copied to worker processes ({error}); pass a function that"
            " makes it, or use num_workers=0"
        ) from None
    return content
