"""What made an environment, for config.json: its name, arguments, numbers and identity."""

from __future__ import annotations

import functools
import pickle
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import VectorEnv

from longrun.learning.envs.identity import PLAIN, identity_of, numbers_of, qualified

MOST_ATTRIBUTES = 30
"""Numbers of an environment that are recorded, so that a table can say in which two differ."""


def env_source(env: Any, made: Any) -> dict[str, Any]:
    """What config.json has of `env` as the user gave it, and of an environment that it has made."""
    inner, spec = getattr(made, "unwrapped", made), getattr(made, "spec", None)
    copied = isinstance(env, functools.partial) and env.func is pickle.loads
    arguments: list[str] = []
    if isinstance(env, str):
        made_by, causes = getattr(spec, "entry_point", ""), [spec, type(inner)]
    elif copied or not callable(env) or isinstance(env, gymnasium.Env | VectorEnv):
        made_by, causes = type(made), [made]
    else:
        (made_by, arguments), causes = _call(env), [env, made]
    return {
        "made_by": made_by if isinstance(made_by, str) else qualified(made_by),
        "arguments": arguments,
        "attributes": {} if isinstance(env, str) else _recorded(inner),
        "identity": identity_of(causes),
    }


def _call(env: Any) -> tuple[Any, list[str]]:
    """What is called to make the environment, and its arguments as text."""
    if not isinstance(env, functools.partial):
        return env, []
    values = [_text(v) for v in env.args if not isinstance(v, EnvSpec)]
    return env.func, [*values, *(f"{k}={_text(v)}" for k, v in env.keywords.items())]


def _text(value: Any) -> str:
    return repr(value)[:80] if isinstance(value, PLAIN) else qualified(value)


def _recorded(env: object) -> dict[str, float | bool]:
    """Attributes that are numbers. No strings, which may be passwords."""
    finite = {k: v for k, v in numbers_of(env).items() if not k.startswith("_") and np.isfinite(v)}
    return dict(sorted(finite.items())[:MOST_ATTRIBUTES])
