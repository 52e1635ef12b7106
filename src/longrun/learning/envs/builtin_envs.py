"""The built-in JAX environments by name, and how their arguments are checked."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, get_args

from longrun.base.checks import known
from longrun.base.errors import InputError
from longrun.learning.envs.env_strings import written
from longrun.learning.envs.native.control import AccessControl, Inventory, Maintenance
from longrun.learning.envs.native.protocol import Environment
from longrun.learning.envs.queueing.environment import ENVIRONMENTS

BUILTIN: dict[str, Callable[..., Environment]] = {
    **ENVIRONMENTS,
    "access-control": AccessControl,
    "inventory": Inventory,
    "maintenance": Maintenance,
}
"""Builders: every parameter has a default; the first line of the docstring says what it is."""


def make_builtin(name: str, args: dict[str, Any]) -> Environment:
    """A built-in environment; values are those of JSON, where lists stand for tuples."""
    builder = BUILTIN[known("jax environment", name, BUILTIN)]
    parameters = inspect.signature(builder, eval_str=True).parameters
    for key in args:
        known(f"argument of '{name}'", key, parameters)
    return builder(**{key: _typed(parameters[key], value) for key, value in args.items()})


def explained(name: str) -> str:
    """What a built-in environment is, and its arguments with their defaults."""
    builder = BUILTIN[known("jax environment", name, BUILTIN)]
    parameters = inspect.signature(builder).parameters.values()
    arguments = "\n".join(f"  {p.name}={written(name, p.name, p.default)}" for p in parameters)
    return (
        f"jax:{name}\n\n{inspect.getdoc(builder)}\n\n--env-args, with their defaults:\n{arguments}"
    )


KINDS: dict[Any, str] = {
    bool: "true or false",
    str: "a word",
    int: "a whole number",
    float: "a number",
    tuple[float, ...]: "a list of numbers, as [1, 0.5]",
    tuple[int, ...]: "a list of whole numbers, as [1, 2]",
}
"""What the types of parameters are called."""


def _typed(parameter: inspect.Parameter, value: Any) -> Any:
    """The value in the parameter's type, or a one-line InputError."""
    kind = parameter.annotation
    try:
        if kind not in (bool, str, int, float):
            if not isinstance(value, list | tuple):
                raise TypeError
            return tuple(_converted(get_args(kind)[0], each) for each in value)
        return _converted(kind, value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{parameter.name}={value!r} must be {KINDS[kind]}") from None


def _converted(kind: type, value: Any) -> Any:
    """The value as a bool, str, int or float. Raises TypeError or ValueError if it is none."""
    if isinstance(value, bool | str) or kind in (bool, str):
        if not isinstance(value, kind):
            raise TypeError
        return value
    number = float(value)
    if kind is int and number != int(number):
        raise ValueError
    return kind(number)
