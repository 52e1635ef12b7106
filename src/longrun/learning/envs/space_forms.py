"""Rows of observations and of actions by the forms of spaces, which are JSON: NumPy alone.

A checkpoint has these forms, so that a policy can be used where Gymnasium is not installed.
`spaces.form_of` makes them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from longrun.base.errors import InputError
from longrun.learning.envs.flat_spaces import Array

Form = Mapping[str, Any]
MASKED_KEYS = {"action_mask", "observation"}
"""Keys of a Dict observation that carries a mask, as in PettingZoo and other libraries."""


def width(form: Form) -> int:
    """Columns of the flat row."""
    if form["kind"] in ("Box", "MultiBinary"):
        return math.prod(form["shape"])
    if form["kind"] == "Discrete":
        return int(form["n"])
    if form["kind"] == "MultiDiscrete":
        return sum(form["n"])
    return sum(width(part) for part in form["parts"])


def carries_mask(form: Form) -> bool:
    return form["kind"] == "Dict" and set(form["keys"]) == MASKED_KEYS


def part_of(form: Form, key: str) -> Form:
    """One part of a Dict."""
    part: Form = form["parts"][form["keys"].index(key)]
    return part


def ordered_parts(form: Form) -> list[tuple[Any, Form]]:
    """Keys and parts of a Dict or Tuple in the order of a row, in which a mask comes first."""
    parts = list(zip(form["keys"], form["parts"], strict=True))
    return sorted(parts, key=lambda part: part[0]) if carries_mask(form) else parts


def row_writer(form: Form) -> Callable[[Any, Array], None]:
    """A function (observation, row) that writes the flat observation; choices become one-hot."""
    if form["kind"] in ("Box", "MultiBinary"):
        return _array_writer(tuple(form["shape"]))
    if form["kind"] in ("Discrete", "MultiDiscrete"):
        return _choice_writer(form)
    parts = []
    first = 0
    for key, part in ordered_parts(form):
        parts.append((key, row_writer(part), slice(first, first + width(part))))
        first += width(part)

    def write(observation: Any, row: Array) -> None:
        for key, write_part, columns in parts:
            try:
                value = observation[key]
            except (KeyError, IndexError, TypeError):
                raise InputError(
                    f"an observation has no {key!r}; it needs {', '.join(map(repr, form['keys']))}"
                ) from None
            try:
                write_part(value, row[columns])
            except InputError as error:
                raise InputError(f"{error} (in {key!r})") from None

    return write


def _array_writer(shape: tuple[int, ...]) -> Callable[[Any, Array], None]:
    """A function that writes an array of this shape to a row."""

    def write(observation: Any, row: Array) -> None:
        try:
            values = np.asarray(observation)
            if values.shape == shape:
                row[:] = values.reshape(-1)
                return
        except (TypeError, ValueError) as error:
            raise InputError(_no_numbers(observation, shape)) from error
        if values.dtype.kind not in "biuf":
            raise InputError(_no_numbers(observation, shape))
        raise InputError(
            f"an observation of shape {values.shape} does not fit the observation space's {shape}"
        )

    return write


def _no_numbers(observation: Any, shape: tuple[int, ...]) -> str:
    return (
        f"an observation of type {type(observation).__name__} is not an array of numbers; the"
        f" observation space needs one of shape {shape}"
    )


def _choice_writer(form: Form) -> Callable[[Any, Array], None]:
    sizes = np.atleast_1d(form["n"])
    starts = np.atleast_1d(form["start"])
    firsts = np.cumsum(sizes) - sizes

    def write(observation: Any, row: Array) -> None:
        try:
            chosen = np.asarray(observation).reshape(-1) - starts
            fits = chosen.shape == sizes.shape and ((chosen >= 0) & (chosen < sizes)).all()
        except (TypeError, ValueError):  # not numbers
            fits = False
        if not fits:
            raise InputError(f"an observation {observation!r} is not in its {form['kind']} space")
        row[:] = 0
        row[firsts + chosen.astype(int)] = 1

    return write


def action_maker(form: Form) -> Callable[[Array], Any]:
    """A function that gives an action row the environment's own shape and type."""
    kind, dtype = form["kind"], np.dtype(form["dtype"])
    if kind == "Discrete":
        first, scalar = form["start"], dtype.type
        return lambda row: scalar(row[0] + first)
    shape = tuple(form["shape"])
    if kind == "MultiDiscrete":
        start = np.array(form["start"]).reshape(shape)
        return lambda row: (row.reshape(shape) + start).astype(dtype)
    return lambda row: row.reshape(shape).astype(dtype, copy=False)
