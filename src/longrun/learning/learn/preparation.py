"""Turns a rollout into a batch: values, gain, advantages, targets (lines 5 to 8 of Algorithm 1)."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from longrun.learning.envs.spaces import Spaces
from longrun.learning.learn.acting import read
from longrun.learning.learn.criteria import Targets, Values, criterion_of, value_unit
from longrun.learning.learn.distributions import components
from longrun.learning.learn.limits import (
    combined,
    cost_batch,
    learn_limits,
    limit_metrics,
    of_cost,
    with_spread,
)
from longrun.learning.learn.moments import merge
from longrun.learning.learn.networks import apply_network
from longrun.learning.learn.trace import adapt_trace, with_current_lambda
from longrun.learning.learn.types import Batch, CostBatch, Metrics, Networks, Rollout, TrainState
from longrun.learning.options.config import Config


def prepare(
    config: Config, spaces: Spaces, state: TrainState, rollout: Rollout
) -> tuple[Batch, TrainState, Metrics]:
    """Compute values, gain, advantages and targets from a rollout (lines 5 to 8 of Algorithm 1)."""
    # The optimisers are not read, and the policy only by a lambda that adapts.
    policy = state.params.policy if config.adapts_lambda else ()
    params = Networks(policy, state.params.value)
    seen = state._replace(params=params, opt_state=Networks((), ()))
    batch, after, metrics = _prepare(config, spaces, seen, rollout)
    return batch, after._replace(params=state.params, opt_state=state.opt_state), metrics


@partial(jax.jit, static_argnames="spaces")
def _prepare(
    config: Config, spaces: Spaces, state: TrainState, rollout: Rollout
) -> tuple[Batch, TrainState, Metrics]:
    values, *of_costs = heads = predict(config, spaces, state, state.params.value, rollout)
    criterion = criterion_of(config).learn(config, state.criterion, rollout, values)
    state = state._replace(criterion=criterion, iteration=state.iteration + 1)
    if config.adapts_lambda:
        state = state._replace(trace=adapt_trace(config, spaces, state, rollout, values))
    if config.headed_limits:
        state = state._replace(limits=learn_limits(config, state.limits, rollout, of_costs))
    state, targets, costs, of_limits = _targets(config, state, rollout, heads)
    seen = read(config.acting, spaces, state.obs_moments, rollout.obs)
    batch = Batch(
        flat(seen.features),
        flat(seen.mask),
        flat(rollout.action),
        flat(targets.advantage),
        flat(targets.value_target),
        costs,
    )
    # The moments are updated only after this batch has been standardised with those that the
    # policy acted with: otherwise the first ratio would not be 1.
    if config.normalize_observations:
        rows = rollout.obs[..., spaces.mask_size :].reshape(-1, spaces.feature_size)
        state = state._replace(obs_moments=merge(state.obs_moments, rows))
    return batch, state, _metrics(config, spaces, state, rollout, values, batch) | of_limits


def _targets(
    config: Config, state: TrainState, rollout: Rollout, heads: list[Values]
) -> tuple[TrainState, Targets, CostBatch | None, Metrics]:
    """Advantages for the policy, normalised if the configuration says so, and value targets.

    heads: predictions for the reward and for each of K limited costs; value targets are [T, N], or
    [T, N, 1 + K]. Also returned are the state, in which limits learn their units, what a policy
    step needs that keeps limits itself, and metrics of the limits.
    """
    config, limits = with_current_lambda(config, state.trace), state.limits
    streams = [rollout, *(of_cost(config, rollout, k) for k in range(len(heads) - 1))]
    criteria = [state.criterion, *(limits.criteria if limits else ())]
    learned_from = zip(criteria, streams, heads, strict=True)
    reward, *costs = every = [criterion_of(config).targets(config, *own) for own in learned_from]
    if not config.headed_limits:
        advantage, _ = _normalised(config, reward.advantage)
        return state, Targets(advantage, reward.value_target), None, {}
    value_target = jnp.stack([each.value_target for each in every], axis=-1)
    if limits.controller is not None:
        controller = with_spread(limits.controller, [each.advantage for each in every])
        state = state._replace(limits=limits._replace(controller=controller))
        advantage, _ = _normalised(config, combined(controller, reward, costs))
        metrics = limit_metrics(config, state.limits, state.criterion)
        return state, Targets(advantage, value_target), None, metrics
    advantage, unit = _normalised(config, reward.advantage)
    unit = unit * value_unit(state.criterion)
    of_costs = cost_batch(config, rollout, limits, costs, unit)
    return state, Targets(advantage, value_target), of_costs, {}


def _normalised(config: Config, advantage: jax.Array) -> tuple[jax.Array, jax.Array | float]:
    """[T, N], standardised if the configuration says so, and what they were divided by."""
    if not config.normalize_advantages:
        return advantage, 1.0
    centred = advantage - advantage.mean()
    spread = jnp.sqrt((centred**2).mean()) + 1e-8
    return centred / spread, spread


def _metrics(
    config: Config,
    spaces: Spaces,
    state: TrainState,
    rollout: Rollout,
    values: Values,
    batch: Batch,
) -> Metrics:
    """Metrics of a rollout, and of what was learned from it before the networks are trained."""
    criterion, here = state.criterion, flat(values.here)
    value_target = batch.value_target[..., 0] if config.headed_limits else batch.value_target
    metrics = {
        "environment_finite": all_finite(
            (rollout.obs, rollout.next_obs, rollout.reward, rollout.costs)
        ),
        "actions_finite": acts_finitely(spaces, rollout.obs, rollout.action),
        "criterion_finite": all_finite((criterion, state.limits, state.trace, state.obs_moments)),
        "mask_allows": choice_is_left(spaces, batch.mask),
        "reward": rollout.reward.mean(),
        "reward_min": rollout.reward.min(),
        "reward_max": rollout.reward.max(),
        "observation_size": jnp.sqrt(jnp.square(rollout.obs[..., spaces.mask_size :]).mean()),
        "gain": criterion.gain,
        "value_offset": criterion.offset,
        "value_mean": here.mean(),
        "reset_cost": criterion.reset_cost,
        "terminations": rollout.terminated.mean(),
        "explained_variance": 1 - jnp.var(value_target - here) / (jnp.var(value_target) + 1e-8),
    }
    if state.trace is not None:
        metrics["lambda"] = state.trace.gae_lambda
    for k, name in enumerate(config.recorded):
        metrics[f"cost_{name}"] = rollout.costs[..., k].mean()
    return metrics


def predict(
    config: Config, spaces: Spaces, state: TrainState, layers: Any, rollout: Rollout
) -> list[Values]:
    """Predictions for a rollout, of the reward's values and of those of each limited cost.

    `state` is the one that acted, for its moments.
    """

    def value(obs: jax.Array) -> jax.Array:
        seen = read(config.acting, spaces, state.obs_moments, obs)
        return apply_network(config.value_network, config.acting, layers, seen.features)

    here = value(rollout.obs)
    after_reset = jnp.concatenate([here[1:], value(rollout.resume_obs)[None]])
    every = (here, value(rollout.next_obs), after_reset)
    return [Values(*(x[..., k] for x in every)) for k in range(1 + len(config.headed_limits))]


def flat(x: jax.Array) -> jax.Array:
    """[T, N, ...] -> [T * N, ...]"""
    return x.reshape(x.shape[0] * x.shape[1], *x.shape[2:])


def choice_is_left(spaces: Spaces, mask: jax.Array) -> jax.Array:
    """Whether every row of the mask [n, K] allows at least one choice in every component."""
    if not spaces.masked:
        return jnp.ones((), bool)
    parts = components(spaces.categories, mask > 0)
    return jnp.stack([part.any(-1).all() for part in parts]).all()


def acts_finitely(spaces: Spaces, obs: jax.Array, action: jax.Array) -> jax.Array:
    """[] bool: whether finite observations [..., D] have finite actions [..., A]."""
    if spaces.categories:  # choices are integers
        return jnp.ones((), bool)
    acted = jnp.isfinite(action).all(-1) | ~jnp.isfinite(obs).all(-1)
    return acted.all()


def all_finite(arrays: object) -> jax.Array:
    """[] bool: whether all leaves are free of NaN and infinity."""
    return jnp.stack([jnp.isfinite(x).all() for x in jax.tree.leaves(arrays)]).all()
