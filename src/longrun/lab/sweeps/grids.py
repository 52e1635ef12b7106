"""Parse values to try: lists (`gae_lambda=0.9,0.95`) and ranges (`learning_rate=1e-5:1e-3:log`).

A value that is itself a list joins its parts: sizes `64x64`, costs `terminated/fuel`, limits
`terminated=0.001/fuel=0.5`; `none` is empty.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from longrun.base.checks import known
from longrun.base.errors import InputError
from longrun.learning.options.config import ALGORITHMS
from longrun.learning.options.config_options import value_text, why_unknown

Options = Mapping[str, Any]

JOIN = "/"
"""Joins the costs, or limits, of one value."""


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`, drawn uniformly, or with a uniform logarithm."""

    low: float
    high: float
    log: bool = False
    whole: bool = False

    def __str__(self) -> str:
        """The range as `--range` takes it."""
        return f"{self.low}:{self.high}{':log' if self.log else ''}"

    def draw(self, rng: np.random.Generator) -> float | int:
        top = self.high + 1 if self.whole else self.high  # so that `high` itself is drawn too
        if self.log:
            value = math.exp(rng.uniform(math.log(self.low), math.log(top)))
        else:
            value = rng.uniform(self.low, top)
        return self.short(value)

    def short(self, value: float) -> float | int:
        """The value within the range, as a whole number or rounded to four digits."""
        if self.whole:
            return min(int(value), int(self.high))
        return min(max(float(f"{value:.4g}"), self.low), self.high)


def parse_lists(texts: Sequence[str]) -> dict[str, list[Any]]:
    """Values of each option from texts such as `NAME=A,B,...`, in the option's type."""
    lists: dict[str, list[Any]] = {}
    for text in texts:
        name, values = _split(text, "--grid", "value_constraint=0,0.1,0.3")
        if name in lists:
            raise InputError(f"--grid names {name} twice; list all its values once")
        lists[name] = [_value(name, value) for value in values.split(",")]
        if len({repr(v) for v in lists[name]}) < len(lists[name]):
            raise InputError(f"--grid '{text}' lists a value twice; list each once")
    return lists


def parse_ranges(texts: Sequence[str]) -> dict[str, Range]:
    """The range of each option from texts such as `NAME=LOW:HIGH` or `NAME=LOW:HIGH:log`."""
    ranges: dict[str, Range] = {}
    for text in texts:
        name, values = _split(text, "--range", "learning_rate=1e-5:1e-3:log")
        if name in ranges:
            raise InputError(f"--range names {name} twice; give one range")
        ranges[name] = _range(name, text, values.split(":"))
    return ranges


def _range(name: str, text: str, parts: Sequence[str]) -> Range:
    how = f"--range '{text}' must look like learning_rate=1e-5:1e-3:log or gae_lambda=0.9:0.99"
    if len(parts) not in (2, 3) or parts[2:] not in ([], ["log"]):
        raise InputError(how)
    try:
        low, high = float(parts[0]), float(parts[1])
    except ValueError:
        raise InputError(how) from None
    return checked_range(name, f"--range '{text}'", low, high, len(parts) == 3)


def checked_range(name: str, where: str, low: float, high: float, log: bool) -> Range:
    """The range of an option. Raises InputError, which begins with `where`, if it is wrong."""
    default = _option(name).default
    if isinstance(default, bool) or not isinstance(default, int | float):
        raise InputError(f"{where}: {name} is not numeric; list its values with --grid")
    if any(isinstance(end, bool) or not isinstance(end, int | float) for end in (low, high)):
        raise InputError(f"{where}: LOW={low!r} and HIGH={high!r} must be numbers")
    whole = isinstance(default, int)
    for wrong, reason in (
        (not -math.inf < low < high < math.inf, "LOW must be below HIGH, both finite"),
        (log and low <= 0, "LOW must be above 0 for log"),
        (whole and (low % 1 or high % 1), f"LOW and HIGH of {name} must be whole numbers"),
    ):
        if wrong:
            raise InputError(f"{where}: {reason}")
    return Range(low, high, log, whole)


def _split(text: str, flag: str, example: str) -> tuple[str, str]:
    name, equals, values = text.partition("=")
    if not equals or not values.strip(" ,:"):
        raise InputError(f"{flag} '{text}' must look like {example}")
    return name.strip().replace("-", "_"), values


def _option(name: str) -> dataclasses.Field[Any]:
    """An option, whose name may have an algorithm before it (`ppo.discount`)."""
    fields = {f.name: f for kind in ALGORITHMS.values() for f in dataclasses.fields(kind)}
    option = name.rpartition(".")[2]
    if why := why_unknown(option, list(ALGORITHMS)):
        raise InputError(f"unknown option '{option}'; {why}")
    return fields[known("option", option, fields)]


def _value(name: str, text: str) -> Any:
    """A value in the option's type. Its range is checked later, with the whole configuration."""
    option, text = _option(name), text.strip()
    default = option.default
    wanted: str | None = None
    if isinstance(default, bool):
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        wanted = "true or false"
    elif isinstance(default, tuple):
        return _parts(option, name, text)
    elif isinstance(default, str):
        return text
    else:
        try:
            number = float(text)
            return int(number) if isinstance(default, int) and number.is_integer() else number
        except ValueError:
            wanted = "a number"
    raise InputError(f"--grid: {name}={text!r} must be {wanted}")


def _parts(option: dataclasses.Field[Any], name: str, text: str) -> list[Any]:
    """A value that is a list: sizes, names of costs, or pairs of a cost and its limit."""
    words = option.metadata.get("names") or option.metadata.get("limits")
    parts = [] if text == "none" else text.split(JOIN if words else "x")
    if option.metadata.get("names"):
        return parts
    try:
        if option.metadata.get("limits"):
            pairs = [part.rpartition("=") for part in parts]
            return [[cost, float(rate)] for cost, _, rate in pairs]
        if all(part.isdigit() for part in parts):
            return [int(part) for part in parts]
    except ValueError:
        pass
    wanted = "limits such as terminated=0.001/fuel=0.5" if words else "sizes such as 64x64"
    raise InputError(f"--grid: {name}={text!r} must be {wanted}, or none")


def written(value: Any) -> str:
    """A value as `--grid` takes it."""
    if isinstance(value, bool):
        return str(value).lower()
    sizes = isinstance(value, list | tuple) and all(isinstance(part, int) for part in value)
    return value_text(value, "x" if sizes else JOIN)
