"""Values to try: lists (`gae_lambda=0.9,0.95`) and ranges (`learning_rate=1e-5:1e-3:log`).

A value that is itself a list joins its parts: sizes `64x64`, costs `terminated/fuel`, limits
`terminated=0.001/fuel=0.5`; `none` is empty.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from longrun.base.checks import known
from longrun.base.errors import InputError
from longrun.learning.options.config import ALGORITHMS
from longrun.learning.options.config_options import value_text, why_unknown
from longrun.learning.options.option_fields import limits, names

Options = Mapping[str, Any]

JOIN = "/"
"""Joins the costs, or limits, of one value."""
MOST_CORNERS = 1000
"""Most combinations that are checked before a search starts."""


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`, drawn uniformly, or with a uniform logarithm."""

    low: float
    high: float
    log: bool = False
    whole: bool = False

    @classmethod
    def of(cls, name: str, given: Any) -> Range:
        """The range of an option from (low, high) or (low, high, "log"). Raises InputError."""
        what = f"range of {name}: "
        match given:
            case [low, high]:
                log = False
            case [low, high, "log"]:
                log = True
            case _:
                raise InputError(f"{what}{given!r} must be (low, high) or (low, high, 'log')")
        default = _option(name).default
        if type(default) not in (int, float):
            raise InputError(f"{what}{name} is not numeric; list its values in a grid")
        if not {type(low), type(high)} <= {int, float}:
            raise InputError(f"{what}low and high of {given!r} must be numbers")
        whole = isinstance(default, int)
        for wrong, reason in (
            (not -math.inf < low < high < math.inf, "low must be below high, both finite"),
            (log and low <= 0, "low must be above 0 for log"),
            (whole and (low % 1 or high % 1), f"low and high of {name} must be whole numbers"),
        ):
            if wrong:
                raise InputError(f"{what}{given!r}: {reason}")
        return cls(low, high, log, whole)

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


@dataclass(frozen=True)
class Space:
    """Values to choose from, by the options of one algorithm."""

    lists: Mapping[str, Sequence[Any]]
    ranges: Mapping[str, Range]

    def draw(self, count: int, seed: int) -> list[Options]:
        """Distinct random points, the same for the same seed; fewer if the space has fewer."""
        rng = np.random.default_rng(seed)
        points: dict[str, Options] = {}
        for _ in range(100 * count):
            point = {n: values[int(rng.integers(len(values)))] for n, values in self.lists.items()}
            point |= {n: numbers.draw(rng) for n, numbers in self.ranges.items()}
            points.setdefault(repr(point), point)
            if len(points) == count:
                break
        return list(points.values())

    def corners(self) -> Iterator[Options]:
        """Combinations of listed values and ends of ranges; if these are valid, all points are."""
        ends = {n: [r.short(r.low), r.short(r.high)] for n, r in self.ranges.items()}
        return itertools.islice(points_of({**self.lists, **ends}), MOST_CORNERS)

    def contained(self, options: Options) -> dict[str, Any]:
        """The values of a configuration, given as JSON, that the space contains."""
        listed = {n: v for n, values in self.lists.items() for v in values if v == options[n]}
        ranged = {n: options[n] for n, r in self.ranges.items() if r.low <= options[n] <= r.high}
        return listed | ranged


def points_of(lists: Mapping[str, Sequence[Any]]) -> Iterator[Options]:
    """Every combination of the listed values."""
    for values in itertools.product(*lists.values()):
        yield dict(zip(lists, values, strict=True))


def options_for(algorithm: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options that the algorithm has. `ppo.discount` is for PPO alone and overrides `discount`."""
    own = {f.name for f in dataclasses.fields(ALGORITHMS[algorithm])}
    split = {name: name.rpartition(".") for name in sorted(options, key=lambda n: "." in n)}
    return {
        option: options[name]
        for name, (owner, _, option) in split.items()
        if option in own and owner in ("", algorithm)
    }


def require_different(name: str, values: Any) -> None:
    """Raise InputError unless the values are a list, not empty, where none is twice."""
    if not isinstance(values, Sequence) or isinstance(values, str) or not values:
        raise InputError(f"{name}={values!r} must be a list of values, one or more")
    written = [repr(value) for value in values]
    if twice := [text for text in written if written.count(text) > 1]:
        raise InputError(f"{name}: {twice[0]} is listed twice; list each once")


def parse_lists(texts: Sequence[str]) -> dict[str, list[Any]]:
    """Values of each option from texts such as `NAME=A,B,...`, in the option's type."""
    lists = {
        name: [_value(name, value) for value in values.split(",")]
        for name, values in _split(texts, "--grid", "value_constraint=0,0.1,0.3").items()
    }
    for name, values in lists.items():
        require_different(f"grid of {name}", values)
    return lists


def parse_ranges(texts: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """(low, high) or (low, high, "log") from texts such as `NAME=LOW:HIGH:log`."""
    example = "learning_rate=1e-5:1e-3:log"
    ranges: dict[str, tuple[Any, ...]] = {}
    for name, text in _split(texts, "--range", example).items():
        try:
            low, high, *log = text.split(":")
            ranges[name] = (float(low), float(high), *log)
        except ValueError:
            raise InputError(f"--range '{name}={text}' must look like {example}") from None
    return ranges


def _split(texts: Sequence[str], flag: str, example: str) -> dict[str, str]:
    """What follows each NAME=."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or not values.strip(" ,:"):
            raise InputError(f"{flag} '{text}' must look like {example}")
        if name in found:
            raise InputError(f"{flag} names {name} twice; give it once, with all its values")
        found[name] = values
    return found


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
    try:
        if isinstance(default, bool):
            wanted = "true or false"
            return {"true": True, "false": False}[text.lower()]
        if isinstance(default, tuple):
            wanted = "sizes such as 64x64, or none"
            if option.metadata["check"] is limits:
                wanted = "limits such as terminated=0.001/fuel=0.5, or none"
            return _parts(option, text)
        if isinstance(default, str):
            return text
        wanted = "a number"
        number = float(text)
        return int(number) if isinstance(default, int) and number.is_integer() else number
    except (ValueError, KeyError):
        raise InputError(f"--grid: {name}={text!r} must be {wanted}") from None


def _parts(option: dataclasses.Field[Any], text: str) -> list[Any]:
    """A value that is a list: sizes, names of costs, or pairs of a cost and its limit."""
    check = option.metadata["check"]
    words = check in (names, limits)
    parts = [] if text == "none" else text.split(JOIN if words else "x")
    if check is limits:
        pairs = [part.rpartition("=") for part in parts]
        return [[cost, float(rate)] for cost, _, rate in pairs]
    return parts if words else [int(part) for part in parts]


def written(value: Any) -> str:
    """A value as `--grid` takes it."""
    if isinstance(value, bool):
        return str(value).lower()
    sizes = isinstance(value, list | tuple) and all(isinstance(part, int) for part in value)
    return value_text(value, "x" if sizes else JOIN)
