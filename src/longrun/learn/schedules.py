"""Schedules over a run: the learning rate, lambda, and the length of trust-region steps."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from longrun.config import Config, TrustRegion
from longrun.learn.config_pytree import with_values

LONG_TRACES = 100
"""Iterations in which traces are longer than those of `gae_lambda`, unless the run is short."""
SHORT_RUN = 0.1
"""Fraction of a run in which they are longer at most."""


def learning_rate(config: Config, progress: jax.Array | float) -> jax.Array:
    """The step size after a fraction `progress` in [0, 1) of the run."""
    remaining = 1 - progress if config.learning_rate_decay else 1.0
    return jnp.asarray(config.learning_rate * remaining)


def with_longer_traces(config: Config, iteration: jax.Array, length: jax.Array | int) -> Config:
    """The configuration with the lambda of this iteration, where `lambda_decay` is set.

    A TD error is credited to the actions of about 1 / (1 - lambda) steps before it, its trace; what
    comes later reaches an action only by the values. At the start these are wrong: traces are as
    long as a rollout, and become shorter, by the same factor in each iteration, as the values are
    learned. With exact values every lambda has the same expected policy gradient, and a longer
    trace only adds noise.

    iteration: those that the agent has learned from before, in earlier runs, too, so that another
    run does not start with long traces again; length: iterations of this run.
    """
    if not config.lambda_decay:
        return config
    remaining = jnp.maximum(1 - iteration / jnp.minimum(LONG_TRACES, SHORT_RUN * length), 0.0)
    longest = 1.0 / config.rollout_steps
    shortest = jnp.maximum(1 - config.gae_lambda, longest)
    gae_lambda = 1 - shortest * (longest / shortest) ** remaining
    return with_values(config, gae_lambda=jnp.maximum(gae_lambda, config.gae_lambda))


def with_shorter_steps(config: Config, progress: jax.Array | float) -> Config:
    """The configuration after a fraction `progress` of the run, where `step_decay` is set.

    A trust-region step is as long as its limit allows, however small the gradient is: without a
    decay, policies and costs keep moving with the noise of each batch. A divergence is quadratic in
    the length of a step.
    """
    if not (isinstance(config, TrustRegion) and config.step_decay):
        return config
    remaining = 1 - progress
    return with_values(
        config,
        kl_limit=config.kl_limit * remaining**2,
        limit_approach=config.limit_approach * remaining,
    )
