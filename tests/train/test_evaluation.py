"""The evaluation report on streams whose numbers can be worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import signal, stats

from longrun.train.evaluation import Streams, batch_means_interval, finished_episodes, report

NEVER = np.zeros((4, 2), bool)


def test_report_of_two_environments() -> None:
    reward = np.array([[1.0, 2], [3, 4], [5, 6], [7, 8]])
    ended = NEVER.copy()
    ended[1, 0] = ended[3, 1] = True
    found = report(Streams(reward, ended))
    assert found.average_reward == 4.5  # all 8 rewards, finished episodes or not
    # 1 + 3 in 2 steps, 2 + 4 + 6 + 8 in 4; the first environment's second episode is unfinished
    assert (found.episode_return, found.episode_length, found.episodes) == (12, 3, 2)
    assert found.steps == 8
    assert found.episode_average_reward == 4.0
    assert found.low < 4.5 < found.high
    assert str(found).endswith("episode return 12 over the first 2 episodes, of 3 steps")


def test_a_stream_that_never_ends_has_no_episode() -> None:
    found = report(Streams(np.ones((4, 2)), NEVER))
    assert (found.average_reward, found.low, found.high) == (1.0, 1.0, 1.0)
    assert found.episodes == 0
    assert math.isnan(found.episode_return)
    assert math.isnan(found.episode_length)
    assert math.isnan(found.episode_average_reward)
    assert str(found) == "average reward 1 per step [1, 1] over 8 steps, no episode ended"


# --- finished episodes -----------------------------------------------------------------------


def test_episodes_of_one_environment_follow_each_other() -> None:
    reward = np.array([[1.0], [2], [4], [8], [16], [32]])
    ended = np.array([[0], [1], [1], [0], [1], [0]], bool)
    assert finished_episodes(reward, ended) == ([3, 4, 24], [2, 1, 2])  # 32 is unfinished


def test_ten_episodes_are_taken_fairly_from_all_environments() -> None:
    reward, ended = np.ones((20, 3)), np.zeros((20, 3), bool)
    ended[:, 0] = True  # twenty episodes of one step
    ended[9::10, 1] = True  # two of ten steps
    returns, lengths = finished_episodes(reward, ended)  # the third ends none
    # both firsts, both seconds, then the first environment's third to eighth
    assert lengths == [1, 10, 1, 10, 1, 1, 1, 1, 1, 1]
    assert returns == lengths


def test_the_order_of_equal_turns_is_the_environments_order() -> None:
    reward = np.array([[5.0, 1.0, 3.0]])
    assert finished_episodes(reward, np.ones((1, 3), bool))[0] == [5.0, 1.0, 3.0]


# --- the interval ----------------------------------------------------------------------------


def test_interval_of_20_batches_of_one_reward() -> None:
    reward = np.tile([0.0, 1.0], 10)[:, None]
    # Standard deviation sqrt(20 / 4 / 19) = .5129892, standard error .1147079; Student's 97.5 %
    # quantile with 19 degrees of freedom is 2.0930241: .5 -+ .2400863.
    assert batch_means_interval(reward) == pytest.approx((0.2599137, 0.7400863), abs=2e-7)
    # 90 %: the quantile is 1.7291328, so .5 -+ .1983452
    assert batch_means_interval(reward, 0.9) == pytest.approx((0.3016548, 0.6983452), abs=2e-7)


def test_batches_are_consecutive_rewards() -> None:
    reward = np.tile([0.0, 1.0], 20)[:, None]  # 20 batches (0, 1): all the same
    assert batch_means_interval(reward) == (0.5, 0.5)


def test_rewards_left_over_by_the_batches_count_in_the_mean() -> None:
    reward = np.append(np.tile([0.0, 1.0], 20), 21.0)[:, None]  # 20 batches of 2, and one over
    assert batch_means_interval(reward) == (1.0, 1.0)  # (20 + 21) / 41


def test_with_many_environments_each_is_a_batch() -> None:
    reward = np.zeros((6, 20))
    reward[::2, ::2] = 2.0  # half of the environments have mean 1, half 0: the 20 numbers above
    assert batch_means_interval(reward) == pytest.approx((0.2599137, 0.7400863), abs=2e-7)


def test_every_environment_is_cut_into_the_same_number_of_batches() -> None:
    # 3 environments: ceil(20 / 3) = 7 batches of 2 rewards each. Means 0 and 1 in each of them,
    # four and three times: standard deviation sqrt(21 * 12/21 * 9/21 / 20) = .5070926, standard
    # error .1106567, quantile with 20 degrees of freedom 2.0859634: -+ .2308257 about 3/7.
    reward = np.repeat([0.0, 1, 0, 1, 0, 1, 0], 2)[:, None] * np.ones(3)
    low, high = batch_means_interval(reward)
    assert (low, high) == pytest.approx((0.1977457, 0.6593971), abs=2e-7)


def test_one_reward_gives_an_infinite_interval() -> None:
    assert batch_means_interval(np.ones((1, 1))) == (-math.inf, math.inf)
    low, high = batch_means_interval(np.array([[0.0, 1.0]]))  # two give a wide interval
    assert -7 < low < -5  # 12.706 * .7071 / 1.4142 = 6.353 below .5
    assert 6 < high < 8


def covered(reward: np.ndarray, mean: float) -> float:
    """The fraction of the experiments [K, S, E] whose interval contains the mean."""
    intervals = np.array([batch_means_interval(one) for one in reward])
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
