"""Flat rows of observations and of actions: sizes, bounds of actions, and the forms of spaces.

NumPy alone, so that a policy can be used without Gymnasium and JAX. Functions that apply bounds are
shared by host and device; their first argument is the array module, `numpy` or `jax.numpy`. Choices
have no bounds, and nothing here changes them. Forms are JSON in checkpoints; `spaces.form_of` makes
them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from longrun.base.errors import InputError
from longrun.learning.options.acting import ActionBounds

Array = np.ndarray[Any, np.dtype[Any]]
Form = Mapping[str, Any]
MASKED_KEYS = {"action_mask", "observation"}
"""Keys of a Dict observation that carries a mask, as in PettingZoo and other libraries."""


def _is_count(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and bool(value >= 1)


@dataclass(frozen=True)
class Spaces:
    """Sizes of one environment's flat rows; hashable, since they shape compiled programs."""

    observation_size: int
    """columns of an observation row, those of a mask included"""
    action_size: int
    """columns of an action row"""
    categories: tuple[int, ...] = ()
    """choices of each categorical component; empty for continuous actions"""
    low: tuple[float, ...] = ()
    """lower bounds of continuous actions"""
    high: tuple[float, ...] = ()
    """upper bounds"""
    masked: bool = False
    """observation rows begin with a mask: a column for each policy output, 0 where forbidden"""

    def __post_init__(self) -> None:
        for name in ("observation_size", "action_size"):
            if not _is_count(getattr(self, name)):
                raise InputError(
                    f"Spaces {name}={getattr(self, name)!r} must be a number of columns; an action"
                    " of 11 choices and rows of 4 are Spaces(4, 1, (11,))"
                )
        for name in ("categories", "low", "high"):
            value = getattr(self, name)
            if not isinstance(value, tuple) or len(value) not in (0, self.action_size):
                raise InputError(
                    f"Spaces {name}={value!r} must be a tuple of action_size={self.action_size}"
                    " entries, or ()"
                )
        if not all(map(_is_count, self.categories)):
            raise InputError(
                f"Spaces categories={self.categories} must be whole numbers, 1 or more: the choices"
                " of each component"
            )
        if bool(self.categories) == bool(self.low) or len(self.low) != len(self.high):
            raise InputError(
                f"Spaces categories={self.categories}, low={self.low}, high={self.high}: give"
                " categories for choices, or low and high for continuous actions"
            )
        if self.masked and not self.categories:
            raise InputError("Spaces masked=True needs categories: a mask is for choices")
        if self.feature_size < 1:
            raise InputError(
                f"Spaces observation_size={self.observation_size} leaves no feature beside a mask"
                f" of {self.mask_size} columns; a row is the mask and then the features"
            )

    @property
    def policy_outputs(self) -> int:
        return sum(self.categories) or self.action_size

    @property
    def mask_size(self) -> int:
        """Columns of an observation row that are the mask."""
        return self.policy_outputs if self.masked else 0

    @property
    def feature_size(self) -> int:
        """Columns of an observation row that the networks see."""
        return self.observation_size - self.mask_size

    @cached_property
    def limits(self) -> tuple[Array, Array]:
        """low and high of continuous actions, [A] float32 each, rounded inwards.

        A bound in double precision may have no float32 of its own, and the nearest one may lie
        outside the action space.
        """
        low, high = (np.asarray(bound, np.float64) for bound in (self.low, self.high))
        low32, high32 = low.astype(np.float32), high.astype(np.float32)
        low32 = np.where(low32 < low, np.nextafter(low32, np.float32(np.inf)), low32)
        high32 = np.where(high32 > high, np.nextafter(high32, np.float32(-np.inf)), high32)
        return low32, high32

    @cached_property
    def centre_and_reach(self) -> tuple[Array, Array]:
        """The middle of the limits and how far they are from it, [A] float32 each."""
        low, high = self.limits
        return 0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low

    @property
    def action_dtype(self) -> type:
        return np.int32 if self.categories else np.float32


def as_given(xp: Any, spaces: Spaces, action_bounds: ActionBounds, action: Any) -> Any:
    """What environments are given for the policy's actions [..., A].

    Continuous actions come back in a new array, so that an environment may change its own in place
    while the learner keeps what was sampled.
    """
    if spaces.categories:
        return action
    if action_bounds == "raw":
        return xp.array(action)
    low, high = spaces.limits
    return xp.minimum(xp.maximum(action, low), high)


def mean_within(xp: Any, spaces: Spaces, outputs: Any) -> Any:
    """Means [..., A] of a Gaussian policy inside the bounds: centre + reach * tanh(outputs)."""
    centre, reach = spaces.centre_and_reach
    return centre + reach * xp.tanh(outputs)


def require_bounds(bounded_mean: bool, spaces: Spaces) -> None:
    """An InputError if the mean is to be bounded and the action space has no finite bounds."""
    if bounded_mean and not np.isfinite([*spaces.low, *spaces.high]).all():
        raise InputError(
            f"a bounded mean needs finite bounds; the action space has low={list(spaces.low)},"
            f" high={list(spaces.high)}"
        )


def advice(spaces: Spaces, action_bounds: ActionBounds, action: Array) -> str:
    """What to add to an environment's error if a raw action [A] may be its cause."""
    if spaces.categories or action_bounds != "raw":
        return ""
    low, high = spaces.limits
    if ((action >= low) & (action <= high)).all():
        return ""
    return "; its action was beyond the action space: if it refuses those, set action_bounds='clip'"


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
