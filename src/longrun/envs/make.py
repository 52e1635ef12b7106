"""From whatever a user calls an environment to a factory that worker processes can be handed."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import cloudpickle
import gymnasium

from longrun.config import known

EnvLike = str | gymnasium.Env[Any, Any] | Callable[[], gymnasium.Env[Any, Any]]
Factory = Callable[[], gymnasium.Env[Any, Any]]


def make_env(factory: Factory) -> gymnasium.Env[Any, Any]:
    """Make an environment; MuJoCo's own warnings become Python's instead of a log file."""
    if "mujoco" in str(getattr(factory, "args", "")):
        import mujoco

        mujoco.set_mju_user_warning(_mujoco_warning)
    return factory()


def _mujoco_warning(message: bytes | str) -> None:
    text = message.decode() if isinstance(message, bytes) else message
    if "settotalmass" not in text:  # Gymnasium's own model of HalfCheetah, nothing a user can mend
        warnings.warn(text, RuntimeWarning, stacklevel=2)


def env_factory(env: EnvLike) -> Factory:
    """A picklable factory from an id, an instance (which is copied, never stepped) or a factory."""
    if isinstance(env, str):
        return partial(gymnasium.make, _spec(env))
    if isinstance(env, gymnasium.Env):
        if env.spec is not None:
            return partial(gymnasium.make, env.spec)
        return partial(cloudpickle.loads, _pickled(env))
    if callable(env):
        _pickled(env)
        return env
    raise ValueError(
        f"env={env!r} must be an environment id, a gymnasium.Env or a function that makes one"
    )


def env_name(env: EnvLike) -> str:
    """What run folders and checkpoints call the environment."""
    if isinstance(env, str):
        return env
    if isinstance(env, gymnasium.Env):
        return env.spec.id if env.spec is not None else type(env.unwrapped).__name__
    return getattr(env, "__name__", type(env).__name__)


def _spec(env_id: str) -> gymnasium.envs.registration.EnvSpec:
    """The registered specification: what was registered here alone reaches the workers too."""
    try:
        return gymnasium.spec(env_id)
    except (gymnasium.error.Error, ImportError) as error:
        if ":" not in env_id:  # otherwise it is module:id, and the module cannot be imported
            known("environment", env_id, sorted(gymnasium.registry))
        raise ValueError(f"unknown environment '{env_id}'; {error}") from None


def _pickled(env: object) -> bytes:
    try:
        pickled: bytes = cloudpickle.dumps(env)
        return pickled
    except Exception as error:
        raise ValueError(
            f"env={env!r} cannot be copied to worker processes ({error}); pass a function that"
            " makes it, or use num_workers=0"
        ) from None
