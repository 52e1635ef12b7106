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
from longrun.learn.adaptation import adapt_reset_cost, adapt_value_constraint
from longrun.learn.advantages import (
    UNROLL,
    lambda_advantages,
    moving_average,
    td_errors,
    value_targets,
)
from longrun.learn.moments import init_moments, inverse_std, merge
from longrun.learn.types import CriterionState, Rollout


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
    """Lines 5 and 6 of Algorithm 1, and what is adapted."""
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


def _terminal_steps(config: Config, rollout: Rollout, values: Values) -> Steps:
    """Nothing follows a termination; and a time limit, if it is taken for one."""
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
    config: Average, state: CriterionState, steps: Steps, rollout: Rollout, values: Values
) -> CriterionState:
    """Gain and offset; the first batch's means start them, as in the authors' code.

    A gain by TD errors is the running mean of r + V(s') - V(s), where s' lies behind the reset if
    the step terminated, whatever the advantages take for its value, and nothing is discounted.
    Only so do the values' differences add up to nothing over a long run, and the gain is the reward
    rate. With a value of 0 behind terminations, values that fit a wrong gain g would confirm it:
    over an episode of L steps and reward R they change by 0 - V(s_0) = L g - R, and R + L g - R is
    L g. The same holds for discounted differences.
    """

    def averaged(old: jax.Array, new: jax.Array, first: jax.Array) -> jax.Array:
        return jnp.where(state.started, moving_average(old, new, config.gain_step_size), first)

    earned, offset = steps.reward.mean(), values.here.mean()
    rate = earned
    if config.gain_estimate == "td":
        successor = jnp.where(rollout.terminated, values.after_reset, values.successor)
        rate += (successor - values.here).mean() * _value_unit(config, state)
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


def _decayed_sums(
    before: jax.Array, rewards: jax.Array, ends: jax.Array, decay: jax.Array | float
) -> tuple[jax.Array, jax.Array]:
    """R_t = r_t + decay * R_{t-1}, started anew in each episode: where it stands [N], and [T, N].

    It goes on from `before` [N], where the last rollout left it: otherwise short rollouts would
    have smaller sums, and the scale would depend on their length.
    """

    def step(total: jax.Array, row: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        reward, end = row
        total = reward + decay * total
        return jnp.where(end, 0.0, total), total

    return jax.lax.scan(step, before, (rewards, ends), unroll=UNROLL)
