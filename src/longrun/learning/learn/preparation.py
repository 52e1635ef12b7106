"""Turns a rollout into a batch: values, gain, advantages, targets (lines 5 to 8 of Algorithm 1)."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from longrun.learning.envs.spaces import Spaces
from longrun.learning.learn.acting import read
from longrun.learning.learn.checks import acts_finitely, all_finite, choice_is_left
from longrun.learning.learn.config_pytree import register_config
from longrun.learning.learn.criteria import Values, criterion_of
from longrun.learning.learn.limits import learn_limits
from longrun.learning.learn.moments import merge
from longrun.learning.learn.networks import value_network
from longrun.learning.learn.targets import batch_targets
from longrun.learning.learn.trace import adapt_trace
from longrun.learning.learn.types import Batch, Metrics, Networks, Rollout, TrainState
from longrun.learning.options.config import Config

register_config()


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
    if config.limits:
        state = state._replace(limits=learn_limits(config, state.limits, rollout, of_costs))
    targets, costs, of_limits, limits = batch_targets(config, state, rollout, heads)
    state = state._replace(limits=limits)
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
    value_target = batch.value_target[..., 0] if config.limits else batch.value_target
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
        "observation_size": root_mean_square(rollout.obs[..., spaces.mask_size :]),
        "gain": criterion.gain,
        "value_offset": criterion.offset,
        "value_mean": here.mean(),
        "reset_cost": criterion.reset_cost,
        "terminations": rollout.terminated.mean(),
        "explained_variance": 1 - jnp.var(value_target - here) / (jnp.var(value_target) + 1e-8),
    }
    if config.adapts_lambda and state.trace is not None:
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
        return value_network(config, layers, seen.features)

    here = value(rollout.obs)
    after_reset = jnp.concatenate([here[1:], value(rollout.resume_obs)[None]])
    every = (here, value(rollout.next_obs), after_reset)
    return [Values(*(x[..., k] for x in every)) for k in range(1 + len(config.limits))]


def root_mean_square(x: jax.Array) -> jax.Array:
    """[...] -> []"""
    return jnp.sqrt(jnp.square(x).mean())


def flat(x: jax.Array) -> jax.Array:
    """[T, N, ...] -> [T * N, ...]"""
    return x.reshape(x.shape[0] * x.shape[1], *x.shape[2:])
