"""The two criteria: how rollouts and values become advantages and value targets.

Both run the same code. The discounted criterion is the average one with gain 0, no constraint on
the mean value and a discount below 1, so that the two can be compared to the bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from longrun.learning.learn.advantages import (
    lambda_advantages,
    moving_average,
    scan_over_time,
    td_errors,
    value_targets,
)
from longrun.learning.learn.moments import init_moments, inverse_std, merge
from longrun.learning.learn.types import CriterionState, Rollout
from longrun.learning.options.config import Average, Config, Discounted, of_kind

Scalar = jax.Array | float


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
    """What a criterion learns from a batch, and the targets that it computes from that batch."""

    learn: Callable[[Any, CriterionState, Rollout, Values], CriterionState]
    targets: Callable[[Any, CriterionState, Rollout, Values], Targets]


def criterion_of(config: Config) -> Criterion:
    """The entry of `CRITERIA` for the configuration's kind."""
    return of_kind(CRITERIA, config)


def init_criterion(config: Config) -> CriterionState:
    """The state before the first batch."""
    return CriterionState(
        gain=jnp.zeros(()),
        offset=jnp.zeros(()),
        reset_cost=jnp.asarray(getattr(config, "reset_cost", 0.0), jnp.float32),
        started=jnp.zeros((), bool),
        reward_sums=init_moments(),
        reward_sum=jnp.zeros(config.num_envs if config.scale_rewards else 0),
    )


def _average_steps(
    config: Average, state: CriterionState, rollout: Rollout, values: Values
) -> Steps:
    if config.termination == "zero":
        return _terminal_steps(rollout, values)
    return Steps(
        reward=rollout.reward - state.reset_cost * rollout.terminated,
        successor=jnp.where(rollout.terminated, values.after_reset, values.successor),
        ends=rollout.truncated & ~rollout.terminated,
    )


def _average_learn(
    config: Average, state: CriterionState, rollout: Rollout, values: Values
) -> CriterionState:
    """Lines 5 and 6 of Algorithm 1, and the adaptation of the reset cost."""
    state = adapt_reset_cost(config, state, rollout)
    steps = _average_steps(config, state, rollout, values)
    state = running_means(state, steps.reward, values.here, config.gain_step_size)
    return learn_scale(state, steps, config.gae_lambda)


def _average_targets(
    config: Average, state: CriterionState, rollout: Rollout, values: Values
) -> Targets:
    """Lines 7 and 8 of Algorithm 1, and the targets of line 10."""
    steps = _average_steps(config, state, rollout, values)
    return targets_of(state, steps, values, 1.0, config.gae_lambda, config.value_constraint)


def _discounted_learn(
    config: Discounted, state: CriterionState, rollout: Rollout, values: Values
) -> CriterionState:
    steps = _terminal_steps(rollout, values)
    return learn_scale(state, steps, config.discount)


def _discounted_targets(
    config: Discounted, state: CriterionState, rollout: Rollout, values: Values
) -> Targets:
    """Generalised advantage estimation, with the true bootstrap at time limits."""
    steps = _terminal_steps(rollout, values)
    return targets_of(state, steps, values, config.discount, config.gae_lambda)


CRITERIA: dict[type[Config], Criterion] = {
    Average: Criterion(_average_learn, _average_targets),
    Discounted: Criterion(_discounted_learn, _discounted_targets),
}
"""The criterion of each family of configurations; a new criterion is a new entry."""


def _terminal_steps(rollout: Rollout, values: Values) -> Steps:
    """A termination has no successor, so that the value there is 0."""
    return Steps(
        reward=rollout.reward,
        successor=jnp.where(rollout.terminated, 0.0, values.successor),
        ends=rollout.truncated | rollout.terminated,
    )


def running_means(
    state: CriterionState, reward: jax.Array, values: jax.Array, step_size: Scalar
) -> CriterionState:
    """Gain and offset; both start at the first batch's means, as in the authors' code."""

    def averaged(old: jax.Array, new: jax.Array) -> jax.Array:
        return jnp.where(state.started, moving_average(old, new, step_size), new)

    return state._replace(
        gain=averaged(state.gain, reward.mean()),
        offset=averaged(state.offset, values.mean()),
        started=jnp.ones_like(state.started),
    )


def learn_scale(state: CriterionState, steps: Steps, decay: Scalar) -> CriterionState:
    """The scale of rewards, if there is one, from their sums that decay as traces do."""
    if not state.reward_sum.size:
        return state
    net = steps.reward - state.gain
    last, sums = _decayed_sums(state.reward_sum, net, steps.ends, decay)
    moments = merge(state.reward_sums, sums.reshape(-1))
    return state._replace(reward_sums=moments, reward_sum=last)


def targets_of(
    state: CriterionState,
    steps: Steps,
    values: Values,
    discount: Scalar,
    gae_lambda: Scalar,
    value_constraint: Scalar = 0.0,
) -> Targets:
    """The computation that both criteria share, once terminations are accounted for."""
    scale = _scale(state)
    reward, gain = steps.reward * scale, state.gain * scale
    deltas = td_errors(reward, values.here, steps.successor, gain, discount)
    advantages = lambda_advantages(deltas, steps.ends, discount * gae_lambda)
    targets = value_targets(advantages, values.here, state.offset, value_constraint)
    return Targets(advantages, targets)


def _scale(state: CriterionState) -> Scalar:
    """What rewards are multiplied by; 1 without reward scaling."""
    return inverse_std(state.reward_sums) if state.reward_sum.size else 1.0


def value_unit(state: CriterionState) -> Scalar:
    """The reward, in the environment's own units, that a value of 1 corresponds to.

    For advantages and targets of a batch it must be called after that batch has been merged into
    the scale.
    """
    return 1 / _scale(state)


def _decayed_sums(
    before: jax.Array, rewards: jax.Array, ends: jax.Array, decay: Scalar
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


SLOWED = 0.1
"""Speed at which a reset cost rises once it takes more than the policy earns."""
FEWEST_EVENTS = 2.0
"""Lower limit of the unit, in events per batch, in which a violation is measured."""


def allowed_rate(limit: Scalar, largest: Scalar, steps: int) -> jax.Array:
    """[] the unit of a violation: what the limit allows, or FEWEST_EVENTS in a batch if it is less.

    largest: the largest cost of a step; steps: of a batch. Without the lower bound, a batch with
    one event and a batch with none would count alike, and the rate would be held at ln 2 per batch
    for any lower limit.
    """
    return jnp.maximum(jnp.maximum(jnp.abs(limit), FEWEST_EVENTS * largest / steps), 1e-12)


def adapt_reset_cost(config: Average, state: CriterionState, rollout: Rollout) -> CriterionState:
    """A Lagrange multiplier that holds the termination rate at its target.

    Its steps are in units of the mean absolute reward, or of 1 while all rewards are 0. A policy
    that has yet to learn to stay up cannot answer a higher cost, which would wind up as long as it
    learns: it rises slowly once terminations cost more than the mean absolute reward.
    """
    ended = rollout.terminated
    rate = ended.mean()
    target = config.terminations_aimed_at
    unit = allowed_rate(target, 1.0, ended.size)
    excess = jnp.clip((rate - target) / unit, -1, 1)
    size = jnp.abs(rollout.reward).mean()
    size = jnp.where(size > 0, size, 1.0)
    winds_up = (excess > 0) & (state.reset_cost * rate > size)
    ascent = config.reset_cost_step_size * excess * size * jnp.where(winds_up, SLOWED, 1.0)
    return state._replace(reset_cost=jnp.maximum(state.reset_cost + ascent, 0.0))
