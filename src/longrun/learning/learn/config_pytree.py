"""Configurations as pytrees: numeric options are leaves, the others are part of the structure.

Of `limits` the rates are leaves and the names are structure.
"""

from __future__ import annotations

import copy
from typing import Any

import jax

from longrun.learning.options.config import ALGORITHMS, Config, numeric_fields


def register(kind: type[Config]) -> None:
    """Let configurations of one kind pass through jit and vmap."""
    numeric = numeric_fields(kind)

    def flatten(config: Config) -> tuple[Any, Any]:
        options = dict(vars(config))
        leaves = [options.pop(name) for name in numeric]
        limits = dict(options.pop("limits"))
        return (leaves, list(limits.values())), (tuple(limits), tuple(sorted(options.items())))

    def unflatten(shape: Any, data: Any) -> Config:
        (leaves, rates), (limited, options) = data, shape
        config = object.__new__(kind)  # no validation: the values may be tracers
        limits = tuple(zip(limited, rates, strict=True))
        vars(config).update(options, **dict(zip(numeric, leaves, strict=True)), limits=limits)
        return config

    jax.tree_util.register_pytree_node(kind, flatten, unflatten)


for algorithm in ALGORITHMS.values():
    register(algorithm)


def with_values(config: Config, **values: Any) -> Config:
    """The configuration with other values, which are not validated: they may be tracers."""
    other = copy.copy(config)
    vars(other).update(values)
    return other
