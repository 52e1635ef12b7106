"""TD errors, lambda-weighted advantages and value targets; every array is [T, N] over time."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

Rows = tuple[jax.Array, jax.Array]
UNROLL = 16
"""Time steps that a scan processes per loop iteration: faster on a GPU, where each iteration starts
kernels, and slower to compile. The last bits of results depend on it."""


def td_errors(
    rewards: jax.Array,
    values: jax.Array,
    successor_values: jax.Array,
    gain: jax.Array | float,
    discount: jax.Array | float = 1.0,
) -> jax.Array:
    """delta = r - gain + discount * V(s') - V(s).

    Equation (equ:td) of the paper for discount 1; the discounted residual for gain 0.
    """
    return rewards - gain + discount * successor_values - values


def lambda_advantages(deltas: jax.Array, ends: jax.Array, decay: jax.Array | float) -> jax.Array:
    """A_t = delta_t + decay * A_{t+1}, cut off at the end of an episode (equ:adv).

    `decay` is lambda under the average criterion and discount * lambda under the discounted.
    The last row has no successor in the rollout: its advantage is its delta.
    """

    def step(later: jax.Array, row: Rows) -> Rows:
        delta, carries_on = row
        advantage = delta + decay * carries_on * later
        return advantage, advantage

    carries_on = 1.0 - ends.astype(deltas.dtype)
    _, advantages = scan_over_time(step, jnp.zeros_like(deltas[0]), (deltas, carries_on), True)
    return advantages


def scan_over_time(
    step: Callable[[jax.Array, Rows], Rows], start: jax.Array, rows: Rows, reverse: bool = False
) -> Rows:
    """`jax.lax.scan` over rows of a rollout, or back from the last: the end [N], all [T, N]."""
    return jax.lax.scan(step, start, rows, reverse=reverse, unroll=UNROLL)


def value_targets(
    advantages: jax.Array,
    values: jax.Array,
    offset: jax.Array | float,
    value_constraint: jax.Array | float,
) -> jax.Array:
    """V~ = A + V(s) - nu * b: the Average Value Constraint pulls the mean value to 0 (equ:J_V)."""
    return advantages + values - value_constraint * offset


def moving_average(old: jax.Array, new: jax.Array, step_size: jax.Array | float) -> jax.Array:
    """(1 - alpha) * old + alpha * new, lines 5 and 6 of Algorithm 1."""
    return (1 - step_size) * old + step_size * new
