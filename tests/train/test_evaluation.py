"""The evaluation report on streams whose numbers can be worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from longrun.learning.train.evaluation import Streams, first_episodes, report

NEVER = np.zeros((4, 2), bool)


def test_report_of_two_environments() -> None:
    reward = np.array([[1.0, 2], [3, 4], [5, 6], [7, 8]])
    ended = NEVER.copy()
    ended[1, 0] = ended[3, 1] = True
    found = report(Streams(reward, ended))
    # Steps at ages 0, 1, 2, 3: 3, 3, 1, 1, of which 0, 1, 0, 1 ended, so that 2/3 of all episodes
    # get older than 2 steps. Mean rewards at these ages are 8/3, 14/3, 6 and 8.
    assert found.average_reward == pytest.approx((8 / 3 + 14 / 3 + 2 / 3 * (6 + 8)) / (2 + 4 / 3))
    # 1 + 3 in 2 steps, 2 + 4 + 6 + 8 in 4; the first environment's second episode is unfinished
    assert (found.episode_return, found.episode_length, found.episodes) == (12, 3, 2)
    assert found.steps == 8
    assert found.episode_average_reward == 4.0
    assert found.low < 5.0 < found.high
    assert str(found).endswith("episode return 12 +- 11.3 over the first 2 episodes, of 3 steps")


def test_a_stream_that_never_ends_has_no_episode() -> None:
    found = report(Streams(np.ones((4, 2)), NEVER))
    assert (found.average_reward, found.low, found.high) == (1.0, 1.0, 1.0)
    assert found.episodes == 0
    assert math.isnan(found.episode_return)
    assert math.isnan(found.episode_length)
    assert math.isnan(found.episode_average_reward)
    assert str(found) == "average reward 1 per step [1, 1] over 8 steps, no episode ended"


# --- first episodes --------------------------------------------------------------------------


def test_episodes_of_one_environment_follow_each_other() -> None:
    reward = np.array([[1.0], [2], [4], [8], [16], [32]])
    ended = np.array([[0], [1], [1], [0], [1], [0]], bool)
    assert first_episodes(reward, ended) == [(2, 3)]  # ten have not ended: the first alone
    both = np.tile(reward, (5, 1)), np.tile(ended, (5, 1))
    assert (
        first_episodes(*both)[:4] == [(2, 3), (1, 4), (2, 24), (3, 35)]
        and len(first_episodes(*both)) == 10
    )


def test_as_many_episodes_are_taken_of_each_environment() -> None:
    reward, ended = np.ones((20, 3)), np.zeros((20, 3), bool)
    ended[:, 0] = True  # twenty episodes of one step
    ended[4::5, 1:] = True  # four of five steps
    lengths = [length for length, _ in first_episodes(reward, ended)]
    assert lengths == [1, 5, 5] * 3 + [1]
    ended[:, 1] = False
    ended[9::10, 1] = True  # two of ten steps: not enough for ten in all
    assert [length for length, _ in first_episodes(reward, ended)] == [1, 10, 5]
    ended[:, 2] = False  # its only episode is long, and would be missing
    assert first_episodes(reward, ended) == []


def test_of_many_environments_the_first_ten_count() -> None:
    ended = np.zeros((5, 64), bool)
    ended[2, :63] = True
    found = report(Streams(np.ones((5, 64)), ended))
    assert (found.episodes, found.episode_length, found.unfinished) == (10, 3, 0)


def test_a_cost_that_has_not_settled_is_told() -> None:
    """The reward is settled at once, the cost begins after 500 steps."""
    rng = np.random.default_rng(0)
    cost = (np.arange(1000)[:, None, None] > 500) * np.ones((1000, 10, 1))
    never = np.zeros((1000, 10), bool)
    found = report(Streams(rng.normal(size=(1000, 10)), never, cost, ["wear"]))
    assert found.costs["wear"].rate > 0.99 or not found.settled


def test_there_are_ten_at_most() -> None:
    reward = np.array([[5.0, 1.0, 3.0]] * 20)
    found = first_episodes(reward, np.ones((20, 3), bool))
    assert [total for _, total in found] == [5, 1, 3] * 3 + [5]
