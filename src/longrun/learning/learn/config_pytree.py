"""Configurations as pytrees: numeric options are leaves, the others are part of the structure.

Of `limits` the rates are leaves and the names are structure.
"""

from __future__ import annotations

import copy
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
    numbers = numeric_fields(kind)
    jax.tree_util.register_pytree_node(
        kind, partial(_flatten, numbers), partial(_unflatten, kind, numbers)
    )


def _flatten(numbers: list[str], config: Config) -> tuple[Any, tuple[Any, ...]]:
    options = dict(vars(config))
    leaves = [options.pop(name) for name in numbers]
    limits = dict(options.pop("limits"))
    return (leaves, list(limits.values())), (tuple(limits), tuple(sorted(options.items())))


def _unflatten(kind: type[Config], numbers: list[str], shape: Any, data: Any) -> Config:
    (leaves, rates), (limited, options) = data, shape
    config = object.__new__(kind)  # no validation: the values may be tracers
    numeric = dict(zip(numbers, leaves, strict=True))
    limits = tuple(zip(limited, rates, strict=True))
    vars(config).update(options, **numeric, limits=limits)
    return config


def with_values(config: Config, **values: Any) -> Config:
    """The configuration with other values, which are not validated: they may be tracers."""
    other = copy.copy(config)
    vars(other).update(values)
    return other
