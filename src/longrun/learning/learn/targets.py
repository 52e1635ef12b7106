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
from longrun.learning.learn.weights import sample_weights, weighted_mean
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
    config: Config,
    state: TrainState,
    rollout: Rollout,
    heads: list[Values],
    again: bool = False,
) -> BatchTargets:
    """Advantages and value targets; heads: predictions for the reward and each limited cost.

    `again`: the limits' units include this rollout, and are as they were for its first targets.
    """
    config = with_current_lambda(config, state.trace)
    criterion, weights = criterion_of(config), sample_weights(config, rollout)
    reward = criterion.targets(config, state.criterion, rollout, heads[0])
    if not config.limits:
        advantage, _ = _normalised(config, reward.advantage, weights)
        return BatchTargets(Targets(advantage, reward.value_target), None, {}, None)
    limits = state.limits
    costs = [
        criterion.targets(config, own, of_cost(config, rollout, k), heads[1 + k])
        for k, own in enumerate(limits.criteria)
    ]
    value_target = jnp.stack([each.value_target for each in (reward, *costs)], axis=-1)
    if limits.controller is not None:
        if not again:
            found = [each.advantage for each in (reward, *costs)]
            limits = limits._replace(controller=with_spread(limits.controller, found))
        metrics = limit_metrics(config, limits, state.criterion)
        advantage, _ = _normalised(config, combined(limits.controller, reward, costs), weights)
        return BatchTargets(Targets(advantage, value_target), None, metrics, limits)
    advantage, unit = _normalised(config, reward.advantage, weights)
    unit = unit * value_unit(config, state.criterion)
    of_costs = cost_batch(config, rollout, weights, limits, costs, unit)
    return BatchTargets(Targets(advantage, value_target), of_costs, {}, limits)


def _normalised(
    config: Config, advantage: jax.Array, weights: jax.Array
) -> tuple[jax.Array, jax.Array | float]:
    """[T, N], standardised if the configuration says so, and what they were divided by."""
    if not config.normalize_advantages:
        return advantage, 1.0
    centred = advantage - weighted_mean(advantage, weights)
    spread = jnp.sqrt(weighted_mean(centred**2, weights)) + 1e-8
    return centred / spread, spread
