"""Checks of what users give: names that must be known, numbers and their ranges."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from longrun.base.errors import MOST_VALID, InputError, listed, similar, suggestion

STEP_TIMEOUT = 300.0
"""Default of `step_timeout`, in seconds."""
MOST_STEPS = 2**53
"""Steps of a run, all of them exact also as floating-point numbers."""


def whole_number(name: str, value: Any, low: int = 0, most: int = 2**32) -> int:
    """A non-negative integer below `most`; NumPy's integers and floats such as 1e6 are accepted."""
    whole = isinstance(value, int | np.integer | float) and not isinstance(value, bool)
    if not whole or value != value // 1 or value < low:
        raise InputError(f"{name}={value!r} must be {low} or more, a whole number")
    if value >= most:
        power = most.bit_length() - 1
        raise InputError(f"{name}={value!r} is too large; choose less than 2**{power}")
    return int(value)


def known(what: str, name: str, valid: Iterable[str], otherwise: str = "") -> str:
    """`name` if it is valid; otherwise a one-line ValueError with similar or valid names.

    `otherwise` is what else the user can do. Where no name is similar it comes first, and only a
    few of the valid names are listed.
    """
    valid = list(valid)
    if not isinstance(name, str):
        raise InputError(f"{what}={name!r} must be one of {listed(valid, MOST_VALID)}")
    if name in valid:
        return name
    if otherwise and not similar(name, valid):
        raise InputError(f"unknown {what} '{name}'; {otherwise}; valid: {listed(valid)}")
    more = f" ({otherwise})" if otherwise else ""
    raise InputError(f"unknown {what} '{name}'; {suggestion(name, valid)}{more}")


def checked_timeout(value: Any) -> float:
    """The option `step_timeout`: seconds, 0 for no limit."""
    is_number = isinstance(value, int | float | np.integer | np.floating)
    if not is_number or isinstance(value, bool) or not 0 <= value < np.inf:
        raise InputError(f"step_timeout={value!r} must be a number of seconds; 0 for no limit")
    return float(value)


def require_at_least(least: int, **sizes: int) -> None:
    for name, value in sizes.items():
        if not value >= least:
            raise InputError(f"{name}={value} is too small; give {least} or more")


def require_probability(**probabilities: float) -> None:
    for name, value in probabilities.items():
        if not 0 <= value <= 1:
            raise InputError(f"{name}={value} is not a probability; give a number from 0 to 1")


def require_positive(**rates: float) -> None:
    for name, value in rates.items():
        if not 0 < value < np.inf:
            raise InputError(f"{name}={value} is not positive; give a finite number above 0")


def require_non_negative(**costs: float) -> None:
    for name, value in costs.items():
        if not 0 <= value < np.inf:
            raise InputError(f"{name}={value} is negative or infinite; give 0 or more")


def require_finite(**values: float) -> None:
    for name, value in values.items():
        if not np.isfinite(value):
            raise InputError(f"{name}={value} is not finite; give a number")
