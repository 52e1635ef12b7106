"""Configurations as pytrees: numeric options are leaves, the others are part of the structure.

Of `limits` the rates are leaves and the names are structure.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterable
from functools import cache, partial
from typing import Any

import jax

from longrun.learning.options.config import ALGORITHMS, Config, numeric_fields


@cache
def register_config() -> None:
    """Let configurations pass through jit and vmap; called on importing `preparation`."""
    for kind in ALGORITHMS.values():
        register(kind)


def register(kind: type[Config]) -> None:
    """Let configurations of one kind pass through jit and vmap."""
    jax.tree_util.register_pytree_node(kind, _flatten, partial(_unflatten, kind))


def _flatten(config: Config) -> tuple[list[Any], tuple[Any, ...]]:
    leaves = numeric_fields(config)
    shape = [o.name for o in dataclasses.fields(config) if o.name not in (*leaves, "limits")]
    numbers = [getattr(config, n) for n in leaves]
    rates = [rate for _, rate in config.limits]
    limited = tuple(name for name, _ in config.limits)
    return [*numbers, *rates], (limited, *(getattr(config, n) for n in shape))


def _unflatten(kind: type[Config], shape: tuple[Any, ...], leaves: Iterable[Any]) -> Config:
    config = object.__new__(kind)  # no validation: the values may be tracers
    names, (limited, *others) = numeric_fields(kind), shape
    rest = [o.name for o in dataclasses.fields(kind) if o.name not in (*names, "limits")]
    leaves = list(leaves)
    numbers, rates = leaves[: len(names)], leaves[len(names) :]
    for name, value in (*zip(names, numbers, strict=True), *zip(rest, others, strict=True)):
        object.__setattr__(config, name, value)
    object.__setattr__(config, "limits", tuple(zip(limited, rates, strict=True)))
    return config


def with_values(config: Config, **values: Any) -> Config:
    """The configuration with other values, which are not validated: they may be tracers."""
    other = copy.copy(config)
    for name, value in values.items():
        object.__setattr__(other, name, value)
    return other


def with_only(config: Config, names: Iterable[str], kind: type[Config] | None = None) -> Config:
    """The numeric options and those with these `names`; all others have their defaults.

    Programs that read no other option are then compiled once for all configurations that agree,
    and, with a `kind` of configuration, once for all algorithms.
    """
    kind = kind or type(config)
    same, kept = object.__new__(kind), {*numeric_fields(config), *names}
    for option in dataclasses.fields(kind):
        value = getattr(config, option.name) if option.name in kept else option.default
        object.__setattr__(same, option.name, value)  # no validation, as above
    return same
