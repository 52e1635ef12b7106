"""Statistics over seeds: hand-worked numbers, relations, and rliable's own definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from rliable import metrics as rliable

from fake_runs import fake_setting
from longrun.lab.results.scores import scores_of
from longrun.lab.results.settings import Setting
from longrun.lab.results.statistics import (
    FEWEST_SEEDS,
    as_matrix,
    estimates,
    improvement,
    interquartile_mean,
    iqm_interval,
    mean,
    median,
    normalised,
    profile,
    resampled,
    tail,
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


def test_five_seeds_cover_what_they_say():
    """The plain percentile interval covers the mean in 85 % of cases, and the median of 94 %."""
    rng, covered = np.random.default_rng(5), []
    for _ in range(400):
        found = estimates(rng.normal(size=(5, 1)), fresh())
        covered.append([each.low <= 0 <= each.high for each in found.values()])
    assert (np.mean(covered, axis=0) > 0.88).all()
    assert (np.mean(covered, axis=0) < 0.985).all()


def test_an_interval_is_wider_than_the_percentiles_by_what_few_seeds_do_not_know():
    # Phi(-sqrt(5 / 4) 2.776445) and Phi(-sqrt(10 / 9) 2.262157), Student's quantiles of 4 and 9.
    assert tail(column(1, 2, 3, 4, 9)) == pytest.approx(0.000954, abs=1e-6)
    assert tail(column(*range(10))) == pytest.approx(0.008551, abs=1e-6)
    assert tail(fresh().normal(size=(4000, 1))) == pytest.approx(0.025, abs=1e-4)


def test_several_tasks_know_their_spread_better_than_one():
    two = np.array([[1.0, 2, 3, 4, 5]] * 2).T
    # The same spread on both: 8 degrees of freedom, 2.306004.
    assert tail(two) == pytest.approx(0.004966, abs=1e-6)
    # The other task has no spread: 4 degrees, as of one task alone. Nor has any: again 8.
    assert tail(two * [1, 0]) == pytest.approx(tail(two[:, :1]))
    assert tail(two * 0) == pytest.approx(tail(two))
    assert tail(two * 1e300) == pytest.approx(tail(two)), "scores of runs that diverged"
    # Five seeds on one task and three on the other: v is 0.5 and 1/3, df 25/36 / (1/16 + 1/18).
    uneven = as_matrix([np.arange(5.0), np.arange(3.0)])
    assert tail(uneven) == pytest.approx(0.002217, abs=1e-6)


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
    assert improvement(column(1, 2, 3, 4), column(0, 0, 0, 5)).value == 12 / 16
    # 1 against 1: half; 1 against 2: none; 2 against 1: one; 2 against 2: half. 2 of 4 pairs.
    assert improvement(column(1, 2), column(1, 2)).value == 0.5
    assert improvement(column(0, 0, 5, 7), column(0, 3)).value == (2 * 0.5 + 2 + 2) / 8


def test_improvement_is_the_mean_over_tasks():
    better, worse = np.array([[1.0, 0.0]] * 5), np.array([[0.0, 0.5]] * 5)
    found = improvement(better, worse)
    assert found.value == 0.5
    assert found.low == pytest.approx(1 - found.high)
    alone = improvement(column(*[0.0] * 5), column(*[0.0] * 5))
    assert alone.value == 0.5
    assert alone.low < found.low < 0.5, "two tasks say more than one"


def test_five_seeds_that_beat_all_others_are_not_certain_to():
    """The ends solve Newcombe's equation; of 1 it is (1 - p) mn = z^2 p (1 + 4 (...))."""
    found = improvement(column(1, 2, 3, 4, 5), column(0, 0, 0, 0, 0))
    assert (found.value, found.high) == (1.0, 1.0)
    p = found.low
    assert 0.64 < p < 0.65
    spread = p * (1 + 4 * ((1 - p) / (2 - p) + p / (1 + p)))
    assert (1 - p) * 25 == pytest.approx(1.959964**2 * spread, rel=1e-5)
    never = improvement(column(0, 0, 0, 0, 0), column(1, 2, 3, 4, 5))
    assert never == pytest.approx((0.0, 0.0, 1 - p), abs=1e-9)


def test_an_improvement_covers_what_it_says():
    rng, covered = np.random.default_rng(6), []
    for _ in range(400):
        found = improvement(rng.normal(size=(5, 1)) + 2, rng.normal(size=(5, 1)))
        covered.append(found.low <= 0.921350 <= found.high)  # Phi(2 / sqrt(2))
    assert 0.92 < np.mean(covered) < 0.99, "the bootstrap covers 62 %"


def test_improvement_with_five_seeds_of_each_has_an_interval():
    for few in (column(0), column(0, 0, 0, 0)):
        found = improvement(column(1, 2, 3, 4, 5), few)
        assert found.value == 1.0
        assert np.isnan(found.low)


@quick
@given(matrices(tasks=2), matrices(tasks=2))
def test_one_beats_the_other_or_the_other_way_round(a, b):
    there, back = improvement(a, b), improvement(b, a)
    assert there.value + back.value == pytest.approx(1)
    assert there.value == pytest.approx(rliable.probability_of_improvement(a, b))
    if min(len(a), len(b)) >= FEWEST_SEEDS:
        assert 0 <= there.low <= there.value + 1e-9
        assert there.value - 1e-9 <= there.high <= 1
        assert there.high == pytest.approx(1 - back.low)


@quick
@given(matrices(tasks=1), matrices(tasks=1), st.randoms())
def test_the_order_of_seeds_does_not_matter_to_improvement(a, b, random):
    order = list(range(len(a)))
    random.shuffle(order)
    found, again = improvement(a, b), improvement(a[order], b)
    assert found == pytest.approx(again, nan_ok=True)


# Profiles, curves, normalisation.


def test_a_profile_is_the_share_of_runs_above_each_threshold():
    scores = np.array([[1.0, 2.0], [3.0, np.nan]])
    share, low, high = profile(scores, np.array([0.0, 1.0, 2.5, 3.0]))
    assert share == pytest.approx([1, 2 / 3, 1 / 3, 0])
    assert (low <= share).all() and (share <= high).all()
    assert low == pytest.approx(1 - high[::-1]), "above and not above are alike"


def test_the_band_of_a_profile_is_wilsons():
    """All of five runs, and three of five: z = 1.959964, z^2 = 3.841459."""
    share, low, high = profile(column(1, 2, 3, 4, 5), np.array([0.0, 2.0]))
    assert share.tolist() == [1.0, 0.6]
    assert (low[0], high[0]) == pytest.approx((5 / 8.841459, 1.0))
    assert (low[1], high[1]) == pytest.approx((0.230724, 0.882379), abs=1e-6)


def test_a_curve_has_its_interquartile_mean_at_each_step():
    values = np.array([[1.0, 2, 3, 100, 4], [5, 5, 5, 5, 5], [1, np.nan, 1, 1, 1]])
    value, low, high = iqm_interval(values)
    assert value[:2].tolist() == [3.0, 5.0]
    assert (low[1], high[1]) == (5.0, 5.0)
    assert low[0] < 3.0 < high[0]
    assert np.isnan([value[2], low[2], high[2]]).all()


def test_few_seeds_of_a_curve_have_no_band():
    value, low, high = iqm_interval(np.array([[1.0, 2, 3, 100]]))
    assert value == [2.5]
    assert np.isnan([low, high]).all()


def test_a_curve_has_the_interval_of_a_score_at_each_step():
    scores = fresh().normal(size=(3, 7))
    _, low, high = iqm_interval(scores)
    for k, row in enumerate(scores):
        found = estimates(row[:, None], np.random.default_rng(1))["iqm"]
        noise = 0.03 * np.ptp(row)
        assert (low[k], high[k]) == pytest.approx((found.low, found.high), abs=noise)


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


def test_a_seed_that_lacks_a_return_has_no_final_score():
    """It may lack the evaluations with long episodes; the best is that of the others."""
    nan = float("nan")
    found = setting([96, 98, 100], [1.0, nan, 3.0], [nan, nan, nan])
    assert np.isnan(scores_of(found, "m")[0]).all()
    best, _ = scores_of(found, "m", best=True)
    assert best[0] == 3.0 and np.isnan(best[1])


# The bootstrap samples against rliable's own: their percentiles are equal up to noise. The
# intervals are not rliable's: those of five or ten seeds are too narrow.


def test_bootstrap_samples_are_those_of_rliable():
    from rliable import library

    drawn = np.random.default_rng(3).normal(size=(8, 3)) * [1.0, 5.0, 0.2] + [0.0, 2.0, 1.0]
    functions = {interquartile_mean: rliable.aggregate_iqm, mean: rliable.aggregate_mean}
    np.random.seed(0)  # it draws from NumPy's global state
    _, theirs = library.get_interval_estimates(
        {"a": drawn}, lambda x: np.array([f(x) for f in functions.values()]), reps=2000
    )
    samples = resampled(drawn, fresh())
    for (low, high), function in zip(theirs["a"].T, functions, strict=True):
        noise = 0.08 * (high - low)
        found = np.quantile(function(samples), (0.025, 0.975))
        assert found == pytest.approx((low, high), abs=noise)


def test_profiles_are_those_of_rliable():
    from rliable import library

    drawn = np.random.default_rng(3).normal(size=(8, 3))
    thresholds = np.linspace(-3, 3, 10)
    theirs, _ = library.create_performance_profile({"a": drawn}, thresholds, reps=2)
    assert profile(drawn, thresholds)[0] == pytest.approx(theirs["a"])
