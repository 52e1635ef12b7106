"""How built-in environments are called: 'jax:criss-cross?regime=BH'."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from longrun.envs.env_strings import join_env


def env_string(name: str, builder: Callable[..., Any], **arguments: Any) -> str:
    """The env string that builds it again: the arguments that are not the builder's defaults."""
    parameters = inspect.signature(builder).parameters
    changed = {key: v for key, v in arguments.items() if v != parameters[key].default}
    return join_env(f"jax:{name}", changed)
