"""One iteration of any of the four algorithms, for one replica: pure functions of arrays.

`prepare` (in preparation.py), `improve_policy` and `fit_value` are separate programs, as lines 9
and 10 of Algorithm 1 are: the host loop runs the last two concurrently. `update` is all three in
one. It is required where targets are recomputed before each pass over a rollout, or where one
optimiser trains both networks. Everything can be vmapped over replicas, numeric options included.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from longrun.learning.envs.spaces import Spaces
from longrun.learning.learn.checks import flagged
from longrun.learning.learn.criteria import Targets, criterion_of
from longrun.learning.learn.learning_rate import learning_rate, with_shorter_steps
from longrun.learning.learn.limits import init_limits
from longrun.learning.learn.minibatches import Trained, init_optimiser, train_epochs
from longrun.learning.learn.mlp import split_keys
from longrun.learning.learn.moments import init_moments
from longrun.learning.learn.networks import init_policy_network, init_value_network
from longrun.learning.learn.policy_steps import policy_step_of
from longrun.learning.learn.preparation import flat, predict, prepare
from longrun.learning.learn.program_options import (
    options_of_init,
    options_of_policy,
    options_of_value,
)
from longrun.learning.learn.targets import batch_targets
from longrun.learning.learn.trace import init_trace, policy_learns
from longrun.learning.learn.types import Batch, Metrics, Networks, Policy, Rollout, TrainState
from longrun.learning.learn.value_fit import joint_targets, joint_task, value_task
from longrun.learning.options.config import Config


def init(config: Config, spaces: Spaces, key: jax.Array) -> TrainState:
    """A new replica. Each layer is drawn by a program of its own, which other networks share."""
    config = options_of_init(config)
    stds = 0 if spaces.categories else spaces.action_size
    state: TrainState = _init(config, draw(config, spaces, key), spaces.feature_size, stds)
    return state


def draw(config: Config, spaces: Spaces, key: jax.Array) -> Networks:
    """Initial parameters of both networks."""
    policy_key, value_key = split_keys(key, 2)
    return Networks(
        init_policy_network(config, spaces, policy_key),
        init_value_network(config, spaces, value_key),
    )


@partial(jax.jit, static_argnames=("features", "stds"))
def _init(config: Config, drawn: Networks, features: int, stds: int) -> TrainState:
    """Made inside one program so that no two fields share a buffer."""
    log_std = jnp.full(stds, config.initial_log_std, jnp.float32)
    networks = Networks(Policy(drawn.policy, log_std), drawn.value)
    return TrainState(
        params=networks,
        opt_state=_optimisers(config, networks),
        criterion=criterion_of(config).init(config),
        obs_moments=init_moments((features,)),
        iteration=jnp.zeros((), jnp.int32),
        limits=init_limits(config),
        trace=init_trace(config),
    )


def _optimisers(config: Config, networks: Networks) -> Networks:
    if has_joint_optimizer(config):
        return Networks(init_optimiser(config, networks), ())
    in_minibatches = policy_step_of(config).minibatch_task is not None
    return Networks(
        init_optimiser(config, networks.policy) if in_minibatches else (),
        init_optimiser(config, networks.value),
    )


def improve_policy(
    config: Config,
    spaces: Spaces,
    state: TrainState,
    batch: Batch,
    shuffles: Any,
    progress: jax.Array | float,
) -> Trained:
    """Line 9 of Algorithm 1. `progress` in [0, 1) is the fraction of the run that is done."""
    config, learns = options_of_policy(config), policy_learns(state)
    batch = batch._replace(value_target=None)  # type: ignore[arg-type]  # it is not read
    before = state.params.policy, state.opt_state.policy
    trained: Trained = _improve_policy(config, spaces, *before, batch, shuffles, progress, learns)
    return trained


@partial(jax.jit, static_argnames="spaces")
def _improve_policy(
    config: Config,
    spaces: Spaces,
    policy: Policy,
    opt_state: Any,
    batch: Batch,
    shuffles: jax.Array,
    progress: jax.Array,
    learns: jax.Array,
) -> Trained:
    before, step = (policy, opt_state), policy_step_of(config)
    if step.minibatch_task is not None:
        task = step.minibatch_task(config, spaces, policy, opt_state, batch, shuffles)
        [trained] = train_epochs(config, [task], learning_rate(config, progress))
    else:
        assert step.whole_batch is not None
        policy, metrics = step.whole_batch(config, spaces, policy, batch)
        trained = Trained(policy, opt_state, metrics)
    return flagged("policy", _kept_if(learns, trained, *before))


def _kept_if(learns: jax.Array | bool, trained: Trained, params: Any, opt_state: Any) -> Trained:
    """A trained policy, or the one from before while only the values are learned."""

    def kept(new: jax.Array, old: jax.Array | float) -> jax.Array:
        return jnp.where(learns, new, old)

    metrics = trained.metrics
    return Trained(
        jax.tree.map(kept, trained.params, params),
        jax.tree.map(kept, trained.opt_state, opt_state),
        metrics | {name: kept(metrics[name], 0.0) for name in MOVED & metrics.keys()},
    )


MOVED = {"kl", "clip_fraction", "step_fraction"}
"""metrics of how far a policy has moved"""
NOT_OF_VALUE = ("mask", "action", "advantage", "costs")
"""fields of a batch that fitting a value does not read"""


def fit_value(
    config: Config,
    state: TrainState,
    batch: Batch,
    shuffles: Any,
    progress: jax.Array | float,
) -> Trained:
    """Line 10 of Algorithm 1: M epochs on the half squared error to the targets (equ:J_V)."""
    config = options_of_value(config)
    of_policy: dict[str, Any] = dict.fromkeys(NOT_OF_VALUE)
    batch = batch._replace(**of_policy)
    before = state.params.value, state.opt_state.value
    trained: Trained = _fit_value(config, *before, batch, shuffles, progress)
    return trained


@jax.jit
def _fit_value(
    config: Config,
    layers: Any,
    opt_state: Any,
    batch: Batch,
    shuffles: jax.Array,
    progress: jax.Array,
) -> Trained:
    task = value_task(config, layers, opt_state, batch, shuffles)
    [trained] = train_epochs(config, [task], learning_rate(config, progress))
    return flagged("value", trained)


@partial(jax.jit, static_argnames="spaces")
def update(
    config: Config,
    spaces: Spaces,
    state: TrainState,
    rollout: Rollout,
    shuffles: Networks,
    progress: jax.Array | float = 0.0,
) -> tuple[TrainState, Metrics]:
    """A whole iteration; `shuffles` holds [epochs, T * N] indices for each network."""
    acted, config = state, with_shorter_steps(config, progress)
    batch, state, metrics = prepare(config, spaces, acted, rollout)

    def recomputed(layers: Any) -> Targets:
        heads = predict(config, spaces, acted, layers, rollout)
        again = batch_targets(config, state, rollout, heads, again=True)
        return Targets(*map(flat, again.targets))

    policy, value = _train_both(config, spaces, state, batch, shuffles, progress, recomputed)
    # The state of a joint optimiser is also that of the values, which are always learned.
    joint = has_joint_optimizer(config)
    opt_state = policy.opt_state if joint else state.opt_state.policy
    policy = _kept_if(policy_learns(state), policy, state.params.policy, opt_state)
    policy, value = flagged("policy", policy), flagged("value", value)
    state = state._replace(
        params=Networks(policy.params, value.params),
        opt_state=Networks(policy.opt_state, value.opt_state),
    )
    return state, metrics | policy.metrics | value.metrics


def _train_both(
    config: Config,
    spaces: Spaces,
    state: TrainState,
    batch: Batch,
    shuffles: Networks,
    progress: jax.Array | float,
    recomputed: Callable[[Any], Targets],
) -> tuple[Trained, Trained]:
    """Lines 9 and 10 of Algorithm 1; `recomputed` computes targets from a value network."""
    train = partial(train_epochs, config, learning_rate=learning_rate(config, progress))
    anew = recomputes_targets(config)
    params, opt_state = state.params, state.opt_state
    value_of_batch = value_task(config, params.value, opt_state.value, batch, shuffles.value)
    if (minibatch_task := policy_step_of(config).minibatch_task) is None:
        policy = improve_policy(config, spaces, state, batch, shuffles.policy, progress)
        recompute = (lambda networks: [recomputed(networks[0]).value_target]) if anew else None
        [value] = train([value_of_batch], recompute=recompute)
        return policy, value
    before = (params.policy, opt_state.policy, batch, shuffles.policy)
    policy_of_batch = minibatch_task(config, spaces, *before)
    if has_joint_optimizer(config):
        both = joint_task(policy_of_batch, value_of_batch, opt_state.policy)
        recompute = (
            (lambda networks: [joint_targets(*recomputed(networks[0].value))]) if anew else None
        )
        [trained] = train([both], recompute=recompute)
        return (
            Trained(trained.params.policy, trained.opt_state, trained.metrics),
            Trained(trained.params.value, (), {}),
        )
    # Both networks in one loop, so that a device can run their small kernels concurrently.
    recompute = (lambda networks: list(recomputed(networks[1]))) if anew else None
    policy, value = train([policy_of_batch, value_of_batch], recompute=recompute)
    return policy, value


def recomputes_targets(config: Config) -> bool:
    """Whether advantages change between passes; a single pass uses those from `prepare`."""
    return config.recompute_advantages and config.epochs > 1


def has_joint_optimizer(config: Config) -> bool:
    """Whether one optimiser trains both networks; only minibatch policy steps have the option."""
    return getattr(config, "joint_optimizer", False)


def is_one_program(config: Config) -> bool:
    """Whether neither network can be trained without the other, so that `update` is required."""
    return recomputes_targets(config) or has_joint_optimizer(config)
