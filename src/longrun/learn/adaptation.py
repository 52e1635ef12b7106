"""Two multipliers that may be adapted while learning: nu, and the cost of a reset."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from longrun.config import Average
from longrun.learn.types import CriterionState, Rollout

OFFSET_TOLERANCE = 0.01
"""Squared offset, as a fraction of the values' variance, that an adaptive nu tolerates."""
FEWEST_TERMINATIONS = 2.0
"""Lower limit of the unit, in terminations per batch, in which the excess is measured."""


def adapt_value_constraint(
    config: Average, state: CriterionState, values: jax.Array
) -> CriterionState:
    """Dual ascent on the squared offset, in units of the values' variance; nu stays in [0, 1].

    The violation is clipped, so that one batch of nearly equal values has a limited effect.
    """
    violation = state.offset**2 / (values.var() + 1e-8) - OFFSET_TOLERANCE
    ascent = config.value_constraint_step_size * jnp.clip(violation, -1, 1)
    adapted = state.value_constraint + ascent
    return state._replace(value_constraint=jnp.clip(adapted, 0.0, 1.0))


def adapt_reset_cost(config: Average, state: CriterionState, rollout: Rollout) -> CriterionState:
    """A Lagrange multiplier that holds the termination rate at its target.

    Its steps are in units of the mean absolute reward, or of 1 while all rewards are 0. The
    excess of terminations is divided by the number that the target allows in a batch, or by
    FEWEST_TERMINATIONS if it allows fewer: otherwise the clip would make a batch with one and a
    batch with none equal and opposite, and hold the rate at ln 2 per batch for any lower target.
    """
    allowed = config.termination_target * rollout.terminated.size
    unit_of_excess = jnp.maximum(allowed, FEWEST_TERMINATIONS)
    excess = (rollout.terminated.sum() - allowed) / unit_of_excess
    size = jnp.abs(rollout.reward).mean()
    unit = jnp.where(size > 0, size, 1.0)
    ascent = config.reset_cost_step_size * jnp.clip(excess, -1, 1) * unit
    return state._replace(reset_cost=jnp.maximum(state.reset_cost + ascent, 0.0))
