"""Running mean and variance, merged batch by batch (Chan et al.'s parallel formula)."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp


class Moments(NamedTuple):
    """Mean and variance, each [...], of `size` samples; 0 and 1 before the first.

    `size` is a float32: with 2000 samples at a time it stops growing at about 3e10, and mean and
    variance stay what they are by then.
    """

    mean: jax.Array
    variance: jax.Array
    size: jax.Array


def init_moments(shape: tuple[int, ...] = ()) -> Moments:
    return Moments(jnp.zeros(shape), jnp.ones(shape), jnp.zeros(()))


def merge(moments: Moments, samples: jax.Array) -> Moments:
    """Moments of all samples so far together with the new ones [n, ...]."""
    n = samples.shape[0]
    total = moments.size + n
    delta = samples.mean(0) - moments.mean
    squares = (
        moments.variance * moments.size + samples.var(0) * n + delta**2 * moments.size * n / total
    )
    return Moments(moments.mean + delta * n / total, squares / total, total)


def inverse_std(moments: Moments) -> jax.Array:
    return jax.lax.rsqrt(moments.variance + 1e-8)
