"""Configurations made from options by name, and options as files and messages have them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from longrun.base.checks import known
from longrun.base.errors import FolderError, InputError
from longrun.learning.options.acting import MLP
from longrun.learning.options.config import ALGORITHMS, TERMINATED, Config, kind_of
from longrun.learning.options.other_names import ELSEWHERE, OURS
from longrun.learning.options.presets import DEFAULT, PRESETS


def make_config(algorithm: str, preset: str = DEFAULT, **options: Any) -> Config:
    """The preset of an algorithm with some options changed; unknown names raise an InputError.

    The default preset is `tuned`, the defaults of the options. Some options imply others
    (`with_implied`).
    """
    usual = {
        option.name: option.default for option in dataclasses.fields(kind_of(algorithm.lower()))
    }
    changes = PRESETS[known("preset", preset, PRESETS)]
    mine = usual | {name: value for name, value in changes.items() if name in usual}
    return saved_config(algorithm, mine | with_implied(mine, options))


def with_implied(before: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """The options with what they imply, where all options are as `before` otherwise.

    A `gae_lambda` that is given is fixed, unless `adaptive_lambda` is given, too. The reset cost of
    the average criterion keeps a limit on terminations, and has no place beside
    `termination="zero"`.
    """
    implied: dict[str, Any] = {}
    if "gae_lambda" in options:
        implied["adaptive_lambda"] = False
    if "reset_cost_step_size" in before:
        limited = _limits_terminations(options.get("limits"))
        if limited and not before["reset_cost_step_size"]:
            implied |= {"termination": "reset", "reset_cost_step_size": 1.0}
        elif not limited and options.get("termination") == "zero":
            implied["reset_cost_step_size"] = 0.0
    return implied | dict(options)


def _limits_terminations(limits: Any) -> bool:
    try:
        return TERMINATED in dict(limits or ())
    except (TypeError, ValueError):  # it is refused later
        return False


def saved_config(algorithm: str, options: Mapping[str, Any]) -> Config:
    """A configuration as it was saved, independent of the current presets."""
    kind = kind_of(algorithm.lower())
    names = option_names(kind)
    for name in options:
        if why := why_unknown(name, [algorithm.lower()]):
            raise InputError(f"unknown {algorithm.upper()} option '{name}'; {why}")
        known(f"{algorithm.upper()} option", name, names)
    return kind(**options)


def why_unknown(name: str, algorithms: Sequence[str]) -> str | None:
    """What to say of an option that none of the algorithms has; None if one has it.

    It is another library's name, or an option of other algorithms; None if it is neither.
    """
    options = {option for a in algorithms for option in option_names(kind_of(a))}
    if name in options:
        return None
    if name in ELSEWHERE:
        return ELSEWHERE[name]
    ours = OURS.get(name, name)
    if ours in options:
        return f"it is called {ours} here"
    owners = [a for a, kind in ALGORITHMS.items() if ours in option_names(kind)]
    if not owners or not algorithms:
        return None
    lack = f"{', '.join(algorithms).upper()} {'does' if len(algorithms) == 1 else 'do'} not"
    if ours != name:
        return f"it is called {ours} here, which {lack} have"
    return f"{', '.join(owners).upper()} have it, {lack}"


def option_names(kind: type[Config]) -> list[str]:
    return [option.name for option in dataclasses.fields(kind)]


def written_options(config: Config) -> dict[str, Any]:
    """The options for a JSON file; functions are written as their name."""
    options = dataclasses.asdict(config)
    own = {name: function_name(options[name][1]) for name in own_networks(options)}
    return options | own


def own_networks(options: Mapping[str, Any]) -> list[str]:
    """Names of the options that are functions (or their names, in a file)."""
    return [n for n in ("policy_network", "value_network") if options.get(n, MLP) != MLP]


def function_name(function: Any) -> str:
    """A function's name in files and messages, such as `plant.networks.apply`."""
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{getattr(function, '__module__', '?')}.{name}"


def require_all_options(file: str, algorithm: str, options: Mapping[str, Any]) -> None:
    """Raise FolderError unless a file, named as in a message, has every option of the algorithm."""
    missing = [name for name in option_names(kind_of(algorithm)) if name not in options]
    if missing:
        raise FolderError(
            f"{file} is of another version of longrun: it has no option '{missing[0]}'; train it"
            " again"
        )


def differing(configs: Sequence[Config]) -> list[str]:
    """Names of the options in which replicas differ."""
    names = option_names(type(configs[0]))
    return [n for n in names if any(getattr(c, n) != getattr(configs[0], n) for c in configs)]


def value_text(value: Any, separator: str = ",") -> str:
    """An option's value as text; several are joined by `separator`, "none" if there are none.

    Layer sizes are numbers, costs are names, and limits are NAME=RATE.
    """
    if isinstance(value, Mapping):
        value = [(name, float(rate)) for name, rate in value.items()]
    if isinstance(value, list | tuple):
        return separator.join(value_text(each, "=") for each in value) or "none"
    return str(value)


def values_text(values: Mapping[str, Any]) -> str:
    """An option's value by algorithm: "0.9" if they agree, else "True for APO; False for PPO"."""
    names: dict[str, list[str]] = {}
    for name, value in values.items():
        names.setdefault(value_text(value, " "), []).append(name)
    if len(names) == 1:
        return next(iter(names))
    return "; ".join(f"{text} for {', '.join(owners)}" for text, owners in names.items())
