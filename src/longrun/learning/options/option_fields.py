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


def option(default: Any, help: str, check: Check | None = None, **about: Any) -> Any:
    """A field of a configuration: numbers may have `low` and `high`, choices have `among`.

    Whole numbers start at 1, others at 0. The others are `numeric`: replicas may differ in them.
    """
    if isinstance(default, bool):
        check = _switch
    elif isinstance(default, int):
        check, about = _number, {"low": 1, "high": 10**6, **about}
    elif isinstance(default, float):
        check, about = _number, {"low": 0.0, "high": math.inf, "numeric": True, **about}
    elif "among" in about:
        check = _choice
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


def sizes(option: Option, value: Any) -> tuple[int, ...]:
    """Positive whole numbers."""
    given = value if isinstance(value, list | tuple) else [None]
    if not all(isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in given):
        raise InputError(f"{option.name}={value!r} must be positive whole numbers, as (64, 64)")
    return tuple(given)


def names(option: Option, value: Any) -> tuple[str, ...]:
    """Words, each once; they become names of columns in files."""
    given = value if isinstance(value, list | tuple) else [None]
    if not all(isinstance(name, str) and re.fullmatch(r"[\w.-]+", name) for name in given):
        raise InputError(f"{option.name}={value!r} must be a list of names, as ['terminated']")
    if len(set(given)) < len(given):
        raise InputError(f"{option.name}={value!r} has a name twice; give each once")
    return tuple(given)


def limits(option: Option, value: Any) -> tuple[tuple[str, float], ...]:
    """Pairs of a name and a rate; given as a dictionary."""
    pairs = list(value.items()) if isinstance(value, Mapping) else value
    try:
        given = [(name, float(rate)) for name, rate in pairs]
    except (TypeError, ValueError):
        raise InputError(
            f"{option.name}={value!r} must be rates by name, as {{'terminated': 0.001}}"
        ) from None
    costs = names(option, [name for name, _ in given])
    for name, rate in given:
        if not math.isfinite(rate):
            raise InputError(f"{option.name}: {name}={rate} must be a finite number")
    return tuple(zip(costs, (rate for _, rate in given), strict=True))


def functions(option: Option, value: Any) -> Any:
    """ "mlp", or from Python a pair of functions (init, apply); no option of the command line."""
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
        bounds = f"at least {low:g}" if math.isinf(high) else f"between {low:g} and {high:g}"
        if whole:
            bounds = f"at least {low} and at most {high}"
        raise InputError(f"{option.name}={value!r} is out of range; choose {bounds}")
    return int(number) if whole else number
