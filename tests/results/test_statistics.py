"""Statistics over seeds: hand-worked numbers, relations, and rliable's own definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from rliable import metrics as rliable

from fake_runs import fake_setting
from longrun.results.read import Setting
from longrun.results.statistics import (
    FEWEST_SEEDS,
    ScoreEstimate,
    as_matrix,
    curve_estimates,
    estimates,
    improvement,
    interquartile_mean,
    mean,
    median,
    normalised,
    profile,
    scores_of,
)

quick = settings(max_examples=40, deadline=None)
numbers = st.floats(-1e6, 1e6).map(lambda x: round(x, 3))


def fresh() -> np.random.Generator:
    return np.random.default_rng(0)


def column(*scores: float) -> np.ndarray:
    return np.array(scores, float)[:, None]


def matrices(tasks: int | None = None) -> st.SearchStrategy[np.ndarray]:
    sizes = st.tuples(st.integers(1, 7), st.just(tasks) if tasks else st.integers(1, 4))
    return sizes.flatmap(lambda shape: arrays(float, shape, elements=numbers))


# Aggregates.


def test_the_interquartile_mean_leaves_out_a_quarter_at_either_end():
    assert interquartile_mean(column(*range(1, 9))) == 4.5
    assert interquartile_mean(column(-1000, 2, 3, 1000)) == 2.5
    assert interquartile_mean(column(1, 2, 6)) == 3.0, "three seeds have no quarter to leave out"


def test_it_pools_seeds_and_tasks():
    scores = np.array([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0], [4.0, 40.0]])
    assert interquartile_mean(scores) == (3 + 4 + 10 + 20) / 4
    assert mean(scores) == (2.5 + 25) / 2
    assert median(np.array([[1.0, 10.0, 100.0], [3.0, 10.0, 300.0]])) == 10.0


def test_the_median_of_one_task_is_over_its_seeds():
    assert median(column(1, 2, 9)) == 2.0


def test_a_task_may_have_fewer_seeds_than_another():
    scores = as_matrix([np.array([1.0, 2.0, 3.0]), np.array([10.0])])
    assert scores.shape == (3, 2)
    assert mean(scores) == (2 + 10) / 2
    assert interquartile_mean(scores) == (2 + 3) / 2


@quick
@given(matrices())
def test_aggregates_are_those_of_rliable(scores):
    close = {"rel": 1e-9, "abs": 1e-6}
    assert interquartile_mean(scores) == pytest.approx(rliable.aggregate_iqm(scores), **close)
    assert mean(scores) == pytest.approx(rliable.aggregate_mean(scores), **close)
    if scores.shape[1] > 1:
        assert median(scores) == pytest.approx(rliable.aggregate_median(scores), **close)


@quick
@given(matrices(), st.randoms())
def test_the_order_of_seeds_does_not_matter(scores, random):
    order = list(range(len(scores)))
    random.shuffle(order)
    for name, found in estimates(scores, fresh()).items():
        again = estimates(scores[order], fresh())[name]
        assert found == pytest.approx(again, rel=1e-9, abs=1e-6, nan_ok=True)


@quick
@given(matrices())
def test_an_interval_lies_within_the_scores(scores):
    for found in estimates(scores, fresh()).values():
        if len(scores) < FEWEST_SEEDS:
            assert np.isnan(found.low) and np.isnan(found.high), "few seeds have no interval"
        else:
            assert scores.min() - 1e-6 <= found.low <= found.high <= scores.max() + 1e-6


def test_the_same_scores_give_the_same_interval():
    scores = fresh().normal(size=(5, 3))
    assert estimates(scores, fresh()) == estimates(scores, fresh())


def test_an_interval_of_the_mean_is_about_that_of_normal_theory():
    scores = fresh().normal(size=(200, 1))
    found = estimates(scores, fresh())["mean"]
    reach = 1.96 * scores.std() / np.sqrt(200)
    assert found.high - found.value == pytest.approx(reach, rel=0.1)
    assert found.value - found.low == pytest.approx(reach, rel=0.1)


# Improvement.


def test_ties_count_half():
    # 1..4 against three zeros: always more; against 5: never. 12 of 16 pairs.
    assert improvement(column(1, 2, 3, 4), column(0, 0, 0, 5), fresh()).value == 12 / 16
    # 1 against 1: half; 1 against 2: none; 2 against 1: one; 2 against 2: half. 2 of 4 pairs.
    assert improvement(column(1, 2), column(1, 2), fresh()).value == 0.5
    assert improvement(column(0, 0, 5, 7), column(0, 3), fresh()).value == (2 * 0.5 + 2 + 2) / 8


def test_improvement_is_the_mean_over_tasks():
    better, worse = np.array([[1.0, 0.0]] * 5), np.array([[0.0, 0.5]] * 5)
    assert improvement(better, worse, fresh()) == ScoreEstimate(0.5, 0.5, 0.5)


def test_improvement_with_five_seeds_of_each_has_an_interval():
    for few in (column(0), column(0, 0, 0, 0)):
        found = improvement(column(1, 2, 3, 4, 5), few, fresh())
        assert found.value == 1.0
        assert np.isnan(found.low)
    found = improvement(column(1, 2, 3, 4, 5), column(0, 0, 0, 0, 0), fresh())
    assert found == ScoreEstimate(1.0, 1.0, 1.0)


@quick
@given(matrices(tasks=2), matrices(tasks=2))
def test_one_beats_the_other_or_the_other_way_round(a, b):
    there, back = improvement(a, b, fresh()), improvement(b, a, fresh())
    assert there.value + back.value == pytest.approx(1)
    assert there.value == pytest.approx(rliable.probability_of_improvement(a, b))
    if min(len(a), len(b)) >= FEWEST_SEEDS:
        assert -1e-9 <= there.low <= there.value + 1e-9
        assert there.value - 1e-9 <= there.high <= 1 + 1e-9


@quick
@given(matrices(tasks=1), matrices(tasks=1), st.randoms())
def test_the_order_of_seeds_does_not_matter_to_improvement(a, b, random):
    order = list(range(len(a)))
    random.shuffle(order)
    found, again = improvement(a, b, fresh()), improvement(a[order], b, fresh())
    assert found == pytest.approx(again, nan_ok=True)


# Profiles, curves, normalisation.


def test_a_profile_is_the_share_of_runs_above_each_threshold():
    scores = np.array([[1.0, 2.0], [3.0, np.nan]])
    share, low, high = profile(scores, np.array([0.0, 1.0, 2.5, 3.0]), fresh())
    assert share == pytest.approx([1, 2 / 3, 1 / 3, 0])
    assert (low <= share).all() and (share <= high).all()
    assert (low[0], high[-1]) == (1.0, 0.0)


def test_a_curve_has_its_interquartile_mean_at_each_step():
    values = np.array([[1.0, 2, 3, 100], [5, 5, 5, 5], [1, np.nan, 1, 1]])
    value, low, high = curve_estimates(values, fresh())
    assert value[:2].tolist() == [2.5, 5.0]
    assert (low[1], high[1]) == (5.0, 5.0)
    assert low[0] < 2.5 < high[0]
    assert np.isnan([value[2], low[2], high[2]]).all()


def test_scores_are_scaled_between_the_worst_and_the_best_seed_of_a_task():
    found = normalised({"a": np.array([[0.0, 7.0], [5.0, 7.0]]), "b": np.array([[10.0, 7.0]])})
    assert found["a"].tolist() == [[0.0, 0.5], [0.5, 0.5]]
    assert found["b"].tolist() == [[1.0, 0.5]]


@quick
@given(matrices(tasks=2), matrices(tasks=2), st.floats(0.1, 10), st.floats(-5, 5))
def test_scaling_does_not_depend_on_the_unit_of_reward(a, b, factor, shift):
    scores = normalised({"a": a, "b": b})
    if any(0 < np.ptp(np.concatenate([a, b])[:, t]) < 1e-2 for t in range(2)):
        return  # rounding would decide
    other = normalised({"a": factor * a + shift, "b": factor * b + shift})
    assert scores["a"] == pytest.approx(other["a"], abs=1e-3)
    assert np.concatenate(list(scores.values())).min() >= 0
    assert np.concatenate(list(scores.values())).max() <= 1


# Scores of seeds.


def setting(steps: list[int], *curves: list[float]) -> Setting:
    return fake_setting("APO", steps, {"m": np.array(curves).T}, env="E")


def test_a_final_score_is_the_mean_over_the_last_tenth_of_training():
    steps = list(range(50, 1001, 50))
    scores, step = scores_of(setting(steps, [float(s) for s in steps], [1.0] * 20), "m")
    assert scores.tolist() == [(950 + 1000) / 2, 1.0]
    assert step == 1000
    few, _ = scores_of(setting([100, 200], [1.0, 2.0], [3.0, 4.0]), "m")
    assert few.tolist() == [2.0, 4.0], "at least one evaluation"


def test_a_score_at_a_step_is_the_last_evaluation_not_later():
    found = setting([100, 200, 300], [1.0, 9.0, 3.0], [4.0, 5.0, 6.0])
    assert scores_of(found, "m", at=299)[0].tolist() == [9.0, 5.0]
    assert scores_of(found, "m", at=300)[1] == 300
    assert scores_of(found, "m", best=True)[0].tolist() == [9.0, 6.0]
    assert scores_of(found, "m", at=150, best=True)[0].tolist() == [1.0, 4.0]
    with pytest.raises(ValueError, match=r"at=99: E APO was first evaluated at 100 steps"):
        scores_of(found, "m", at=99)


def test_evaluations_without_an_ended_episode_do_not_count():
    nan = float("nan")
    found = setting([96, 98, 100], [1.0, nan, 3.0], [nan, nan, nan])
    for best, value in ((False, 2.0), (True, 3.0)):
        scores, _ = scores_of(found, "m", best=best)
        assert scores[0] == value
        assert np.isnan(scores[1])


# The bootstrap against rliable's own, which draws other samples: equal up to their noise.


@pytest.fixture(scope="module")
def drawn() -> np.ndarray:
    return np.random.default_rng(3).normal(size=(8, 3)) * [1.0, 5.0, 0.2] + [0.0, 2.0, 1.0]


@pytest.fixture(scope="module")
def library():
    """It brings pandas and statsmodels along, a second that other processes can do without."""
    from rliable import library

    return library


def test_intervals_are_those_of_rliable(drawn, library):
    functions = {"iqm": rliable.aggregate_iqm, "mean": rliable.aggregate_mean}
    np.random.seed(0)  # it draws from NumPy's global state
    _, theirs = library.get_interval_estimates(
        {"a": drawn}, lambda x: np.array([f(x) for f in functions.values()]), reps=2000
    )
    ours = estimates(drawn, fresh())
    for (low, high), name in zip(theirs["a"].T, functions, strict=True):
        noise = 0.08 * (high - low)
        assert ours[name].low == pytest.approx(low, abs=noise)
        assert ours[name].high == pytest.approx(high, abs=noise)


@pytest.mark.slow
def test_the_interval_of_an_improvement_is_that_of_rliable(drawn, library):
    other = np.random.default_rng(4).normal(size=(6, 3)) * [1.0, 5.0, 0.2] + [0.5, 1.0, 1.0]
    np.random.seed(0)
    _, theirs = library.get_interval_estimates(
        {"a,b": (drawn, other)}, rliable.probability_of_improvement, reps=500
    )
    low, high = theirs["a,b"][:, 0]
    ours = improvement(drawn, other, fresh())
    noise = 0.12 * (high - low)  # of 500 samples
    assert ours.low == pytest.approx(low, abs=noise)
    assert ours.high == pytest.approx(high, abs=noise)


def test_profiles_are_those_of_rliable(drawn, library):
    thresholds = np.linspace(-3, 6, 10)
    np.random.seed(0)
    theirs, bands = library.create_performance_profile({"a": drawn}, thresholds, reps=1000)
    share, low, high = profile(drawn, thresholds, fresh())
    assert share == pytest.approx(theirs["a"])
    step = 1 / drawn.size  # shares of 24 runs come in steps
    assert low == pytest.approx(bands["a"][0], abs=1.01 * step)
    assert high == pytest.approx(bands["a"][1], abs=1.01 * step)
