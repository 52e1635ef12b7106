"""Limits on costs while learning: a multiplier for each, adapted by a PID controller.

Each limited cost is treated as the reward is: it has a gain, a head of the value network and its
own Average Value Constraint. The policy is improved by the advantages of the reward less those of
the costs at their prices (Stooke, Achiam and Abbeel 2020; plain dual ascent without the
proportional and the derivative part).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from longrun.config import Config
from longrun.learn.criteria import Targets, Values, criterion_of
from longrun.learn.types import CriterionState, Rollout

HIGHEST = 100.0
"""Largest multiplier: the reward counts for a hundredth of the direction then."""


class LimitState(NamedTuple):
    """What is learned about K limits."""

    multiplier: jax.Array
    """[K], in units of the standard deviations of the reward's and the cost's advantages"""
    integral: jax.Array
    """[K]"""
    violation: jax.Array
    """[K] of the last batch, for the derivative"""
    criteria: tuple[CriterionState, ...]
    """K"""


def init_limits(config: Config) -> LimitState | None:
    """None without limits, so that nothing is added to the state."""
    if not config.limits:
        return None
    count = len(config.limits)
    start = criterion_of(config).init(config)
    criteria = tuple(
        jax.tree.map(jnp.copy, start._replace(reset_cost=jnp.zeros(()))) for _ in range(count)
    )
    return LimitState(jnp.zeros(count), jnp.zeros(count), jnp.zeros(count), criteria)


def of_cost(config: Config, rollout: Rollout, k: int) -> Rollout:
    """The rollout with the k-th limited cost in the place of the reward."""
    column = config.recorded.index(config.limits[k][0])
    return rollout._replace(reward=rollout.costs[..., column])


def learn_limits(
    config: Config, state: LimitState, rollout: Rollout, heads: list[Values]
) -> LimitState:
    """Gains and multipliers from a batch; heads: of the K limited costs."""
    learn = criterion_of(config).learn
    streams = [of_cost(config, rollout, k) for k in range(len(heads))]
    criteria = tuple(
        learn(config, old, stream, values)
        for old, stream, values in zip(state.criteria, streams, heads, strict=True)
    )
    violation = jnp.stack(
        [
            _violation(stream.reward, limit)
            for stream, (_, limit) in zip(streams, config.limits, strict=True)
        ]
    )
    integral = jnp.clip(state.integral + config.limit_step_size * violation, 0.0, HIGHEST)
    rise = jnp.maximum(violation - state.violation, 0.0)
    controlled = config.limit_gain * violation + integral + config.limit_damping * rise
    return LimitState(jnp.clip(controlled, 0.0, HIGHEST), integral, violation, criteria)


def _violation(cost: jax.Array, limit: float) -> jax.Array:
    """How far a batch is above its limit, in units of the limit, between -1 and 1.

    A rate far above its limit, as at the start, must not dominate the whole run. A limit of 0 is
    measured in units of the batch's largest cost.
    """
    excess = cost.mean() - limit
    unit = jnp.abs(cost).max() if limit == 0 else abs(limit)
    return jnp.clip(excess / jnp.maximum(unit, 1e-12), -1.0, 1.0)


def prices(state: LimitState, reward: jax.Array, costs: list[jax.Array]) -> jax.Array:
    """[K] what a unit of each cost is worth in units of reward, from advantages [T, N]."""
    spreads = jnp.stack([cost.std() for cost in costs])
    return state.multiplier * reward.std() / (spreads + 1e-8)


def combined(state: LimitState, reward: Targets, costs: list[Targets]) -> Targets:
    """Advantages less the costs' at their prices, rescaled; targets of all heads [T, N, 1 + K]."""
    advantages = [cost.advantage for cost in costs]
    price = prices(state, reward.advantage, advantages)
    total = reward.advantage - sum(price[k] * advantage for k, advantage in enumerate(advantages))
    heads = [reward.value_target, *(cost.value_target for cost in costs)]
    return Targets(total / (1 + state.multiplier.sum()), jnp.stack(heads, axis=-1))
