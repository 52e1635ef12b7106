"""Minibatch training of networks: Adam after gradient clipping, epochs of shuffled passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from longrun.learning.learn.types import Metrics
from longrun.learning.options.config import Config

Samples = tuple[jax.Array, ...]
MAX_GRAD_NORM = 10.0
"""Gradients of a network with a larger norm are scaled down to it."""


class Task(NamedTuple):
    """One network to train, or both as one."""

    loss: Callable[[Any, Samples], tuple[jax.Array, Metrics]]
    params: Any
    opt_state: Any
    samples: Samples
    """each [n, ...]"""
    shuffles: jax.Array
    """[epochs, n] indices"""


class Trained(NamedTuple):
    """A network after training."""

    params: Any
    opt_state: Any
    metrics: Metrics
    """averaged over the last pass"""


# One flat vector for all layers: a dozen small kernels become one (docs/decisions/010). The
# learning rate is not part of it, since it may decay and differ between replicas.
OPTIMISER = optax.flatten(
    optax.chain(optax.clip_by_global_norm(MAX_GRAD_NORM), optax.scale_by_adam())
)


def train_epochs(
    config: Config, tasks: Sequence[Task], progress: jax.Array | float
) -> list[Trained]:
    """One pass over each task's samples for each row of its shuffles.

    progress: the fraction of the run that is done, in [0, 1), for the learning rate. Within a pass
    tasks are independent; they alternate in one loop so that a device can run the small kernels of
    both concurrently.
    """
    passes = tasks[0].samples[0].shape[0] // config.minibatch_size
    used = passes * config.minibatch_size
    rate = learning_rate(config, progress)

    def step(task: Task, carry: Any, minibatch: Samples) -> tuple[Any, Metrics]:
        params, opt_state = carry
        gradient, metrics = jax.grad(task.loss, has_aux=True)(params, minibatch)
        direction, opt_state = OPTIMISER.update(gradient, opt_state)
        params = jax.tree.map(lambda p, d: p - rate * d, params, direction)
        return (params, opt_state), metrics

    def minibatch(carries: Any, minibatches: Any) -> Any:
        done = [step(*each) for each in zip(tasks, carries, minibatches, strict=True)]
        return tuple(carry for carry, _ in done), tuple(metrics for _, metrics in done)

    def epoch(carries: Any, orders: Any) -> Any:
        chosen = [
            tuple(
                x[order[:used]].reshape(passes, config.minibatch_size, *x.shape[1:])
                for x in task.samples
            )
            for task, order in zip(tasks, orders, strict=True)
        ]
        return jax.lax.scan(minibatch, carries, tuple(chosen))

    starts = tuple((task.params, task.opt_state) for task in tasks)
    ends, metrics = jax.lax.scan(epoch, starts, tuple(task.shuffles for task in tasks))
    return [
        Trained(*end, {name: jnp.mean(values[-1]) for name, values in each.items()})
        for end, each in zip(ends, metrics, strict=True)
    ]


def learning_rate(config: Config, progress: jax.Array | float) -> jax.Array:
    """The step size after a fraction `progress` in [0, 1) of the run."""
    remaining = 1 - progress if config.learning_rate_decay else 1.0
    return jnp.asarray(config.learning_rate * remaining)


def random_orders(key: jax.Array, rows: int, n: int, minibatch_size: int) -> jax.Array:
    """[rows, n] int32: each row is a permutation of 0 to n - 1, split into other minibatches.

    Samples that do not fill a minibatch are at the end, different ones in each row.
    """
    order_key, turn_key, shift_key = jax.random.split(key, 3)
    order = jnp.argsort(jax.random.bits(order_key, (n,))).astype(jnp.int32)
    minibatches = n // minibatch_size
    used = minibatches * minibatch_size
    turns = jax.random.randint(turn_key, (rows, 1, minibatch_size), 0, minibatches)
    places = (jnp.arange(minibatches)[:, None] + turns) % minibatches  # [rows, minibatches, size]
    dealt = (places * minibatch_size + jnp.arange(minibatch_size)).reshape(rows, used)
    left = jnp.broadcast_to(jnp.arange(used, n), (rows, n - used))
    shift = jax.random.randint(shift_key, (rows, 1), 0, n)  # of the order: varies the leftovers
    return order[(jnp.concatenate([dealt, left], axis=1) + shift) % n]
