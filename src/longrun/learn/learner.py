"""One iteration of any of the four algorithms, for one replica: pure functions of arrays.

`prepare`, `improve_policy` and `fit_value` are separate programs, as lines 9 and 10 of
Algorithm 1 are: the host loop runs the last two side by side. `update` is all three in one.
Everything can be vmapped over replicas, numeric options included.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp

from longrun.config import Config
from longrun.envs.acting import OBSERVATION_LIMIT
from longrun.envs.spaces import Spaces
from longrun.learn.criteria import Values, criterion_of
from longrun.learn.distributions import GAUSSIAN, Distribution, categorical
from longrun.learn.moments import Moments, init_moments, inverse_std, merge
from longrun.learn.networks import Layers, apply_mlp, init_mlp
from longrun.learn.optimise import init_optimiser, train_epochs
from longrun.learn.policy_steps import policy_step_of
from longrun.learn.pytree import register_config
from longrun.learn.types import Batch, Metrics, Networks, Policy, Rollout, TrainState

register_config()


def distribution_of(spaces: Spaces) -> Distribution:
    return categorical(spaces.categories) if spaces.categories else GAUSSIAN


@partial(jax.jit, static_argnames="spaces")
def init(config: Config, spaces: Spaces, key: jax.Array) -> TrainState:
    """A fresh replica. Made inside one program, so that no two fields share a buffer."""
    policy_key, value_key = jax.random.split(key)
    sizes = (spaces.observation_size, *config.hidden_sizes)
    policy = Policy(
        layers=init_mlp(policy_key, (*sizes, spaces.policy_outputs), output_gain=0.01),
        log_std=jnp.zeros(0 if spaces.categories else spaces.action_size),
    )
    value = init_mlp(value_key, (*sizes, 1), output_gain=1.0)
    return TrainState(
        params=Networks(policy, value),
        opt_state=Networks(
            policy_step_of(config).init(config, policy), init_optimiser(config, value)
        ),
        criterion=criterion_of(config).init(config),
        obs_moments=init_moments((spaces.observation_size,)),
        iteration=jnp.zeros((), jnp.int32),
    )


def standardise(config: Config, moments: Moments, obs: jax.Array) -> jax.Array:
    """Observations as the networks see them."""
    if not config.normalize_observations:
        return obs
    scaled = (obs - moments.mean) * inverse_std(moments)
    return jnp.clip(scaled, -OBSERVATION_LIMIT, OBSERVATION_LIMIT)


@jax.jit
def prepare(
    config: Config, state: TrainState, rollout: Rollout
) -> tuple[Batch, TrainState, Metrics]:
    """Derive values, gain, advantages and targets from the facts (lines 5 to 8 of Algorithm 1)."""

    def value(obs: jax.Array) -> jax.Array:
        return apply_mlp(state.params.value, standardise(config, state.obs_moments, obs))[..., 0]

    here = value(rollout.obs)
    after_reset = jnp.concatenate([here[1:], value(rollout.resume_obs)[None]])
    values = Values(here, value(rollout.next_obs), after_reset)
    targets, criterion = criterion_of(config).targets(config, state.criterion, rollout, values)
    advantage = targets.advantage
    if config.normalize_advantages:
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    samples = (standardise(config, state.obs_moments, rollout.obs), rollout.action, advantage)
    batch = Batch(*(x.reshape(-1, *x.shape[2:]) for x in (*samples, targets.value_target)))
    # The moments change only after this batch has been standardised with those that the policy
    # acted with: otherwise the first ratio would not be 1.
    if config.normalize_observations:
        seen = rollout.obs.reshape(-1, rollout.obs.shape[-1])
        state = state._replace(obs_moments=merge(state.obs_moments, seen))
    state = state._replace(criterion=criterion, iteration=state.iteration + 1)
    metrics = {
        "criterion_finite": _all_finite((criterion, state.obs_moments)),
        "reward": rollout.reward.mean(),
        "reward_min": rollout.reward.min(),
        "reward_max": rollout.reward.max(),
        "gain": criterion.gain,
        "value_offset": criterion.offset,
        "value_mean": here.mean(),
        "value_constraint": criterion.value_constraint,
        "reset_cost": criterion.reset_cost,
        "terminations": rollout.terminated.mean(),
        "explained_variance": 1
        - jnp.var(targets.value_target - here) / (jnp.var(targets.value_target) + 1e-8),
    }
    return batch, state, metrics


@partial(jax.jit, static_argnames="spaces")
def improve_policy(
    config: Config,
    spaces: Spaces,
    state: TrainState,
    batch: Batch,
    shuffles: jax.Array,
    progress: jax.Array,
) -> tuple[Policy, object, Metrics]:
    """Line 9 of Algorithm 1. `progress` in [0, 1) is the part of the run that is over."""
    policy, opt_state, metrics = policy_step_of(config).apply(
        config,
        distribution_of(spaces),
        state.params.policy,
        state.opt_state.policy,
        batch,
        shuffles,
        _learning_rate(config, progress),
    )
    return policy, opt_state, metrics | {"policy_finite": _all_finite(policy)}


@jax.jit
def fit_value(
    config: Config, state: TrainState, batch: Batch, shuffles: jax.Array, progress: jax.Array
) -> tuple[object, object, Metrics]:
    """Line 10 of Algorithm 1: M epochs on the half squared error to the targets (equ:J_V)."""

    def loss(layers: Layers, samples: tuple[jax.Array, ...]) -> tuple[jax.Array, Metrics]:
        obs, target = samples
        error = 0.5 * jnp.mean((target - apply_mlp(layers, obs)[..., 0]) ** 2)
        return error, {"value_loss": error}

    layers, opt_state, metrics = train_epochs(
        config,
        loss,
        state.params.value,
        state.opt_state.value,
        (batch.obs, batch.value_target),
        shuffles,
        _learning_rate(config, progress),
    )
    return layers, opt_state, metrics | {"value_finite": _all_finite(layers)}


def update(
    config: Config,
    spaces: Spaces,
    state: TrainState,
    rollout: Rollout,
    shuffles: Networks,
    progress: jax.Array | float = 0.0,
) -> tuple[TrainState, Metrics]:
    """A whole iteration; `shuffles` holds [epochs, T * N] indices for each network."""
    batch, state, metrics = prepare(config, state, rollout)
    policy, policy_opt, policy_metrics = improve_policy(
        config, spaces, state, batch, shuffles.policy, progress
    )
    value, value_opt, value_metrics = fit_value(config, state, batch, shuffles.value, progress)
    state = state._replace(
        params=Networks(policy, value), opt_state=Networks(policy_opt, value_opt)
    )
    return state, metrics | policy_metrics | value_metrics


def _learning_rate(config: Config, progress: jax.Array) -> jax.Array:
    remaining = 1 - progress if config.learning_rate_decay else 1.0
    return jnp.asarray(config.learning_rate * remaining)


def _all_finite(params: object) -> jax.Array:
    return jnp.stack([jnp.isfinite(x).all() for x in jax.tree.leaves(params)]).all()
