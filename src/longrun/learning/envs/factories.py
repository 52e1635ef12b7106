"""Turns a user's description of an environment into a factory that worker processes can be sent."""

from __future__ import annotations

import re
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
from gymnasium.wrappers import TimeLimit

import longrun.learning.envs.mujoco_velocity  # noqa: F401  (it registers ids)
from longrun.base.checks import known
from longrun.base.errors import EnvironmentFailure, InputError, text_of
from longrun.learning.envs.env_strings import (
    NATIVE_MAKERS,
    join_env,
    named_object,
    split_env,
    user_module,
)

EnvLike = str | gymnasium.Env[Any, Any] | Callable[[], gymnasium.Env[Any, Any]]
Factory = Callable[[], gymnasium.Env[Any, Any]]


def is_a(value: object, module: str, name: str) -> bool:
    """Whether `value` is an instance of a class of a module that is slow to import.

    There is no instance where the module has not been imported yet.
    """
    home = sys.modules.get(module)
    return home is not None and isinstance(value, getattr(home, name))


def time_limit(env: gymnasium.Env[Any, Any]) -> int:
    """The steps after which a wrapper of Gymnasium ends an episode; 0 if there is none."""
    limits, inner = [], env
    while isinstance(inner, gymnasium.Wrapper):
        if isinstance(inner, TimeLimit):
            limits.append(inner._max_episode_steps)
        inner = inner.env
    return min(limits, default=0)


def make_env(factory: Factory) -> gymnasium.Env[Any, Any]:
    """Make an environment; MuJoCo's own warnings become Python's instead of a log file."""
    try:
        if "mujoco" in str(getattr(factory, "args", "")):
            import mujoco

            mujoco.set_mju_user_warning(mujoco_warning)
        made: Any = factory()
        if is_a(made, "longrun.exact.tabular.mdp", "MDP"):
            tables = import_module("longrun.exact.tabular.gymnasium_tables")
            return tables.to_gymnasium(made)  # type: ignore[no-any-return]
        return made  # type: ignore[no-any-return]
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        text = f"environment '{env_name(factory)}' cannot be made: {text_of(error)}"
        if isinstance(error, ModuleNotFoundError) and error.name == "mujoco":
            text += "; pip install 'gymnasium[mujoco]'"
        refuses = isinstance(error, TypeError) and getattr(factory, "keywords", None)  # arguments
        if isinstance(error, gymnasium.error.Error | ImportError) or refuses:
            raise InputError(text) from None
        if isinstance(error, Exception):
            raise
        raise EnvironmentFailure(text) from error  # sys.exit() must not end this program


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
        maker = _maker_in_module(env_id) or partial(gymnasium.make, _spec(env_id))
        return partial(maker, **args) if args else maker
    if isinstance(env, gymnasium.Env | VectorEnv):
        return partial(cloudpickle.loads, pickled(env, "copied", "pass a function that makes it"))
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
            f"'{path}' was trained on '{name}', which is no id: pass env=, the class or function"
            " that makes it, to load() in Python, or for predict alone take"
            f" longrun.load_policy('{path}'); the command line needs a run on 'module:function'"
        )
    if needs_trust(name) and module not in sys.modules and not trust:
        raise InputError(
            f"'{path}' was trained on '{name}'; loading it imports the module '{module}', which"
            " runs its code: give --trust, or env= in Python, if you trust it"
        )


def _spec(env_id: str) -> EnvSpec:
    """The registered specification: workers get it too, if it was registered here only."""
    module, _, name = env_id.rpartition(":")
    home = user_module(env_id) if module else None
    try:
        return gymnasium.spec(name)
    except gymnasium.error.Error as error:
        if home is None:
            # By name, since it imports JAX, which worker processes must not: they never come here.
            built_in = import_module("longrun.learning.envs.builtin_envs").BUILTIN
            names = [*sorted(gymnasium.registry), *(f"jax:{name}" for name in built_in)]
            own = (
                "for an environment of your own: in Python pass its class or a function that makes"
                " it, on the command line write module:Class or module:Id"
            )
            known("environment", env_id, names, own)
        without_version = re.sub(r"-v\d+$", "", name)
        shown = without_version if callable(getattr(home, without_version, None)) else "Class"
        raise InputError(
            f"unknown environment '{env_id}'; {str(error).rstrip('.')}; write {module}:{shown}, or"
            f" register the id when the module '{module}' is imported"
        ) from None


def _maker_in_module(env_id: str) -> Factory | None:
    """What 'module:name' makes environments by, if it is a class or function of the module.

    None if it is no such name, or an id that the module registers.
    """
    if ":" not in env_id or re.search(r"-v\d+$", env_id):
        return None
    found = named_object(env_id)
    if isinstance(found, gymnasium.Env | VectorEnv):
        return env_factory(found)  # type: ignore[arg-type]
    if not callable(found):
        wanted = "an environment, or a class or function that makes one"
        raise InputError(f"'{env_id}' is {found!r}; it must be {wanted}")
    return found  # type: ignore[no-any-return]


def pickled(
    env: object,
    what: str = "copied to worker processes",
    fix: str = "use num_workers=0 (--workers 0)",
) -> bytes:
    """The object as bytes; `what` cannot be done otherwise, and what would help, for the error."""
    try:
        return cloudpickle.dumps(env)  # type: ignore[no-any-return]
    except Exception as error:
        raise InputError(f"the environment cannot be {what} ({text_of(error)}); {fix}") from None
