"""Trainings that go wrong without an error are named, once, with what to try."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from longrun import APO, EvaluationReport
from longrun.learning.envs.native import Step
from longrun.learning.envs.spaces import Spaces
from longrun.learning.options.config_options import make_config
from longrun.learning.runs.spec import RunSpec
from longrun.learning.train.failing_training import (
    Collapse,
    Contradiction,
    Drift,
    FailureWatch,
    Means,
    UnkeptLimits,
    is_worse,
    least_entropy,
    means_of,
)
from longrun.learning.train.progress import Progress
from one_state_env import OneState
from run_specs import progress_of, spec_of
from tiny_envs import ITERATION, TINY

DISCRETE = Spaces(3, 1, (4,))
QUIET = {
    "reward": -5.0,
    "reward_min": -20.0,
    "reward_max": 0.0,
    "observation_size": 2.0,
    "entropy": 1.0,
    "terminations": 0.0,
}


def run_of(iterations: int, begins: int = 0, replicas: int = 1, **options: Any) -> RunSpec:
    config = make_config("apo", **options)
    steps = {"begins": begins, "steps": begins + iterations}
    each = {name: count * config.steps_per_iteration for name, count in steps.items()}
    return spec_of([config] * replicas, range(7, 7 + replicas), **each)


def event(iteration: int, evaluation: Any = None, replica: int = 0, **changed: float) -> Any:
    return progress_of(iteration, QUIET | changed, evaluation, replica)


def evaluated(rate: float, reach: float = 1.0) -> EvaluationReport:
    return EvaluationReport(rate, rate - reach, rate + reach, math.nan, math.nan, 0, 1000)


def said(watch: Any, events: list[Progress]) -> list[str | None]:
    return [watch(each) for each in events]


# --- drift -------------------------------------------------------------------------------------


def test_rewards_drift_once_a_mean_is_ten_times_the_worst_of_the_first_batch() -> None:
    rewards = [-5.0, -19.0, -100.0, -199.0, -201.0]
    found = said(Drift(), [event(i, reward=r) for i, r in enumerate(rewards, 1)])
    assert found[:4] == [None] * 4
    assert found[4] is not None and "rewards drift: -201 per step" in found[4]
    assert "none in the first batch was below -20" in found[4] and "cap it" in found[4]


def test_high_rewards_are_no_drift() -> None:
    assert said(Drift(), [event(1), event(2, reward=1e6, reward_max=1e6)]) == [None, None]


def test_observations_drift_if_the_reward_falls_meanwhile() -> None:
    grown = event(2, observation_size=20.5, reward=-6.0)
    runs = event(2, observation_size=20.5, reward=-4.0)
    assert said(Drift(), [event(1), runs]) == [None, None]
    _, message = said(Drift(), [event(1), grown])
    assert message is not None
    assert "observations drift: their size is 20.5, after 2 in the first batch" in message


# --- collapse ----------------------------------------------------------------------------------


def collapsing(rewards: list[float], entropies: list[float], rows: int = 10) -> list[Progress]:
    """Parts of `rows` rows each, whose rewards are 1 above and below the mean."""
    return [
        event(rows * part + row + 1, reward=reward + (-1) ** row, entropy=entropy)
        for part, (reward, entropy) in enumerate(zip(rewards, entropies, strict=True))
        for row in range(rows)
    ]


TENTHS = [-9.0, -5.0, -5.0, -4.0, -4.0, -9.0, -9.0, -9.0, -9.0, -9.0]
FALLING = [1.3, 1.0, 0.5, 0.1, 0.1, 0.01, 0.001, 0.001, 0.001, 0.001]


def test_a_policy_without_entropy_that_earned_more_before_is_named() -> None:
    spec = run_of(100)
    found = said(Collapse(spec, DISCRETE), collapsing(TENTHS, FALLING))
    first = next(i for i, message in enumerate(found) if message)
    assert first == 70  # two parts in a row are over
    assert found[first] == (
        "the policy no longer explores (entropy 0.001) and earns -9 per step, after -4 earlier in"
        " this run. Try a higher entropy_coefficient, a lower learning_rate or larger batches"
    )


def test_neither_of_the_two_alone_is_a_collapse() -> None:
    good = [*TENTHS[:5], *[-4.1] * 5]
    for rewards, entropies in ((good, FALLING), (TENTHS, [1.0] * 10)):
        watch = Collapse(run_of(100), DISCRETE)
        assert not any(said(watch, collapsing(rewards, entropies)))


def test_a_run_of_a_few_rows_has_no_parts_to_compare() -> None:
    assert not any(said(Collapse(run_of(20), DISCRETE), collapsing(TENTHS, FALLING, 2)))


def test_parts_are_of_iterations_and_not_of_rows() -> None:
    """A device may report every tenth iteration; a resumed run begins later."""
    thinned = [
        replace(each, iteration=5000 + 10 * each.iteration) for each in collapsing(TENTHS, FALLING)
    ]
    found = said(Collapse(run_of(1000, begins=5000), DISCRETE), thinned)
    assert next(i for i, message in enumerate(found) if message) == 70


def test_a_mean_is_worse_for_certain_and_by_a_share() -> None:
    best = Means(reward=10.0, error=0.3, entropy=0.0)
    assert is_worse(Means(7.9, 0.4, 0.0), best)
    assert not is_worse(Means(8.1, 0.0, 0.0), best)  # less than a fifth
    assert not is_worse(Means(7.9, 0.9, 0.0), best)  # 3 * hypot(.9, .3) = 2.8
    assert not is_worse(Means(-90.0, math.inf, 0.0), best)


def test_means_by_hand() -> None:
    found = means_of([(1.0, 0.5), (3.0, 0.5), (1.0, 0.5), (3.0, 0.5), (2.0, 1.0)])
    assert found == Means(2.0, pytest.approx(math.sqrt(1 / 5)), pytest.approx(0.6))
    assert means_of([(1.0, 0.0)] * 4).error == math.inf


def test_the_least_entropy_of_both_kinds_of_action() -> None:
    assert least_entropy(Spaces(3, 2, (4, 2)), 0.3) == pytest.approx(0.01 * math.log(8))
    # A hundredth of the first standard deviation, in both of two components.
    assert least_entropy(Spaces(3, 2, (), (-1.0, -1.0), (1.0, 1.0)), 0.8) == pytest.approx(
        0.8 - 2 * math.log(100)
    )


# --- contradiction -----------------------------------------------------------------------------


def contradiction(rollout_steps: int = 10_000) -> Contradiction:
    spec = run_of(100, rollout_steps=rollout_steps)
    return Contradiction(spec, spec.configs[0])


def test_an_evaluation_beyond_the_range_of_rewards_contradicts_at_once() -> None:
    message = contradiction()(event(1, evaluated(-600_000.0)))
    assert message is not None
    assert "contradicts the training: -6e+05 per step [-6e+05, -6e+05], and -5 in" in message


def test_one_that_is_a_quarter_of_the_range_away_contradicts_twice() -> None:
    watch = contradiction()
    far, near = evaluated(-10.5), evaluated(-9.5)  # of a range of 20
    found = said(watch, [event(1, far), event(2), event(3, near), event(4, far), event(5, far)])
    assert [message is not None for message in found] == [False] * 4 + [True]


def test_one_whose_interval_has_the_mean_of_a_batch_does_not_contradict() -> None:
    wide, unknown = evaluated(-500.0, 496.0), evaluated(-500.0, math.inf)
    watch = contradiction()
    assert said(watch, [event(1, wide), event(2, wide), event(3, unknown)]) == [None] * 3
    batches = [event(4, reward=-499.0, reward_min=-1e3), event(5), event(6, evaluated(-499.5))]
    assert said(watch, batches) == [None] * 3


def test_nothing_is_said_before_training_has_been_as_far_from_the_start() -> None:
    """An evaluation of 10 000 steps is 1000 of each of ten environments."""
    found = said(contradiction(400), [event(i, evaluated(-6e5)) for i in (1, 2, 3)])
    assert [message is not None for message in found] == [False, False, True]


def test_a_better_evaluation_contradicts_nothing() -> None:
    better = {"reward": -4e4, "reward_min": -4e4, "reward_max": -4e4}
    assert contradiction()(event(1, evaluated(-30.0), **better)) is None


def test_equal_rewards_are_no_contradiction() -> None:
    ones = {"reward": 1.0, "reward_min": 1.0, "reward_max": 1.0}
    assert contradiction()(event(1, evaluated(1.0, 0.0), **ones)) is None
    assert contradiction()(event(1, evaluated(1.0 - 1e-6, 0.0), **ones)) is None


# --- limits ------------------------------------------------------------------------------------


def fuel(used: list[float], **more: float) -> list[Progress]:
    return [event(i, cost_fuel=x, **more) for i, x in enumerate(used, 1)]


def limited(iterations: int) -> UnkeptLimits:
    spec = run_of(iterations, limits={"fuel": 0.5})
    return UnkeptLimits(spec, spec.configs[0])


def test_a_limit_that_no_batch_has_kept_is_named_after_half_of_a_run() -> None:
    found = said(limited(400), fuel([0.9, 0.7, 0.8, 0.8] * 100))
    assert next(i for i, message in enumerate(found, 1) if message) == 200
    assert found[199] == (
        "no batch has kept the limit 0.5 of cost 'fuel': the least was 0.7. Raise the limit, or"
        " train for longer"
    )


@pytest.mark.parametrize("iterations, expected", [(19, []), (50, [50]), (120, [100])])
def test_short_runs_are_judged_later(iterations: int, expected: list[int]) -> None:
    found = said(limited(iterations), fuel([0.9] * iterations))
    assert [i for i, message in enumerate(found, 1) if message][:1] == expected


def test_one_batch_that_keeps_it_is_enough() -> None:
    assert not any(said(limited(400), fuel([0.9] * 50 + [0.5] + [0.9] * 349)))


def test_a_limit_is_out_of_reach_after_a_hundred_iterations_for_the_costs_alone() -> None:
    found = said(limited(400), fuel([0.9] * 400, recovering=1.0))
    assert next(i for i, message in enumerate(found, 1) if message) == 100
    assert found[99] == (
        "cost 'fuel' is 0.9 and its limit is 0.5, after 100 iterations that only lowered costs; no"
        " policy may keep it: raise the limit"
    )
    found = said(limited(60), fuel([0.9] * 60, recovering=1.0))
    assert [i for i, message in enumerate(found, 1) if message] == [60]


# --- in a run ----------------------------------------------------------------------------------


def test_each_kind_is_said_once_in_a_run_with_the_seed() -> None:
    watch = FailureWatch(run_of(100, replicas=2), DISCRETE)
    watch([event(1), event(1, replica=1)])
    with pytest.warns(UserWarning, match="rewards drift") as found:
        watch([event(2, replica=1, reward=-1e3), event(3, replica=0, reward=-1e3)])
        watch([event(3, replica=1, reward=-1e3)])
    [warning] = found
    assert str(warning.message).endswith("(seed 8, iteration 2)")


class Stock(gymnasium.Env[Any, Any]):
    """What is ordered is never sold, at a cost of 1 for each that is held."""

    observation_space = spaces.Box(0, np.inf, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.held = 0
        return self._seen(), {}

    def step(self, action: Any) -> Any:
        self.held += 1
        return self._seen(), -float(self.held), False, False, {}

    def _seen(self) -> Any:
        return np.array([self.held], np.float32)


@dataclass(frozen=True)
class StockInJax(OneState):
    def reset(self, key: jax.Array) -> tuple[Any, jax.Array]:
        return jnp.zeros(()), jnp.zeros(1)

    def step(self, key: jax.Array, state: Any, action: jax.Array) -> Step:
        return Step(state + 1, (state + 1)[None], -(state + 1), False)


@pytest.mark.parametrize("env", [Stock, StockInJax()], ids=["host", "device"])
def test_a_stock_without_a_cap_is_named_at_the_user_s_line(env: Any) -> None:
    agent = APO(env, num_workers=0, **TINY)
    with pytest.warns(UserWarning, match="drift") as found:
        agent.learn(20 * ITERATION)
    drifts = [each for each in found if "drift" in str(each.message)]
    assert len(drifts) == 1
    assert drifts[0].filename == __file__


def test_a_healthy_run_is_quiet() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        APO("CartPole-v1", num_workers=0, **TINY).learn(10 * ITERATION)
