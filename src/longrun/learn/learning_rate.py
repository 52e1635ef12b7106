"""The learning-rate schedule: constant, or decreasing linearly to 0 over the run."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from longrun.config import Config


def learning_rate(config: Config, progress: jax.Array | float) -> jax.Array:
    """The step size after a fraction `progress` in [0, 1) of the run."""
    remaining = 1 - progress if config.learning_rate_decay else 1.0
    return jnp.asarray(config.learning_rate * remaining)
