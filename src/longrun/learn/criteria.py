"""The two criteria: how facts and values become advantages and value targets.

Both run the same code. The discounted criterion is the average one with gain 0, no constraint on
the mean value and a discount below 1, so that the two can be compared to the bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from longrun.config import Average, Config, Discounted
from longrun.learn.advantages import (
    UNROLL,
    lambda_advantages,
    moving_average,
    td_errors,
    value_targets,
)
from longrun.learn.moments import Moments, init_moments, inverse_std, merge
from longrun.learn.types import CriterionState, Rollout

OFFSET_TOLERANCE = 0.01
"""Squared offset, as a part of the values' variance, that an adaptive nu leaves alone."""


class Values(NamedTuple):
    """The value network's predictions, each [T, N]."""

    here: jax.Array
    successor: jax.Array
    after_reset: jax.Array
    """value of the next row's observation: behind a termination, of the reset state"""


class Targets(NamedTuple):
    """[T, N] each."""

    advantage: jax.Array
    value_target: jax.Array


class Steps(NamedTuple):
    """The facts as a criterion has them, each [T, N]: what it says of terminations is in them."""

    reward: jax.Array
    successor: jax.Array
    """value of what follows"""
    ends: jax.Array
    """where no later advantage flows back"""


class Criterion(NamedTuple):
    """What a criterion learns of a batch, and how it then judges that batch.

    The two are separate, since a batch may be judged more than once, as the values change.
    """

    init: Callable[[Config], CriterionState]
    learn: Callable[[Config, CriterionState, Rollout, Values], CriterionState]
    targets: Callable[[Config, CriterionState, Rollout, Values], Targets]


def criterion_of(config: Config) -> Criterion:
    return AVERAGE if isinstance(config, Average) else DISCOUNTED


def _init(value_constraint: float, reset_cost: float) -> CriterionState:
    return CriterionState(
        gain=jnp.zeros(()),
        offset=jnp.zeros(()),
        value_constraint=jnp.asarray(value_constraint, jnp.float32),
        reset_cost=jnp.asarray(reset_cost, jnp.float32),
        started=jnp.zeros((), bool),
        reward_sums=init_moments(),
    )


def _average_init(config: Config) -> CriterionState:
    assert isinstance(config, Average)
    return _init(config.value_constraint, config.reset_cost)


def _average_steps(
    config: Average, state: CriterionState, rollout: Rollout, values: Values
) -> Steps:
    if config.termination == "reset":
        return Steps(
            reward=rollout.reward - state.reset_cost * rollout.terminated,
            successor=jnp.where(rollout.terminated, values.after_reset, values.successor),
            ends=rollout.truncated & ~rollout.terminated,
        )
    return _terminal_steps(rollout, values)


def _average_learn(
    config: Config, state: CriterionState, rollout: Rollout, values: Values
) -> CriterionState:
    """Lines 5 and 6 of Algorithm 1, and what is adapted."""
    assert isinstance(config, Average)
    state = _adapt_reset_cost(config, state, rollout)
    steps = _average_steps(config, state, rollout, values)
    state = _running_means(config, state, steps, values)
    state = _adapt_value_constraint(config, state, values)
    return _learn_scale(config, state, steps, config.gae_lambda)


def _average_targets(
    config: Config, state: CriterionState, rollout: Rollout, values: Values
) -> Targets:
    """Lines 7 and 8 of Algorithm 1, and the targets of line 10."""
    assert isinstance(config, Average)
    steps = _average_steps(config, state, rollout, values)
    return _targets(config, state, steps, values, discount=1.0)


def _discounted_init(config: Config) -> CriterionState:
    return _init(0.0, 0.0)


def _discounted_learn(
    config: Config, state: CriterionState, rollout: Rollout, values: Values
) -> CriterionState:
    assert isinstance(config, Discounted)
    return _learn_scale(config, state, _terminal_steps(rollout, values), config.discount)


def _discounted_targets(
    config: Config, state: CriterionState, rollout: Rollout, values: Values
) -> Targets:
    """Generalised advantage estimation, with the true bootstrap at time limits."""
    assert isinstance(config, Discounted)
    return _targets(config, state, _terminal_steps(rollout, values), values, config.discount)


AVERAGE = Criterion(_average_init, _average_learn, _average_targets)
DISCOUNTED = Criterion(_discounted_init, _discounted_learn, _discounted_targets)


def _terminal_steps(rollout: Rollout, values: Values) -> Steps:
    """Nothing follows a termination."""
    return Steps(
        reward=rollout.reward,
        successor=jnp.where(rollout.terminated, 0.0, values.successor),
        ends=rollout.truncated | rollout.terminated,
    )


def _learn_scale(
    config: Config, state: CriterionState, steps: Steps, decay: jax.Array | float
) -> CriterionState:
    if not config.scale_rewards:
        return state
    net = steps.reward - state.gain
    return state._replace(
        reward_sums=_decayed_reward_sums(state.reward_sums, net, steps.ends, decay)
    )


def _targets(
    config: Config,
    state: CriterionState,
    steps: Steps,
    values: Values,
    discount: jax.Array | float,
) -> Targets:
    """What both criteria share, once each has said what follows a termination."""
    reward, gain = steps.reward, state.gain
    if config.scale_rewards:
        scale = inverse_std(state.reward_sums)
        reward, gain = reward * scale, gain * scale
    deltas = td_errors(reward, values.here, steps.successor, gain, discount)
    advantages = lambda_advantages(deltas, steps.ends, discount * config.gae_lambda)
    targets = value_targets(advantages, values.here, state.offset, state.value_constraint)
    return Targets(advantages, targets)


def _running_means(
    config: Average, state: CriterionState, steps: Steps, values: Values
) -> CriterionState:
    """Gain and offset; the first batch's means start them, as in the authors' code."""

    def averaged(old: jax.Array, new: jax.Array, first: jax.Array) -> jax.Array:
        return jnp.where(state.started, moving_average(old, new, config.gain_step_size), first)

    earned, offset = steps.reward.mean(), values.here.mean()
    rate = earned
    if config.gain_estimate == "td":
        # gain + alpha * mean(r - gain + V(s') - V(s)) is the running mean of r + V(s') - V(s).
        rate += (steps.successor - values.here).mean() * _value_unit(config, state)
    return state._replace(
        gain=averaged(state.gain, rate, earned),
        offset=averaged(state.offset, offset, offset),
        started=jnp.ones_like(state.started),
    )


def _value_unit(config: Config, state: CriterionState) -> jax.Array | float:
    """What a value of 1 is worth in the environment's own rewards.

    The network was fitted to rewards in the scale of the batches before this one, so this is to be
    asked before this batch joins them.
    """
    return 1 / inverse_std(state.reward_sums) if config.scale_rewards else 1.0


def _adapt_value_constraint(
    config: Average, state: CriterionState, values: Values
) -> CriterionState:
    """Dual ascent on the squared offset, in units of the values' variance; nu stays in [0, 1].

    The violation is clipped, lest one batch of nearly equal values decide.
    """
    violation = state.offset**2 / (values.here.var() + 1e-8) - OFFSET_TOLERANCE
    ascent = config.value_constraint_step_size * jnp.clip(violation, -1, 1)
    adapted = state.value_constraint + ascent
    return state._replace(value_constraint=jnp.clip(adapted, 0.0, 1.0))


def _adapt_reset_cost(config: Average, state: CriterionState, rollout: Rollout) -> CriterionState:
    """A Lagrange multiplier that holds the termination rate at its target.

    Its steps are in units of the mean absolute reward, or of 1 where there is no reward yet.
    """
    excess = rollout.terminated.mean() / config.termination_target - 1
    size = jnp.abs(rollout.reward).mean()
    unit = jnp.where(size > 0, size, 1.0)
    ascent = config.reset_cost_step_size * jnp.clip(excess, -1, 1) * unit
    return state._replace(reset_cost=jnp.maximum(state.reset_cost + ascent, 0.0))


def _decayed_reward_sums(
    moments: Moments, rewards: jax.Array, ends: jax.Array, decay: jax.Array | float
) -> Moments:
    """Moments of R_t = r_t + decay * R_{t-1}, started anew in each rollout and episode."""

    def step(total: jax.Array, row: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        reward, end = row
        total = reward + decay * total
        return jnp.where(end, 0.0, total), total

    _, sums = jax.lax.scan(step, jnp.zeros_like(rewards[0]), (rewards, ends), unroll=UNROLL)
    return merge(moments, sums.reshape(-1))
