"""How environments are called: 'jax:criss-cross?regime=BH'."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from typing import Any


def env_string(name: str, builder: Callable[..., Any], **arguments: Any) -> str:
    """The env string that builds it again: the arguments that are not the builder's defaults.

    Values are written as in JSON, strings without quotes.
    """
    parameters = inspect.signature(builder).parameters
    changed = {key: v for key, v in arguments.items() if v != parameters[key].default}
    query = "&".join(f"{key}={_written(value)}" for key, value in changed.items())
    return f"jax:{name}?{query}" if query else f"jax:{name}"


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
