"""Flags that the compiled update returns among its metrics; the training loops check them."""

from __future__ import annotations

from itertools import accumulate

import jax
import jax.numpy as jnp

from longrun.learning.envs.spaces import Spaces
from longrun.learning.learn.minibatches import Trained


def flagged(what: str, trained: Trained) -> Trained:
    """Add a flag to the metrics: whether the parameters are finite."""
    flag = {f"{what}_finite": all_finite(trained.params)}
    return trained._replace(metrics=trained.metrics | flag)


def choice_is_left(spaces: Spaces, mask: jax.Array) -> jax.Array:
    """Whether every row of the mask [n, K] allows at least one choice in every component."""
    if not spaces.masked:
        return jnp.ones((), bool)
    ends = list(accumulate(spaces.categories))[:-1]
    parts = jnp.split(mask > 0, ends, axis=-1)
    return jnp.stack([part.any(-1).all() for part in parts]).all()


def acts_finitely(spaces: Spaces, obs: jax.Array, action: jax.Array) -> jax.Array:
    """[] bool: whether finite observations [..., D] have finite actions [..., A]."""
    if spaces.categories:  # choices are integers
        return jnp.ones((), bool)
    acted = jnp.isfinite(action).all(-1) | ~jnp.isfinite(obs).all(-1)
    return acted.all()


def all_finite(arrays: object) -> jax.Array:
    """[] bool: whether all leaves are free of NaN and infinity."""
    return jnp.stack([jnp.isfinite(x).all() for x in jax.tree.leaves(arrays)]).all()
