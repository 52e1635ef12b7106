"""One iteration of any of the four algorithms, for one replica: pure functions of arrays.

`prepare` (in preparation.py), `improve_policy` and `fit_value` are separate programs, as lines 9
and 10 of Algorithm 1 are: the host loop runs the last two concurrently. `update` is all three in
one. Everything can be vmapped over replicas, numeric options included.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from longrun.learning.envs.spaces import Spaces
from longrun.learning.learn.criteria import init_criterion
from longrun.learning.learn.limits import init_limits
from longrun.learning.learn.minibatches import OPTIMISER, Samples, Task, Trained, train_epochs
from longrun.learning.learn.moments import init_moments
from longrun.learning.learn.networks import apply_network, init_networks
from longrun.learning.learn.policy_steps import POLICY_STEPS, with_shorter_steps
from longrun.learning.learn.preparation import all_finite, prepare
from longrun.learning.learn.trace import init_trace, policy_learns
from longrun.learning.learn.types import Batch, Metrics, Networks, Policy, Rollout, TrainState
from longrun.learning.options.config import Config, of_kind


def init(config: Config, spaces: Spaces, key: jax.Array) -> TrainState:
    """A new replica. Each layer is drawn by a program of its own, which other networks share."""
    stds = 0 if spaces.categories else spaces.action_size
    drawn = training_of(config).draw(config, spaces, key)
    state: TrainState = _init(config, drawn, spaces.feature_size, stds)
    return state


@partial(jax.jit, static_argnames=("features", "stds"))
def _init(config: Config, drawn: Networks, features: int, stds: int) -> TrainState:
    """Made inside one program so that no two fields share a buffer."""
    log_std = jnp.full(stds, config.initial_log_std, jnp.float32)
    networks = Networks(Policy(drawn.policy, log_std), drawn.value)
    return TrainState(
        params=networks,
        opt_state=training_of(config).init_optimisers(config, networks),
        criterion=init_criterion(config),
        obs_moments=init_moments((features,)),
        iteration=jnp.zeros((), jnp.int32),
        limits=init_limits(config),
        trace=init_trace(config),
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
    learns = policy_learns(state)
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
    before, step = (policy, opt_state), of_kind(POLICY_STEPS, config)
    if step.minibatch_task is not None:
        task = step.minibatch_task(config, spaces, policy, opt_state, batch, shuffles)
        [trained] = train_epochs(config, [task], progress)
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
    config: Config, state: TrainState, batch: Batch, shuffles: Any, progress: jax.Array | float
) -> Trained:
    """Line 10 of Algorithm 1: M epochs on the half squared error to the targets (equ:J_V)."""
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
    task = _value_task(config, layers, opt_state, batch, shuffles)
    [trained] = train_epochs(config, [task], progress)
    return flagged("value", trained)


def _value_task(
    config: Config, layers: Any, opt_state: Any, batch: Batch, shuffles: jax.Array
) -> Task:
    def loss(layers: Any, samples: Samples) -> tuple[jax.Array, Metrics]:
        error = 0.5 * value_errors(config, layers, *samples).mean()
        return error, {"value_loss": error}

    return Task(loss, layers, opt_state, (batch.features, batch.value_target), shuffles)


def value_errors(config: Config, layers: Any, features: jax.Array, target: jax.Array) -> jax.Array:
    """[n] squared errors of the values; with limits they are sums over the heads."""
    values = apply_network(config.value_network, config.acting, layers, features)
    if config.headed_limits:
        return ((target - values) ** 2).sum(-1)
    return (target - values[..., 0]) ** 2


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
    config = with_shorter_steps(config, progress)
    batch, state, metrics = prepare(config, spaces, state, rollout)
    train = training_of(config).train
    policy, value = train(config, spaces, state, rollout, batch, shuffles, progress)
    before = state.params.policy, state.opt_state.policy
    policy = flagged("policy", _kept_if(policy_learns(state), policy, *before))
    value = flagged("value", value)
    state = state._replace(
        params=Networks(policy.params, value.params),
        opt_state=Networks(policy.opt_state, value.opt_state),
    )
    return state, metrics | policy.metrics | value.metrics


class Training(NamedTuple):
    """How the networks start and are trained (lines 9 and 10 of Algorithm 1)."""

    draw: Callable[[Config, Spaces, jax.Array], Networks]
    """initial parameters"""
    init_optimisers: Callable[[Config, Networks], Networks]
    train: Callable[..., tuple[Trained, Trained]]
    """called with config, spaces, state, rollout, batch, shuffles and progress"""
    is_apart: bool
    """whether `improve_policy` and `fit_value` do the same, and can run concurrently"""


def training_of(config: Config) -> Training:
    """The entry of `TRAININGS` for the configuration's kind."""
    return of_kind(TRAININGS, config)


def _init_optimisers(config: Config, networks: Networks) -> Networks:
    in_minibatches = of_kind(POLICY_STEPS, config).minibatch_task is not None
    return Networks(
        OPTIMISER.init(networks.policy) if in_minibatches else (), OPTIMISER.init(networks.value)
    )


def _train_both(
    config: Config,
    spaces: Spaces,
    state: TrainState,
    rollout: Rollout,
    batch: Batch,
    shuffles: Networks,
    progress: jax.Array | float,
) -> tuple[Trained, Trained]:
    params, opt_state = state.params, state.opt_state
    tasks = [_value_task(config, params.value, opt_state.value, batch, shuffles.value)]
    if (minibatch_task := of_kind(POLICY_STEPS, config).minibatch_task) is None:
        policy = improve_policy(config, spaces, state, batch, shuffles.policy, progress)
        [value] = train_epochs(config, tasks, progress)
        return policy, value
    # Both networks in one loop, so that a device can run their small kernels concurrently.
    before = (params.policy, opt_state.policy, batch, shuffles.policy)
    tasks = [minibatch_task(config, spaces, *before), *tasks]
    policy, value = train_epochs(config, tasks, progress)
    return policy, value


TRAININGS: dict[type[Config], Training] = {
    Config: Training(init_networks, _init_optimisers, _train_both, is_apart=True)
}
"""How each family of configurations trains its networks."""


def flagged(what: str, trained: Trained) -> Trained:
    """Add a flag to the metrics, which the training loops check: are the parameters finite?"""
    flag = {f"{what}_finite": all_finite(trained.params)}
    return trained._replace(metrics=trained.metrics | flag)
