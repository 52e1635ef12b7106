"""Random orders with a single sort, which is what a device does worst.

A random order is laid out as a matrix, one row a minibatch. Turning each of its columns by a random
number of places deals the same samples out to other minibatches. So every minibatch of every epoch
is a random set, and any two epochs differ.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp


def random_orders(key: jax.Array, rows: int, n: int, minibatch_size: int) -> jax.Array:
    """[rows, n] int32: in each row the numbers 0 to n - 1, in other minibatches than in the others.

    What does not fill a minibatch is at the end, in each row something else.
    """
    order_key, turn_key, shift_key = jax.random.split(key, 3)
    order = jnp.argsort(jax.random.bits(order_key, (n,))).astype(jnp.int32)
    minibatches = n // minibatch_size
    used = minibatches * minibatch_size
    turns = jax.random.randint(turn_key, (rows, 1, minibatch_size), 0, minibatches)
    places = (jnp.arange(minibatches)[:, None] + turns) % minibatches  # [rows, minibatches, size]
    dealt = (places * minibatch_size + jnp.arange(minibatch_size)).reshape(rows, used)
    left = jnp.broadcast_to(jnp.arange(used, n), (rows, n - used))
    shift = jax.random.randint(shift_key, (rows, 1), 0, n)  # of the whole order: others are left
    return order[(jnp.concatenate([dealt, left], axis=1) + shift) % n]
