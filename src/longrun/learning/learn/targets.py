"""What the two networks are trained towards: advantages and value targets of a rollout."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from longrun.learning.learn.criteria import Targets, Values, criterion_of, value_unit
from longrun.learning.learn.limits import (
    LimitState,
    combined,
    cost_batch,
    limit_metrics,
    of_cost,
    with_spread,
)
from longrun.learning.learn.trace import with_current_lambda
from longrun.learning.learn.types import CostBatch, Metrics, Rollout, TrainState
from longrun.learning.options.config import Config


class BatchTargets(NamedTuple):
    """The targets of a rollout."""

    targets: Targets
    """[T, N] advantages for the policy, normalised if the configuration says so, and value targets;
    these are [T, N, 1 + K] with K limits"""
    costs: CostBatch | None
    """advantages of the costs, for a policy step that keeps limits itself"""
    metrics: Metrics
    """metrics of the limits"""
    limits: LimitState | None
    """the state of the limits, with what the advantages say about its units"""


def batch_targets(
    config: Config, state: TrainState, rollout: Rollout, heads: list[Values]
) -> BatchTargets:
    """Advantages and value targets; heads: predictions for the reward and each limited cost."""
    config = with_current_lambda(config, state.trace)
    criterion = criterion_of(config)
    reward = criterion.targets(config, state.criterion, rollout, heads[0])
    if not config.limits:
        advantage, _ = _normalised(config, reward.advantage)
        return BatchTargets(Targets(advantage, reward.value_target), None, {}, None)
    limits = state.limits
    costs = [
        criterion.targets(config, own, of_cost(config, rollout, k), heads[1 + k])
        for k, own in enumerate(limits.criteria)
    ]
    value_target = jnp.stack([each.value_target for each in (reward, *costs)], axis=-1)
    if limits.controller is not None:
        found = [each.advantage for each in (reward, *costs)]
        limits = limits._replace(controller=with_spread(limits.controller, found))
        metrics = limit_metrics(config, limits, state.criterion)
        advantage, _ = _normalised(config, combined(limits.controller, reward, costs))
        return BatchTargets(Targets(advantage, value_target), None, metrics, limits)
    advantage, unit = _normalised(config, reward.advantage)
    unit = unit * value_unit(config, state.criterion)
    of_costs = cost_batch(config, rollout, limits, costs, unit)
    return BatchTargets(Targets(advantage, value_target), of_costs, {}, limits)


def _normalised(config: Config, advantage: jax.Array) -> tuple[jax.Array, jax.Array | float]:
    """[T, N], standardised if the configuration says so, and what they were divided by."""
    if not config.normalize_advantages:
        return advantage, 1.0
    centred = advantage - advantage.mean()
    spread = jnp.sqrt((centred**2).mean()) + 1e-8
    return centred / spread, spread
