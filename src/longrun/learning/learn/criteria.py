"""The two criteria: how rollouts and values become advantages and value targets.

Both run the same code. The discounted criterion is the average one with gain 0, no constraint on
the mean value and a discount below 1, so that the two can be compared to the bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from longrun.learning.learn.adaptation import adapt_reset_cost, adapt_value_constraint
from longrun.learning.learn.advantages import (
    lambda_advantages,
    moving_average,
    scan_over_time,
    td_errors,
    value_targets,
)
from longrun.learning.learn.moments import init_moments, inverse_std, merge
from longrun.learning.learn.types import CriterionState, Rollout
from longrun.learning.options.config import Average, Config, Discounted


class Values(NamedTuple):
    """The value network's predictions, each [T, N]."""

    here: jax.Array
    successor: jax.Array
    after_reset: jax.Array
    """value of the next row's observation: after a termination, of the reset state"""


class Targets(NamedTuple):
    """Advantages and value targets, [T, N] each."""

    advantage: jax.Array
    value_target: jax.Array


class Steps(NamedTuple):
    """A rollout as a criterion treats it, each [T, N]: terminations are accounted for."""

    reward: jax.Array
    successor: jax.Array
    """value of the successor"""
    ends: jax.Array
    """where later advantages do not propagate back"""


class Criterion(NamedTuple):
    """What a criterion learns from a batch, and the targets that it computes from that batch.

    The two are separate, since targets may be recomputed as the values change.
    """

    init: Callable[[Config], CriterionState]
    learn: Callable[[Config, CriterionState, Rollout, Values], CriterionState]
    targets: Callable[[Config, CriterionState, Rollout, Values], Targets]


def criterion_of(config: Config) -> Criterion:
    """The entry of `CRITERIA` for the configuration's kind."""
    return next(found for kind, found in CRITERIA.items() if isinstance(config, kind))


def _init(config: Config, value_constraint: float, reset_cost: float) -> CriterionState:
    return CriterionState(
        gain=jnp.zeros(()),
        offset=jnp.zeros(()),
        value_constraint=jnp.asarray(value_constraint, jnp.float32),
        reset_cost=jnp.asarray(reset_cost, jnp.float32),
        started=jnp.zeros((), bool),
        reward_sums=init_moments(),
        reward_sum=jnp.zeros(config.num_envs if config.scale_rewards else 0),
    )


def _average_init(config: Config) -> CriterionState:
    assert isinstance(config, Average)
    return _init(config, config.value_constraint, config.reset_cost)


def _average_steps(
    config: Average, state: CriterionState, rollout: Rollout, values: Values
) -> Steps:
    if config.termination == "reset":
        return Steps(
            reward=rollout.reward - state.reset_cost * rollout.terminated,
            successor=jnp.where(rollout.terminated, values.after_reset, values.successor),
            ends=rollout.truncated & ~rollout.terminated,
        )
    return _terminal_steps(config, rollout, values)


def _average_learn(
    config: Config, state: CriterionState, rollout: Rollout, values: Values
) -> CriterionState:
    """Lines 5 and 6 of Algorithm 1, and the adaptation of nu and the reset cost."""
    assert isinstance(config, Average)
    state = adapt_reset_cost(config, state, rollout)
    steps = _average_steps(config, state, rollout, values)
    state = _running_means(config, state, steps, rollout, values)
    state = adapt_value_constraint(config, state, values.here)
    return _learn_scale(config, state, steps, config.value_discount * config.gae_lambda)


def _average_targets(
    config: Config, state: CriterionState, rollout: Rollout, values: Values
) -> Targets:
    """Lines 7 and 8 of Algorithm 1, and the targets of line 10."""
    assert isinstance(config, Average)
    steps = _average_steps(config, state, rollout, values)
    return _targets(config, state, steps, values, config.value_discount)


def _discounted_init(config: Config) -> CriterionState:
    return _init(config, 0.0, 0.0)


def _discounted_learn(
    config: Config, state: CriterionState, rollout: Rollout, values: Values
) -> CriterionState:
    assert isinstance(config, Discounted)
    steps = _terminal_steps(config, rollout, values)
    return _learn_scale(config, state, steps, config.discount)


def _discounted_targets(
    config: Config, state: CriterionState, rollout: Rollout, values: Values
) -> Targets:
    """Generalised advantage estimation, with the true bootstrap at time limits."""
    assert isinstance(config, Discounted)
    steps = _terminal_steps(config, rollout, values)
    return _targets(config, state, steps, values, config.discount)


AVERAGE = Criterion(_average_init, _average_learn, _average_targets)
DISCOUNTED = Criterion(_discounted_init, _discounted_learn, _discounted_targets)
CRITERIA: dict[type[Config], Criterion] = {Average: AVERAGE, Discounted: DISCOUNTED}
"""The criterion of each family of configurations; a new criterion is a new entry."""


def _terminal_steps(config: Config, rollout: Rollout, values: Values) -> Steps:
    """A termination has no successor, nor has a time limit that is treated as a termination."""
    ends = rollout.truncated | rollout.terminated
    over = rollout.terminated if config.time_limit == "bootstrap" else ends
    return Steps(
        reward=rollout.reward,
        successor=jnp.where(over, 0.0, values.successor),
        ends=ends,
    )


def _learn_scale(
    config: Config, state: CriterionState, steps: Steps, decay: jax.Array | float
) -> CriterionState:
    if not config.scale_rewards:
        return state
    net = steps.reward - state.gain
    last, sums = _decayed_sums(state.reward_sum, net, steps.ends, decay)
    moments = merge(state.reward_sums, sums.reshape(-1))
    return state._replace(reward_sums=moments, reward_sum=last)


def _targets(
    config: Config,
    state: CriterionState,
    steps: Steps,
    values: Values,
    discount: jax.Array | float,
) -> Targets:
    """The computation that both criteria share, once terminations are accounted for."""
    reward, gain = steps.reward, state.gain
    if config.scale_rewards:
        scale = inverse_std(state.reward_sums)
        reward, gain = reward * scale, gain * scale
    deltas = td_errors(reward, values.here, steps.successor, gain, discount)
    advantages = lambda_advantages(deltas, steps.ends, discount * config.gae_lambda)
    targets = value_targets(advantages, values.here, state.offset, state.value_constraint)
    return Targets(advantages, targets)


def _running_means(
    config: Average, state: CriterionState, steps: Steps, rollout: Rollout, values: Values
) -> CriterionState:
    """Gain and offset; both start at the first batch's means, as in the authors' code.

    With gain_estimate="td" the gain is the running mean of r + V(s') - V(s), undiscounted, where s'
    is the reset state after a termination, independent of how the advantages treat terminations.
    Only then do the values' differences cancel over a long run, so that the gain is the reward
    rate. With a value of 0 after terminations, values fitted to a wrong gain g would confirm it:
    over an episode of L steps and reward R they change by 0 - V(s_0) = L g - R, and R + L g - R is
    L g. The same holds for discounted differences.
    """

    def averaged(old: jax.Array, new: jax.Array, first: jax.Array) -> jax.Array:
        return jnp.where(state.started, moving_average(old, new, config.gain_step_size), first)

    earned, offset = steps.reward.mean(), values.here.mean()
    rate = earned
    if config.gain_estimate == "td":
        successor = jnp.where(rollout.terminated, values.after_reset, values.successor)
        rate += (successor - values.here).mean() * value_unit(config, state)
    return state._replace(
        gain=averaged(state.gain, rate, earned),
        offset=averaged(state.offset, offset, offset),
        started=jnp.ones_like(state.started),
    )


def value_unit(config: Config, state: CriterionState) -> jax.Array | float:
    """The reward, in the environment's own units, that a value of 1 corresponds to.

    The network was fitted to rewards in the scale of the batches before this one: for its
    predictions, this must be called before this batch is merged into the scale; for the advantages
    and targets of this batch, afterwards.
    """
    return 1 / inverse_std(state.reward_sums) if config.scale_rewards else 1.0


def _decayed_sums(
    before: jax.Array, rewards: jax.Array, ends: jax.Array, decay: jax.Array | float
) -> tuple[jax.Array, jax.Array]:
    """R_t = r_t + decay * R_{t-1}, restarted in each episode: the last sums [N], and all [T, N].

    It continues from `before` [N], the last sums of the previous rollout: otherwise short rollouts
    would have smaller sums, and the scale would depend on their length.
    """

    def step(total: jax.Array, row: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        reward, end = row
        total = reward + decay * total
        return jnp.where(end, 0.0, total), total

    return scan_over_time(step, before, (rewards, ends))
