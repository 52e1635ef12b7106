"""Random orders with a single sort, since sorting is slow on a device.

A random order is laid out as a matrix with one row per minibatch. Rotating each of its columns by a
random offset distributes the same samples over other minibatches. So every minibatch of every epoch
is a random set, and any two epochs differ.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp


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
