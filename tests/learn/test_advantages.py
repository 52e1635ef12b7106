"""Advantages and value targets against numbers worked out by hand.

Nearly all numbers here are sums of powers of two, which float32 holds exactly: those are compared
to the bit.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from longrun.learning.learn import advantages
from longrun.learning.learn.advantages import (
    lambda_advantages,
    moving_average,
    td_errors,
    value_targets,
)
from longrun.learning.learn.criteria import (
    Targets,
    Values,
    adapt_reset_cost,
    criterion_of,
    init_criterion,
)
from longrun.learning.learn.types import CriterionState, Rollout
from longrun.learning.options.config import Config
from paper_config import paper_config

examples = settings(max_examples=60, deadline=None, derandomize=True, database=None)


def rows(*values: Any) -> jax.Array:
    """A [T, N] array from one column for each environment."""
    return jnp.asarray(np.stack(values, axis=1), jnp.float32)


def columns(array: jax.Array) -> list[list[float]]:
    return np.asarray(array).T.tolist()


def ends(*columns_: list[int]) -> jax.Array:
    return jnp.asarray(np.stack(columns_, axis=1), bool)


def facts(reward: jax.Array, terminated: Any = False, truncated: Any = False) -> Rollout:
    t, n = reward.shape
    obs = np.zeros((t, n, 1), np.float32)  # a criterion sees values, not observations
    flags = (jnp.broadcast_to(jnp.asarray(x, bool), (t, n)) for x in (terminated, truncated))
    return Rollout(obs, obs, reward, obs, *flags, obs[0])


@jax.jit
def criterion_targets(
    config: Config, state: CriterionState, rollout: Rollout, values: Values
) -> tuple[Targets, CriterionState]:
    state = criterion_of(config).learn(config, state, rollout, values)
    return criterion_of(config).targets(config, state, rollout, values), state


def fresh(config: Config) -> CriterionState:
    return init_criterion(config)


def zeros_like_values(reward: jax.Array) -> Values:
    return Values(*(jnp.zeros_like(reward) for _ in range(3)))


# --- the small functions ---------------------------------------------------------------------


def test_td_errors_of_the_average_criterion() -> None:
    deltas = td_errors(
        rewards=rows([1, 3], [2, -1]),
        values=rows([0.5, 2], [1, 0]),
        successor_values=rows([2, 1], [0, -3]),
        gain=0.5,
    )
    # 1 - .5 + 2 - .5 = 2      3 - .5 + 1 - 2 = 1.5
    # 2 - .5 + 0 - 1 = .5     -1 - .5 - 3 - 0 = -4.5
    assert columns(deltas) == [[2, 1.5], [0.5, -4.5]]


def test_td_errors_of_the_discounted_criterion() -> None:
    deltas = td_errors(
        rewards=rows([1, 3], [2, -1]),
        values=rows([0.5, 2], [1, 0]),
        successor_values=rows([2, 1], [0, -3]),
        gain=0.0,
        discount=0.5,
    )
    # 1 + 1 - .5 = 1.5     3 + .5 - 2 = 1.5
    # 2 + 0 - 1 = 1       -1 - 1.5 - 0 = -2.5
    assert columns(deltas) == [[1.5, 1.5], [1, -2.5]]


def test_lambda_advantages_stop_at_an_end_and_at_the_last_row() -> None:
    advantages = lambda_advantages(
        rows([1, 2, 3, 4], [1, -2, 4, 8]), ends([0, 0, 1, 0], [0, 0, 0, 0]), 0.5
    )
    # ended after the third row: 4 | 3 | 2 + 3/2 = 3.5 | 1 + 3.5/2 = 2.75
    # never ended:               8 | 4 + 8/2 = 8 | -2 + 8/2 = 2 | 1 + 2/2 = 2
    assert columns(advantages) == [[2.75, 3.5, 3, 4], [2, 2, 8, 8]]


def test_value_targets_are_lowered_by_the_constrained_offset() -> None:
    targets = value_targets(rows([2.75, -1]), rows([1, 0.5]), offset=4.0, value_constraint=0.25)
    assert columns(targets) == [[2.75, -1.5]]  # 2.75 + 1 - 1 and -1 + .5 - 1


def test_moving_average() -> None:
    assert float(moving_average(jnp.asarray(2.0), jnp.asarray(6.0), 0.25)) == 3.0
    assert float(moving_average(jnp.asarray(2.0), jnp.asarray(6.0), 0.0)) == 2.0
    assert float(moving_average(jnp.asarray(2.0), jnp.asarray(6.0), 1.0)) == 6.0


# --- whole criteria on one literal rollout ---------------------------------------------------
# Three environments take the same rewards through the same values. After the second row the first
# terminates, the second reaches a time limit and the third continues; all end mid-episode.
# 99 marks entries that must not be read.

REWARD = rows([2, 0, 4], [2, 0, 4], [2, 0, 4])
TERMINATED = ends([0, 1, 0], [0, 0, 0], [0, 0, 0])
TRUNCATED = ends([0, 0, 0], [0, 1, 0], [0, 0, 0])
VALUES = Values(
    here=rows([1, 2, 3], [1, 2, 3], [1, 2, 3]),
    successor=rows([2, 99, 5], [2, 6, 5], [2, 3, 5]),
    after_reset=rows([99, 3, 99], [99, 99, 99], [99, 99, 99]),
)
ZERO_VALUES = VALUES._replace(after_reset=jnp.full((3, 3), 99.0))
ROLLOUT = facts(REWARD, TERMINATED, TRUNCATED)


@pytest.mark.shipped
def test_what_is_shipped_is_compiled_as_shipped() -> None:
    """Only where the variable says so: see conftest.py."""
    is_quick = os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] == "1"
    assert jax.config.read("jax_disable_most_optimizations") is is_quick
    assert (1 if is_quick else 16) == advantages.UNROLL


@pytest.mark.shipped
def test_average_criterion_with_value_zero_after_terminations() -> None:
    config = paper_config("apo", gae_lambda=0.5, value_constraint=0.25)
    targets, state = criterion_targets(config, fresh(config), ROLLOUT, ZERO_VALUES)
    # gain = mean of 2, 0, 4 = 2, offset = mean of 1, 2, 3 = 2.
    # First row, everywhere:  2 - 2 + 2 - 1 = 1.   Last row: 4 - 2 + 5 - 3 = 4.
    # Second row, 0 - 2 + V' - 2: terminated (V' = 0) -4; time limit (6) 2; continuing (3) -1.
    # terminated: 4 | -4            | 1 - 4/2 = -1
    # time limit: 4 |  2            | 1 + 2/2 = 2
    # continuing: 4 | -1 + 4/2 = 1  | 1 + 1/2 = 1.5
    assert columns(targets.advantage) == [[-1, -4, 4], [2, 2, 4], [1.5, 1, 4]]
    # plus 1, 2, 3, minus 2/4
    assert columns(targets.value_target) == [[-0.5, -2.5, 6.5], [2.5, 3.5, 6.5], [2, 2.5, 6.5]]
    assert (float(state.gain), float(state.offset), bool(state.started)) == (2, 2, True)
    assert float(state.reset_cost) == 0


@pytest.mark.shipped
def test_average_criterion_that_continues_through_resets() -> None:
    config = paper_config(
        "apo", gae_lambda=0.5, value_constraint=0.25, termination="reset", reset_cost=9
    )
    targets, state = criterion_targets(config, fresh(config), ROLLOUT, VALUES)
    # gain = (3 * (2 + 0 + 4) - 9) / 9 = 1, offset = 2.
    # First row: 2 - 1 + 2 - 1 = 2.   Last row: 4 - 1 + 5 - 3 = 5.
    # Second row: terminated 0 - 9 - 1 + 3 - 2 = -9, with the 3 of the state after the reset;
    # time limit 0 - 1 + 6 - 2 = 3; continuing 0 - 1 + 3 - 2 = 0.
    # terminated: 5 | -9 + 5/2 = -6.5, through the reset | 2 - 6.5/2 = -1.25
    # time limit: 5 |  3                                 | 2 + 3/2 = 3.5
    # continuing: 5 |  0 + 5/2 = 2.5                     | 2 + 2.5/2 = 3.25
    assert columns(targets.advantage) == [[-1.25, -6.5, 5], [3.5, 3, 5], [3.25, 2.5, 5]]
    # plus 1, 2, 3, minus 2/4
    assert columns(targets.value_target) == [[-0.75, -5, 7.5], [4, 4.5, 7.5], [3.75, 4, 7.5]]
    assert (float(state.gain), float(state.offset), float(state.reset_cost)) == (1, 2, 9)


@pytest.mark.shipped
def test_discounted_criterion() -> None:
    config = paper_config("ppo", gae_lambda=0.5, discount=0.5)
    targets, state = criterion_targets(config, fresh(config), ROLLOUT, ZERO_VALUES)
    # First row: 2 + 2/2 - 1 = 2.   Last row: 4 + 5/2 - 3 = 3.5.
    # Second row: terminated 0 + 0 - 2 = -2; time limit 0 + 6/2 - 2 = 1; 0 + 3/2 - 2 = -.5.
    # Later advantages weigh 1/4.
    # terminated: 3.5 | -2                  | 2 - 2/4 = 1.5
    # time limit: 3.5 |  1                  | 2 + 1/4 = 2.25
    # continuing: 3.5 | -.5 + 3.5/4 = .375  | 2 + .375/4 = 2.09375
    assert columns(targets.advantage) == [[1.5, -2, 3.5], [2.25, 1, 3.5], [2.09375, 0.375, 3.5]]
    assert columns(targets.value_target) == [[2.5, 0, 6.5], [3.25, 3, 6.5], [3.09375, 2.375, 6.5]]
    assert (float(state.gain), float(state.offset)) == (0, 0)


@pytest.mark.parametrize("algorithm", ["apo", "apo-authors"])
def test_a_shift_of_the_values_changes_advantages_before_a_time_limit(algorithm: str) -> None:
    config = paper_config(algorithm, gae_lambda=0.5, value_constraint=0.25)
    rollout = facts(REWARD[:, 1:], truncated=TRUNCATED[:, 1:])  # no termination
    values = Values(*(v[:, 1:] for v in VALUES))
    moved = Values(*(v + 8 for v in values))
    before, after = (
        criterion_targets(config, fresh(config), rollout, v)[0].advantage for v in (values, moved)
    )
    leak = [[-4, -8, 0], [0, 0, 0]] if algorithm == "apo-authors" else [[0, 0, 0], [0, 0, 0]]
    assert columns(after - before) == leak  # -V(s_T), and half of it one step earlier


def test_a_termination_in_the_last_row_resumes_at_the_reset_state() -> None:
    reward = rows([1, 3])
    rollout = facts(reward, terminated=ends([0, 1]))
    values = Values(here=rows([1, 2]), successor=rows([2, 99]), after_reset=rows([99, 6]))
    config = paper_config("apo", gae_lambda=0.5, termination="reset", reset_cost=2)
    targets, _ = criterion_targets(config, fresh(config), rollout, values)
    # gain = (1 + 3 - 2) / 2 = 1. Last: 3 - 2 - 1 + 6 - 2 = 4. First: 1 - 1 + 2 - 1 = 1, + 4/2.
    assert columns(targets.advantage) == [[3, 4]]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        # gain 2; terminated row 1 - 2 + 0 - 1 = -2; the last row 3 - 2 + 5 - 2 = 4
        ({}, [-2, 4]),
        # the trace continues: 1 - 2 + 2 - 1 = 0, + 4/2
        ({"termination": "reset"}, [2, 4]),
    ],
)
def test_a_termination_takes_precedence_over_a_time_limit_in_the_same_step(
    options: dict[str, Any], expected: list[float]
) -> None:
    rollout = facts(rows([1, 3]), terminated=ends([1, 0]), truncated=ends([1, 0]))
    values = Values(here=rows([1, 2]), successor=rows([99, 5]), after_reset=rows([2, 99]))
    config = paper_config("apo", gae_lambda=0.5, **options)
    targets, _ = criterion_targets(config, fresh(config), rollout, values)
    assert columns(targets.advantage) == [expected]


# --- what a criterion learns -----------------------------------------------------------------


@pytest.mark.shipped
def test_running_means_start_at_the_first_batch_and_move_by_the_step_size() -> None:
    config = paper_config("apo", gain_step_size=0.25)
    reward = rows([2, 0, 4])
    values = zeros_like_values(reward)._replace(here=rows([1, 2, 3]))
    _, first = criterion_targets(config, fresh(config), facts(reward), values)
    assert (float(first.gain), float(first.offset)) == (2, 2)  # the means, for any step size
    reward = rows([6, 5, 7])
    values = values._replace(here=rows([-2, -1, -3]))
    targets, second = criterion_targets(config, first, facts(reward), values)
    assert float(second.gain) == 3.0  # 3/4 * 2 + 1/4 * 6
    assert float(second.offset) == 1.0  # 3/4 * 2 - 1/4 * 2
    # The targets of this batch use the new gain: 7 - 3 + 0 - -3 = 7.
    assert float(targets.advantage[2, 0]) == 7.0


def test_an_adaptive_reset_cost_rises_without_any_reward() -> None:
    options = {"termination": "reset", "reset_cost_step_size": 0.5, "termination_target": 0.1}
    config = paper_config("apo", **options)
    reward = rows([0, 0, 0, 0])
    ended = facts(reward)._replace(terminated=jnp.asarray([[True], [True], [False], [True]]))
    _, state = criterion_targets(config, fresh(config), ended, zeros_like_values(reward))
    assert float(state.reset_cost) == 0.5  # .4 were allowed: 2.6 of two too many count as 1


@pytest.mark.parametrize(
    ("terminations", "target", "start", "expected"),
    [
        # 8 rewards of 2 in size, so a whole step is .5 * 2 = 1
        (5, 0.5, 3.0, 3.25),  # 4 were allowed: a quarter of them too many
        (3, 0.5, 3.0, 2.75),
        (0, 0.5, 3.0, 2.0),  # none: one whole step down
        (8, 0.25, 1.5, 2.5),  # far above the target: one whole step, no more
        (8, 0.25, 3.0, 3.1),  # they cost 3 a step, more than the 2 of a reward: a tenth of it
        (3, 0.5, 30.0, 29.75),  # it falls as ever
        (2, 0.125, 3.0, 3.5),  # 1 was allowed: one too many, which is half of two
        (1, 0.125, 3.0, 3.0),
        (0, 0.125, 3.0, 2.5),
        (0, 0.5, 0.5, 0.0),  # never below 0
    ],
)
def test_an_adaptive_reset_cost_moves_with_the_excess_of_terminations(
    terminations: int, target: float, start: float, expected: float
) -> None:
    config = paper_config(
        "apo",
        termination="reset",
        reset_cost=start,
        reset_cost_step_size=0.5,
        termination_target=target,
    )
    reward = rows([-2, 2] * 4)
    rollout = facts(reward, terminated=jnp.arange(8)[:, None] < terminations)
    _, state = criterion_targets(config, fresh(config), rollout, zeros_like_values(reward))
    assert float(state.reset_cost) == pytest.approx(expected, rel=1e-6)
    # The new cost is in the gain: the rewards' sum 0, less the cost of each termination, over 8.
    assert float(state.gain) == pytest.approx(-expected * terminations / 8, rel=1e-6)


@cache
def smallest_of_uniform_numbers(batches: int, steps: int, most: int) -> jax.Array:
    """The `most` smallest of `steps` uniform numbers, for each batch: [batches, most].

    Sums of exponential numbers over the sum of `steps` + 1 of them are uniform numbers in order.
    The number of those below p is binomial, at a small part of the time of `jax.random.binomial`.
    """
    rng = np.random.default_rng(0)
    sums = rng.exponential(size=(batches, most)).cumsum(axis=1)
    rest = rng.gamma(steps + 1 - most, size=(batches, 1))
    return jnp.asarray(sums / (sums[:, -1:] + rest), jnp.float32)


@jax.jit
def rates_of_batches(config: Config, state: CriterionState, smallest: jax.Array) -> jax.Array:
    """How often batches of 2000 steps end, rarer with the cost of a termination."""
    reward, most = jnp.ones((200, 10)), smallest.shape[1]

    def batch(state: CriterionState, smallest: jax.Array) -> tuple[CriterionState, jax.Array]:
        count = (smallest < 0.1 * jnp.exp(-state.reset_cost)).sum()
        ended = (jnp.arange(2000) < count).reshape(200, 10)
        # More than the `most` numbers might be below: such a batch makes the rate invalid.
        rate = jnp.where(count < most, count / 2000, jnp.nan)
        return adapt_reset_cost(config, state, facts(reward, ended)), rate

    return jax.lax.scan(batch, state, smallest)[1]


@pytest.mark.usefixtures("optimised")
@pytest.mark.parametrize("target", [1e-5, 1e-4, 4e-4, 1e-3, 1e-2])
def test_an_adaptive_reset_cost_holds_the_rate_at_any_target(target: float) -> None:
    """Batches of 2000 steps, as in the paper's setting.

    Over 20 000 of them there are 400 terminations or more: a tenth is two standard deviations.
    """
    config = paper_config(
        "apo", termination="reset", reset_cost_step_size=0.05, termination_target=target
    )
    start = fresh(config)._replace(reset_cost=jnp.asarray(-np.log(target / 0.1), jnp.float32))
    smallest = smallest_of_uniform_numbers(batches=20_000, steps=2000, most=64)
    rate = float(rates_of_batches(config, start, smallest).mean())
    assert rate == pytest.approx(target, rel=0.1)


def reset_costs(config: Config, falls: Any, batches: int) -> np.ndarray:
    """[batches] reset costs where `falls(batch, cost)` of 2000 steps terminate; rewards are 1."""
    reward = jnp.ones((200, 10))

    def batch(state: CriterionState, index: jax.Array) -> tuple[CriterionState, jax.Array]:
        ended = (jnp.arange(2000) < falls(index, state.reset_cost)).reshape(200, 10)
        state = adapt_reset_cost(config, state, facts(reward, ended))
        return state, state.reset_cost

    return np.asarray(jax.lax.scan(batch, fresh(config), jnp.arange(batches))[1])


def test_a_reset_cost_does_not_wind_up_while_nothing_lowers_the_rate() -> None:
    """As on Humanoid: for 500 batches a fall every 100 steps, whatever it costs; then none."""
    config = paper_config("apo", termination="reset", reset_cost_step_size=1)
    costs = reset_costs(config, lambda batch, _: jnp.where(batch < 500, 20, 0), batches=600)
    assert costs[99] == pytest.approx(100)  # what is earned between two falls
    assert costs[499] == pytest.approx(100 + 40, abs=1)  # 500 without a brake
    assert costs[599] == pytest.approx(costs[499] - 100)


def test_a_target_is_reached_though_that_takes_more_than_the_policy_earns() -> None:
    """A tenth of the steps at first, and e times fewer with every 50 rewards that a fall costs.

    Between costs of 13 and 127 the falls of a step cost more than its reward, up to 1.8 times.
    """
    config = paper_config(
        "apo", termination="reset", reset_cost_step_size=1, termination_target=0.001
    )
    costs = reset_costs(config, lambda _, cost: 200 * jnp.exp(-cost / 50), batches=2000)
    assert costs[-1] == pytest.approx(50 * np.log(100), rel=0.1)


# --- reward scaling --------------------------------------------------------------------------


def test_discounted_rewards_are_scaled_by_the_spread_of_their_decayed_sums() -> None:
    config = paper_config("ppo", discount=0.5, gae_lambda=1, scale_rewards=True, num_envs=1)
    reward = rows([1, 4.5])
    targets, state = criterion_targets(
        config, fresh(config), facts(reward), zeros_like_values(reward)
    )
    # Sums 1 and 4.5 + 1/2 = 5: mean 3, standard deviation 2. Rewards become .5 and 2.25,
    # advantages 2.25 and .5 + 2.25/2 = 1.625.
    np.testing.assert_allclose(targets.advantage[:, 0], [1.625, 2.25], rtol=1e-6)

    # A second batch continues: sums .5 + 5/2 = 3, 1.5 + 3/2 = 3: of 1, 5, 3, 3 the variance is 2.
    reward = rows([0.5, 1.5])
    targets, state = criterion_targets(config, state, facts(reward), zeros_like_values(reward))
    assert float(state.reward_sums.mean) == 3.0
    assert float(state.reward_sums.variance) == 2.0
    assert float(state.reward_sums.size) == 4.0
    assert state.reward_sum.tolist() == [3.0]
    # 1.5 / sqrt 2 = 1.0606602, and .5 / sqrt 2 + 1.0606602 / 2 = .8838835
    np.testing.assert_allclose(targets.advantage[:, 0], [0.8838835, 1.0606602], rtol=1e-6)


@pytest.mark.shipped
def test_decayed_sums_restart_after_an_end() -> None:
    config = paper_config("ppo", discount=0.5, gae_lambda=1, scale_rewards=True, num_envs=1)
    reward = rows([1, 5])
    rollout = facts(reward, truncated=ends([1, 0]))
    targets, _ = criterion_targets(config, fresh(config), rollout, zeros_like_values(reward))
    np.testing.assert_allclose(targets.advantage[:, 0], [0.5, 2.5], rtol=1e-6)  # sums 1, 5 again
    rollout = facts(reward, truncated=ends([0, 1]))
    _, state = criterion_targets(config, fresh(config), rollout, zeros_like_values(reward))
    assert state.reward_sum.tolist() == [0.0]  # the next rollout begins with a new episode


@pytest.mark.parametrize("algorithm", ["apo", "ppo"])
def test_the_scale_of_rewards_does_not_depend_on_the_length_of_rollouts(algorithm: str) -> None:
    rng = np.random.default_rng(0)
    reward = jnp.asarray(rng.normal(1, 1, (240, 2)), jnp.float32)
    ended = jnp.asarray(rng.random((240, 2)) < 0.01)
    frozen = {"gain_step_size": 0} if algorithm == "apo" else {}
    found = []
    for length in (240, 12):
        config = paper_config(algorithm, scale_rewards=True, num_envs=2, **frozen)
        state = fresh(config)._replace(started=jnp.ones((), bool))
        for begin in range(0, 240, length):
            part = slice(begin, begin + length)
            rollout = facts(reward[part], truncated=ended[part])
            _, state = criterion_targets(config, state, rollout, zeros_like_values(reward[part]))
        found.append([float(x) for x in state.reward_sums])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-4)


def test_average_rewards_are_scaled_net_of_the_gain() -> None:
    config = paper_config("apo", gae_lambda=0.5, scale_rewards=True, num_envs=1)
    reward = rows([1, 5])
    targets, state = criterion_targets(
        config, fresh(config), facts(reward), zeros_like_values(reward)
    )
    # gain 3, net rewards -2 and 2, sums -2 and 2 - 2/2 = 1: mean -.5, standard deviation 1.5.
    # TD errors -4/3 and 4/3; the first advantage is -4/3 + (4/3)/2 = -2/3.
    np.testing.assert_allclose(targets.advantage[:, 0], [-2 / 3, 4 / 3], rtol=1e-6)
    assert float(state.gain) == 3.0  # the gain itself stays in the environment's own units


# --- relations that hold for all numbers -----------------------------------------------------

T, N = 4, 2  # 8 samples, so that even a mean of dyadic numbers is exact
dyadic = st.integers(-64, 64).map(lambda n: n / 8)
tables = arrays(np.float32, (T, N), elements=dyadic)
flags = arrays(np.bool_, (T, N))
ordinary = st.floats(-100, 100, width=32, allow_subnormal=False)  # XLA may flush those to 0
floats = arrays(np.float32, (T, N), elements=ordinary)
jitted_advantages = jax.jit(lambda_advantages)


@examples
@given(tables, tables, tables, flags, dyadic)
def test_shifting_all_values_changes_no_advantage_when_only_time_limits_end_episodes(
    reward: Any, here: Any, successor: Any, truncated: Any, shift: float
) -> None:
    config = paper_config("apo", gae_lambda=0.5, value_constraint=0.25)
    rollout = facts(reward, truncated=truncated)
    values = Values(here, successor, np.roll(here, -1, axis=0))
    moved = Values(*(v + np.float32(shift) for v in values))
    targets, _ = criterion_targets(config, fresh(config), rollout, values)
    after, _ = criterion_targets(config, fresh(config), rollout, moved)
    assert np.array_equal(targets.advantage, after.advantage)
    # The targets follow the shift, except for the quarter that the constraint removes.
    assert np.array_equal(targets.value_target + np.float32(0.75 * shift), after.value_target)


@examples
@given(floats, floats, floats, flags, flags, st.floats(0, 1, width=32))
def test_apo_with_the_gain_frozen_at_0_is_ppo_to_the_bit(
    reward: Any,
    here: Any,
    successor: Any,
    terminated: Any,
    truncated: Any,
    gae_lambda: float,
) -> None:
    options = {"gae_lambda": gae_lambda, "gain_step_size": 0, "value_constraint": 0}
    apo = paper_config("apo", **options)
    ppo = paper_config("ppo", gae_lambda=gae_lambda, discount=1)
    rollout = facts(reward, terminated, truncated)
    values = Values(here, successor, np.roll(here, -1, axis=0))
    frozen = fresh(apo)._replace(started=jnp.ones((), bool))
    average, state = criterion_targets(apo, frozen, rollout, values)
    discounted, _ = criterion_targets(ppo, fresh(ppo), rollout, values)
    assert np.array_equal(average.advantage, discounted.advantage)
    assert np.array_equal(average.value_target, discounted.value_target)
    assert (float(state.gain), float(state.offset)) == (0, 0)


@examples
@given(floats, flags)
def test_lambda_0_gives_the_deltas(deltas: Any, ended: Any) -> None:
    assert np.array_equal(jitted_advantages(deltas, ended, 0.0), deltas)


@examples
@given(tables, flags)
def test_lambda_1_gives_the_sum_to_the_end(deltas: Any, ended: Any) -> None:
    advantages = np.asarray(jitted_advantages(deltas, ended, 1.0))
    for n in range(N):
        for t in range(T):
            last = next((k for k in range(t, T) if ended[k, n]), T - 1)
            assert advantages[t, n] == deltas[t : last + 1, n].sum()
