"""Rewards and ends of episodes in any type that is clearly meant: a number, a flag."""

from __future__ import annotations

from typing import Any

import numpy as np

from longrun.base.errors import InputError

SCALARS = (float, int, np.floating, np.integer, np.bool_)
LONGEST = 80
"""Characters of a value that a message shows."""


def as_number(name: str, value: Any, wanted: str = "a number") -> float:
    """The value as a float: a number of any library, or an array of one.

    Raises InputError for all else, also for text that reads as a number.
    """
    if isinstance(value, SCALARS):
        return float(value)
    if hasattr(value, "shape"):  # of NumPy, JAX, PyTorch
        array = np.asarray(value)
        if array.size == 1 and array.dtype.kind in "biuf":
            return float(array.item())
    elif hasattr(value, "__float__"):  # a Fraction, a Decimal
        return float(value)
    raise _wrong(name, value, wanted)


def as_flag(name: str, value: Any) -> bool:
    """The value as a bool: one of any library, or 0 or 1. Raises InputError for all else."""
    number = as_number(name, value, "a bool")
    if number not in (0.0, 1.0):
        raise _wrong(name, value, "a bool")
    return bool(number)


def _wrong(name: str, value: Any, wanted: str) -> InputError:
    text = repr(value)
    shown = text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
    return InputError(f"{name} {shown} of type {type(value).__name__} must be {wanted}")
