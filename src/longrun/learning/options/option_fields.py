"""Fields of a configuration, and the validation of their values."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from longrun.base.errors import InputError
from longrun.learning.options.acting import MLP

Option = dataclasses.Field[Any]
Check = Callable[[Option, Any], Any]


def number(default: float, help: str, low: float = 0.0, high: float = math.inf) -> Any:
    """A numeric hyper-parameter in [low, high]; replicas of one run may differ in it."""
    return _field(default, help, _number, low=low, high=high, numeric=True)


def count(default: int, help: str, low: int = 1, high: int = 10**6) -> Any:
    return _field(default, help, _number, low=low, high=high)


def switch(default: bool, help: str) -> Any:
    return _field(default, help, _switch)


def choice(default: str, help: str, among: tuple[str, ...]) -> Any:
    return _field(default, help, _choice, among=among)


def sizes(default: tuple[int, ...], help: str) -> Any:
    """Positive whole numbers."""
    return _field(default, help, _sizes)


def names(default: tuple[str, ...], help: str) -> Any:
    """Words, each once; they become names of columns in files."""
    return _field(default, help, _names, names=True)


def limits(help: str) -> Any:
    """Pairs of a name and a rate; given as a dictionary."""
    return _field((), help, _limits, limits=True)


def functions(help: str) -> Any:
    """ "mlp", or from Python a pair of functions (init, apply); no option of the command line."""
    return _field(MLP, help, _functions, functions=True)


def _field(default: Any, help: str, check: Check, **about: Any) -> Any:
    return field(default=default, metadata={"help": help, "check": check, **about})


def checked(option: Option, value: Any) -> Any:
    """The value converted to the option's type, or a ValueError with field, value and fix."""
    return option.metadata["check"](option, value)


def _switch(option: Option, value: Any) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"{option.name}={value!r} must be True or False")
    return value


def _choice(option: Option, value: Any) -> Any:
    if value not in option.metadata["among"]:
        among = ", ".join(option.metadata["among"])
        raise InputError(f"{option.name}={value!r} must be one of {among}")
    return value


def _sizes(option: Option, value: Any) -> tuple[int, ...]:
    given = value if isinstance(value, list | tuple) else [None]
    if not all(isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in given):
        raise InputError(f"{option.name}={value!r} must be positive whole numbers, as (64, 64)")
    return tuple(given)


def _names(option: Option, value: Any) -> tuple[str, ...]:
    given = value if isinstance(value, list | tuple) else [None]
    if not all(isinstance(name, str) and re.fullmatch(r"[\w.-]+", name) for name in given):
        raise InputError(f"{option.name}={value!r} must be a list of names, as ['terminated']")
    if len(set(given)) < len(given):
        raise InputError(f"{option.name}={value!r} has a name twice; give each once")
    return tuple(given)


def _limits(option: Option, value: Any) -> tuple[tuple[str, float], ...]:
    pairs = list(value.items()) if isinstance(value, Mapping) else value
    try:
        given = [(name, float(rate)) for name, rate in pairs]
    except (TypeError, ValueError):
        raise InputError(
            f"{option.name}={value!r} must be rates by name, as {{'terminated': 0.001}}"
        ) from None
    names = _names(option, [name for name, _ in given])
    for name, rate in given:
        if not math.isfinite(rate):
            raise InputError(f"{option.name}: {name}={rate} must be a finite number")
    return tuple(zip(names, (rate for _, rate in given), strict=True))


def _functions(option: Option, value: Any) -> Any:
    if value == MLP or (isinstance(value, str) and "." in value):  # in a file, a function's name
        return value
    if isinstance(value, list | tuple) and len(value) == 2 and all(map(callable, value)):
        return tuple(value)
    raise InputError(
        f"{option.name}={value!r} must be '{MLP}' or a pair of functions (init, apply):"
        " init(key, inputs, outputs) -> params, apply(params, x [n, inputs]) -> [n, outputs]"
    )


def _number(option: Option, value: Any) -> float | int:
    low, high = option.metadata["low"], option.metadata["high"]
    whole = isinstance(option.default, int)
    wanted = f"a whole number >= {low}" if whole else "a number"
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InputError(f"{option.name}={value!r} must be {wanted}") from None
    if isinstance(value, bool) or not math.isfinite(number) or (whole and number != int(number)):
        raise InputError(f"{option.name}={value!r} must be {wanted}")
    if not low <= number <= high:
        limits = f"at least {low:g}" if math.isinf(high) else f"between {low:g} and {high:g}"
        if whole:
            limits = f"at least {low} and at most {high}"
        raise InputError(f"{option.name}={value!r} is out of range; choose {limits}")
    return int(number) if whole else number
