"""The cost of a reset, a multiplier that may be adapted while learning.

It is the price of a limit on terminations, and its dual ascent is that of any
limit (`limits.py`), in the same unit. They differ in where the price is applied.
The reset cost is subtracted from the reward, so that there is one value head and the gain is net of
it; its unit is the mean absolute reward.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from longrun.learning.learn.types import CriterionState, Rollout
from longrun.learning.options.config import Average

Scalar = jax.Array | float
SLOWED = 0.1
"""Speed at which a reset cost rises once it takes more than the policy earns."""
FEWEST_EVENTS = 2.0
"""Lower limit of the unit, in events per batch, in which a violation is measured."""


def allowed_rate(limit: Scalar, largest: Scalar, steps: int) -> jax.Array:
    """[] the unit of a violation: what the limit allows, or FEWEST_EVENTS in a batch if it is less.

    largest: the largest cost of a step; steps: of a batch. Without the lower bound, a batch with
    one event and a batch with none would count alike, and the rate would be held at ln 2 per batch
    for any lower limit.
    """
    return jnp.maximum(jnp.maximum(jnp.abs(limit), FEWEST_EVENTS * largest / steps), 1e-12)


def adapt_reset_cost(config: Average, state: CriterionState, rollout: Rollout) -> CriterionState:
    """A Lagrange multiplier that holds the termination rate at its target.

    Its steps are in units of the mean absolute reward, or of 1 while all rewards are 0. A policy
    that has yet to learn to stay up cannot answer a higher cost, which would wind up as long as it
    learns: it rises slowly once terminations cost more than the mean absolute reward.
    """
    ended = rollout.terminated
    rate = ended.mean()
    target = config.terminations_aimed_at
    unit = allowed_rate(target, 1.0, ended.size)
    excess = jnp.clip((rate - target) / unit, -1, 1)
    size = jnp.abs(rollout.reward).mean()
    size = jnp.where(size > 0, size, 1.0)
    winds_up = (excess > 0) & (state.reset_cost * rate > size)
    ascent = config.reset_cost_step_size * excess * size * jnp.where(winds_up, SLOWED, 1.0)
    return state._replace(reset_cost=jnp.maximum(state.reset_cost + ascent, 0.0))
