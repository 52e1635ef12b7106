"""Schedules over a run: the learning rate, and the length of trust-region steps."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from longrun.learning.learn.config_pytree import with_values
from longrun.learning.options.config import Config, TrustRegion


def learning_rate(config: Config, progress: jax.Array | float) -> jax.Array:
    """The step size after a fraction `progress` in [0, 1) of the run."""
    remaining = 1 - progress if config.learning_rate_decay else 1.0
    return jnp.asarray(config.learning_rate * remaining)


def with_shorter_steps(config: Config, progress: jax.Array | float) -> Config:
    """The configuration after a fraction `progress` of the run, where `learning_rate_decay` is set.

    A trust-region step is as long as its limit allows, however small the gradient is: without a
    decay, policies and costs keep moving with the noise of each batch. A divergence is quadratic in
    the length of a step.
    """
    if not (isinstance(config, TrustRegion) and config.learning_rate_decay):
        return config
    remaining = 1 - progress
    return with_values(
        config,
        kl_limit=config.kl_limit * remaining**2,
        limit_step_size=config.limit_step_size * remaining,
    )
