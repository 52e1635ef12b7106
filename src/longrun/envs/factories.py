"""From a user's description of an environment to a factory that can be sent to worker processes."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import cloudpickle
import gymnasium
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import VectorEnv

from longrun.config import known
from longrun.envs.env_strings import NATIVE_MAKERS, join_env, split_env
from longrun.errors import EnvironmentFailure, InputError, text_of

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
        raise InputError(_not_made(factory, error)) from None
    except TypeError as error:
        if getattr(factory, "keywords", None):  # the environment's own message about its arguments
            raise InputError(_not_made(factory, error)) from None
        raise
    except (Exception, KeyboardInterrupt):
        raise
    except BaseException as error:  # sys.exit() in an environment must not end this program
        raise EnvironmentFailure(_not_made(factory, error)) from error


def _not_made(factory: Factory, error: BaseException) -> str:
    return f"environment '{env_name(factory)}' cannot be made: {text_of(error)}"


def close_env(env: gymnasium.Env[Any, Any]) -> None:
    try:
        env.close()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        message = f"an environment failed when it was closed: {text_of(error)}"
        raise EnvironmentFailure(message) from error


def mujoco_warning(message: bytes | str) -> None:
    text = message.decode() if isinstance(message, bytes) else message
    if "settotalmass" not in text:  # from Gymnasium's own model of HalfCheetah
        warnings.warn(text, RuntimeWarning, stacklevel=2)


def env_factory(env: EnvLike) -> Factory:
    """A factory from an id, an instance (which is copied, never stepped) or a factory."""
    if isinstance(env, str):
        env_id, args = split_env(env)
        return partial(gymnasium.make, _spec(env_id), **args)
    if isinstance(env, gymnasium.Env | VectorEnv):
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
    if isinstance(env, gymnasium.Env | VectorEnv):
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


def needs_trust(name: str) -> bool:
    """Whether an environment that is named like this is made by a module of its own."""
    module, colon, _ = split_env(name)[0].rpartition(":")
    return bool(colon) and module not in NATIVE_MAKERS


def require_saved(name: Any, path: object, trust: bool = False) -> None:
    """Raise InputError unless the environment that the files in `path` name can be made from it.

    A module that a file names is not imported, since that would run its code, unless the user
    trusts the file or has imported the module already.
    """
    if not isinstance(name, str):
        raise InputError(f"'{path}' is damaged: its environment is {name!r}")
    env_id = split_env(name)[0]
    module, colon, _ = env_id.rpartition(":")
    if not colon and env_id not in gymnasium.registry:
        raise InputError(
            f"'{path}' was trained on '{name}', which has no id; load it in Python and pass env="
        )
    if needs_trust(name) and module not in sys.modules and not trust:
        raise InputError(
            f"'{path}' was trained on '{name}'; loading it imports the module '{module}', which"
            " runs its code: give --trust, or env= in Python, if you trust it"
        )


def _spec(env_id: str) -> EnvSpec:
    """The registered specification: workers get it too, if it was registered here only."""
    module, _, name = env_id.rpartition(":")
    try:
        if module:
            _import_module(module)
        return gymnasium.spec(name)
    except (gymnasium.error.Error, ImportError) as error:
        if not module:
            # By name, since it imports JAX, which worker processes must not: they never come here.
            built_in = import_module("longrun.builtin_envs").BUILTIN
            names = [*sorted(gymnasium.registry), *(f"jax:{name}" for name in built_in)]
            known("environment", env_id, names)
        raise InputError(f"unknown environment '{env_id}'; {error}") from None


def _import_module(module: str) -> None:
    """Import a module that the user names, which may be in the working directory.

    The directory comes last, so that its files hide no other module.
    """
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        import_module(module)
    except SystemExit as error:
        raise InputError(f"module '{module}' ends when it is imported: {error!r}") from None


def pickled(env: object) -> bytes:
    """The object as bytes, to be sent to a worker process."""
    try:
        content: bytes = cloudpickle.dumps(env)
    except Exception as error:
        raise InputError(
            f"the environment cannot be copied to worker processes ({text_of(error)}); pass a"
            " function that makes it, or use num_workers=0"
        ) from None
    return content
