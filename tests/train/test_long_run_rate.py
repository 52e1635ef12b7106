"""The long-run rate from streams that start at resets, against rates that are known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import signal, stats

from longrun.learning.train.evaluation import Streams, measured
from longrun.learning.train.long_run_rate import ages_of, long_run_rate


def test_ages_are_steps_since_the_last_reset() -> None:
    ended = np.array([[0, 1], [1, 0], [0, 0], [0, 1]], bool)
    ages = ages_of(ended)
    assert ages.age.tolist() == [[0, 0], [1, 0], [0, 1], [1, 2]]
    assert ages.ends == 3 and ages.cut


def test_the_rate_of_finished_episodes_is_reward_by_length_whatever_ages_are_told_apart() -> None:
    """Episodes of 2, 1 and 3 steps with rewards 1 + 2, 6 and 0 + 0 + 3: 12 / 6."""
    reward = np.array([1.0, 2, 6, 0, 0, 3])[:, None]
    ages = ages_of(np.array([0, 1, 1, 0, 0, 1], bool)[:, None])
    for settled in range(3):
        assert long_run_rate(reward, ages, settled).value == pytest.approx(2.0)


def test_an_episode_that_was_cut_off_counts_as_long_as_it_was_seen() -> None:
    """Two streams of 3 steps: one ends at age 1, the other is cut; so is the second episode.

    Steps at ages 0, 1, 2 or more: 3, 2, 1, of which 0, 1, 0 ended. With ages of 1 and more alike an
    episode lasts 1 + 3 / 1 steps; rewards are 0 at age 0 and 1 later: 3 / 4.
    """
    ended = np.array([[0, 0], [1, 0], [0, 0]], bool)
    ages = ages_of(ended)
    found = long_run_rate((ages.age > 0) * 1.0, ages, 1)
    assert found.value == pytest.approx(0.75)
    assert found.restart == pytest.approx(-0.75)  # 0 - gain at age 0, then it is old


def test_without_ends_it_is_the_mean_after_the_warm_up() -> None:
    reward = np.arange(12.0).reshape(6, 2)
    assert long_run_rate(reward, ages_of(np.zeros((6, 2), bool)), 4).value == reward[4:].mean()


class Process:
    """It pays 1 a step from `delay` steps after a reset; episodes end by chance or by law."""

    def __init__(self, chance: float, delay: int = 500, lengths: tuple[int, ...] = ()) -> None:
        self.chance, self.delay, self.lengths = chance, delay, lengths
        self.rng = np.random.default_rng(0)

    def __call__(self, envs: int, steps: int) -> Streams:
        ended = self.rng.random((steps, envs)) < self.chance
        if self.lengths:
            ends = self.rng.choice(self.lengths, (envs, steps)).cumsum(1)
            for env, at in enumerate(ends):
                ended[at[at <= steps] - 1, env] = True
        return Streams((ages_of(ended).age >= self.delay) * 1.0, ended)


@pytest.mark.parametrize("chance", [1e-4, 2e-4, 1e-3, 0.0])
def test_the_interval_covers_where_episodes_end_rarely(chance: float) -> None:
    """The long-run rate is (1 - chance)^500; more in benchmarks/evaluation_coverage.py."""
    process, rate = Process(chance), (1 - chance) ** 500
    found = [measured(process, (10, 1000)) for _ in range(60)]
    covered = [not f.settled or f.low - 1e-9 <= rate <= f.high + 1e-9 for f in found]
    assert np.mean(covered) >= 0.85  # of 95 %, or 90 % at the least; 60 repetitions
    assert chance > 0 or all(f.settled and f.average_reward == 1 for f in found)
    assert np.mean([f.average_reward for f in found]) == pytest.approx(rate, abs=0.05)
    assert chance != 1e-4 or np.mean([f.settled for f in found]) < 0.6  # one end in ten streams


def test_no_episode_is_missing_because_it_is_long() -> None:
    """A fifth of the episodes take 100 steps, the others 1600: 1300 on average."""
    process = Process(0.0, 0, (100, 1600, 1600, 1600, 1600))
    found = [measured(process, (10, 1000)) for _ in range(100)]
    returns = [f.episode_return for f in found if f.episodes]
    assert len(returns) > 80
    assert np.mean(returns) == pytest.approx(1300, abs=60)


def test_an_episode_return_that_would_lack_long_episodes_is_missing() -> None:
    ended = np.zeros((1000, 10), bool)
    ended[99::100, 0] = True
    found = measured(lambda envs, steps: Streams(np.ones((1000, 10)), ended), (10, 1000))
    assert found.episodes == 0 and found.unfinished == 9 and math.isnan(found.episode_return)
    assert "no episode return, since first episodes did not end (9)" in str(found)


def test_few_ends_of_episodes_widen_the_interval() -> None:
    """One end in 4000 steps may as well have been five: Poisson's interval is [0.025, 5.6]."""
    ended = np.zeros((1000, 4), bool)
    ended[700, 0] = True
    ages = ages_of(ended)
    found = long_run_rate((ages.age >= 100) * 1.0, ages, 200)
    assert found.restart == pytest.approx(-100, rel=0.1)
    assert found.value - found.low > 93 * 4.5 / 4000 > found.high - found.value


# --- the interval ----------------------------------------------------------------------------


def interval(reward: np.ndarray) -> tuple[float, float]:
    """Where no episode ends and nothing is left out."""
    found = long_run_rate(reward, ages_of(np.zeros(reward.shape, bool)), 0)
    return found.low, found.high


def test_interval_of_20_batches_of_one_reward() -> None:
    reward = np.tile([0.0, 1.0], 10)[:, None]
    # Standard deviation sqrt(20 / 4 / 19) = .5129892, standard error .1147079; Student's 97.5 %
    # quantile with 19 degrees of freedom is 2.0930241: .5 -+ .2400863.
    assert interval(reward) == pytest.approx((0.2599137, 0.7400863), abs=2e-7)


def test_batches_are_consecutive_rewards() -> None:
    reward = np.tile([0.0, 1.0], 20)[:, None]  # 20 batches (0, 1): all the same
    assert interval(reward) == pytest.approx((0.5, 0.5))


def test_all_rewards_are_in_a_batch() -> None:
    reward = np.append(np.tile([0.0, 1.0], 20), 21.0)[:, None]  # 41 in 20 batches
    low, high = interval(reward)
    assert low + high == pytest.approx(2.0) and low < 0  # (20 + 21) / 41, and the last is far off


def test_with_many_environments_each_is_a_batch() -> None:
    reward = np.zeros((6, 20))
    reward[::2, ::2] = 2.0  # half of the environments have mean 1, half 0: the 20 numbers above
    assert interval(reward) == pytest.approx((0.2599137, 0.7400863), abs=2e-7)


def test_every_environment_is_cut_into_the_same_number_of_batches() -> None:
    # 3 environments: ceil(20 / 3) = 7 batches of 2 rewards each. Means 0 and 1 in each of them,
    # four and three times: standard deviation sqrt(21 * 12/21 * 9/21 / 20) = .5070926, standard
    # error .1106567, quantile with 20 degrees of freedom 2.0859634: -+ .2308257 about 3/7.
    reward = np.repeat([0.0, 1, 0, 1, 0, 1, 0], 2)[:, None] * np.ones(3)
    low, high = interval(reward)
    assert (low, high) == pytest.approx((0.1977457, 0.6593971), abs=2e-7)


def test_one_reward_gives_an_infinite_interval() -> None:
    assert interval(np.ones((1, 1))) == (-math.inf, math.inf)
    low, high = interval(np.array([[0.0, 1.0]]))  # two give a wide interval
    assert -7 < low < -5  # 12.706 * .7071 / 1.4142 = 6.353 below .5
    assert 6 < high < 8


def covered(reward: np.ndarray, mean: float) -> float:
    """The fraction of the experiments [K, S, E] whose interval contains the mean."""
    intervals = np.array([interval(one) for one in reward])
    return float(np.mean((intervals[:, 0] <= mean) & (mean <= intervals[:, 1])))


def test_the_interval_contains_the_mean_of_independent_rewards_95_times_in_100() -> None:
    reward = np.random.default_rng(0).normal(3.0, 2.0, (2000, 40, 5))
    # The standard error of this percentage is .5.
    assert 0.935 <= covered(reward, 3.0) <= 0.965


def test_the_interval_contains_the_mean_of_dependent_rewards_where_a_naive_one_fails() -> None:
    # x_t = .8 x_{t-1} + noise: the standard error of a mean is 3 times that of independent rewards.
    noise = np.random.default_rng(1).normal(size=(1000, 600, 10))
    reward = signal.lfilter([1.0], [1.0, -0.8], noise, axis=1)[:, 100:]
    assert 0.92 <= covered(reward, 0.0) <= 0.97
    flat = reward.reshape(1000, -1)
    naive = stats.norm.ppf(0.975) * flat.std(1) / np.sqrt(flat.shape[1])
    assert np.mean(np.abs(flat.mean(1)) <= naive) < 0.6
