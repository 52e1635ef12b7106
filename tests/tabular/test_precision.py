"""Thresholds near machine precision, each from both sides."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from longrun.errors import NoConvergence
from longrun.tabular import MDP, PrecisionWarning
from longrun.tabular.models.classic import riverswim
from longrun.tabular.precision import EPS, LOOSE, USELESS, check_precision, rounding
from longrun.tabular.solvers.solution import (
    AT_ROUNDING,
    NEAR_ZERO,
    Bracket,
    bracket,
    relative_width,
)
from longrun.tabular.validation import TOLERANCE

INSIDE, OUTSIDE = 1 - 1e-9, 1 + 1e-9


def test_a_precise_answer_is_given_without_a_word() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_precision("it", LOOSE * INSIDE)
        check_precision("it", 50 * LOOSE * INSIDE, scale=50)


@pytest.mark.parametrize("error", [LOOSE * OUTSIDE, USELESS * INSIDE])
def test_a_loose_answer_is_given_with_a_warning(error: float) -> None:
    with pytest.warns(PrecisionWarning, match="it may be off by"):
        check_precision("it", error)


@pytest.mark.parametrize("error", [USELESS * OUTSIDE, np.inf, np.nan])
def test_a_useless_answer_is_refused(error: float) -> None:
    with pytest.raises(
        NoConvergence, match=r"it may be off by .*; speed up its rarest transitions"
    ):
        check_precision("it", error)


@pytest.mark.parametrize("terms", [1, 7, 1000])
def test_the_bound_on_rounding_holds_in_any_order_and_is_not_idle(terms: int) -> None:
    """Sums of products in single precision, whose exact values double precision has."""
    random = np.random.default_rng(terms)
    eps = float(np.finfo(np.float32).eps)
    worst = 0.0
    for _ in range(50):
        a, b = random.normal(size=(2, terms)).astype(np.float32)
        size = float(np.abs(a.astype(float) * b).sum())
        exact = float((a.astype(float) * b).sum())
        for order in (np.arange(terms), random.permutation(terms)):
            total = np.float32(0)
            for i in order:
                total = np.float32(total + a[i] * b[i])
            off = abs(float(total) - exact)
            assert off <= rounding(terms, size) * eps / EPS
            worst = max(worst, off / size)
    assert worst > 0.01 * eps  # the errors are there


def made(low: float, high: float, off: float) -> Bracket:
    return Bracket(np.zeros(1), np.zeros(1), np.zeros(1, int), low, high, off)


def test_a_bracket_is_at_rounding_when_it_is_as_wide_as_its_allowance() -> None:
    assert made(0, AT_ROUNDING * INSIDE, 1).at_rounding
    assert not made(0, AT_ROUNDING * OUTSIDE, 1).at_rounding


def test_a_bracket_allows_for_rounding_on_both_sides() -> None:
    mdp = riverswim()
    found = bracket(mdp, np.zeros(mdp.num_states))
    lookahead = mdp.lookahead(np.zeros(mdp.num_states)).max(1)
    assert found.low == lookahead.min() - 2 * found.rounding
    assert found.high == lookahead.max() + found.rounding
    assert 0 < found.rounding < 1e-13


@pytest.mark.parametrize(
    ("gain", "scale"), [(2 * NEAR_ZERO, 2 * NEAR_ZERO), (0.5 * NEAR_ZERO, NEAR_ZERO)]
)
def test_a_gain_near_0_is_measured_by_the_rewards(gain: float, scale: float) -> None:
    """Rewards of size 1: above NEAR_ZERO the gain counts, below it NEAR_ZERO of them does."""
    mdp = MDP(np.ones((1, 1, 1)), [[1.0]])
    width = 1e-9
    found = relative_width(mdp, np.zeros(1, int), gain - width, gain)
    assert found == pytest.approx(width / scale)


def test_rows_that_sum_to_1_within_the_tolerance_are_probabilities() -> None:
    for off, accepted in ((0.5 * TOLERANCE, True), (2 * TOLERANCE, False)):
        rows = np.array([[[1 - off]]])
        if accepted:
            assert MDP(rows, [[1.0]]).kernel.sum() == pytest.approx(1, abs=4 * EPS)
        else:
            with pytest.raises(ValueError, match="sum"):
                MDP(rows, [[1.0]])
