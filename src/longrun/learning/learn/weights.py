"""Which samples count in the losses."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from longrun.learning.learn.types import Rollout
from longrun.learning.options.config import Config


def sample_weights(config: Config, rollout: Rollout) -> jax.Array:
    """[T, N, 1], 0 where a sample counts in no loss; [T, N, 0] where all count equally.

    Without a column nothing is weighted, and the compiled program is the one without weights.
    """
    if config.time_limit == "bootstrap":
        return jnp.zeros((*rollout.reward.shape, 0))
    cut_off = rollout.truncated & ~rollout.terminated
    return jnp.asarray(~cut_off, jnp.float32)[..., None]


def weighted_mean(values: jax.Array, weights: jax.Array) -> jax.Array:
    """Mean of [...] over the samples whose weight [..., 1] is not 0; 0 if there are none."""
    if weights.shape[-1] == 0:
        return values.mean()
    weights = weights[..., 0]
    return jnp.sum(values * weights) / jnp.maximum(weights.sum(), 1.0)
