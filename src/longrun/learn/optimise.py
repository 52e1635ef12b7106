"""Minibatch training of one network: Adam behind gradient clipping, epochs of shuffled passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import optax

from longrun.config import Config
from longrun.learn.types import Metrics

Params = TypeVar("Params")
Samples = tuple[jax.Array, ...]


def _optimiser(config: Config) -> optax.GradientTransformation:
    """One flat vector for all layers: a dozen small kernels become one (measured, docs/design.md).

    The learning rate is not part of it, since it may decay and differ between replicas.
    """
    return optax.flatten(
        optax.chain(
            optax.clip_by_global_norm(config.max_grad_norm),
            optax.scale_by_adam(),
        )
    )


def init_optimiser(config: Config, params: Any) -> Any:
    return _optimiser(config).init(params)


def train_epochs(
    config: Config,
    loss: Callable[[Params, Samples], tuple[jax.Array, Metrics]],
    params: Params,
    opt_state: Any,
    samples: Samples,
    shuffles: jax.Array,
    learning_rate: jax.Array,
) -> tuple[Params, Any, Metrics]:
    """One pass over `samples` (each [n, ...]) for each row of `shuffles` ([epochs, n] indices).

    Returns the parameters, the optimiser's state and the loss's metrics, averaged over the last
    pass.
    """
    optimiser = _optimiser(config)
    passes = samples[0].shape[0] // config.minibatch_size
    used = passes * config.minibatch_size

    def minibatch(
        carry: tuple[Params, Any], minibatch: Samples
    ) -> tuple[tuple[Params, Any], Metrics]:
        params, opt_state = carry
        gradient, metrics = jax.grad(loss, has_aux=True)(params, minibatch)
        direction, opt_state = optimiser.update(gradient, opt_state)
        params = jax.tree.map(lambda p, d: p - learning_rate * d, params, direction)
        return (params, opt_state), metrics

    def epoch(carry: tuple[Params, Any], order: jax.Array) -> tuple[tuple[Params, Any], Metrics]:
        chosen = [
            x[order[:used]].reshape(passes, config.minibatch_size, *x.shape[1:]) for x in samples
        ]
        return jax.lax.scan(minibatch, carry, tuple(chosen))

    (params, opt_state), metrics = jax.lax.scan(epoch, (params, opt_state), shuffles)
    return params, opt_state, {name: jnp.mean(values[-1]) for name, values in metrics.items()}
