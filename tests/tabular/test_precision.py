"""Thresholds near machine precision, each from both sides, and bounds on rounding."""

from __future__ import annotations

import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_mdps import examples, seeds
from scipy import sparse

from event_lists import Event, queueing_network
from longrun.base.errors import NoConvergence
from longrun.exact.tabular import evaluation
from longrun.exact.tabular.chain import stationary
from longrun.exact.tabular.models import riverswim
from longrun.exact.tabular.poisson import SparseChain
from longrun.exact.tabular.precision import EPS, LOOSE, USELESS, check_precision, rounding
from longrun.exact.tabular.solvers.solution import (
    AT_ROUNDING,
    NEAR_ZERO,
    Bracket,
    bracket,
    relative_width,
)
from longrun.exact.tabular.trust_region import SMALLEST, _best_step
from longrun.exact.tabular.validation import AS_GIVEN, TOLERANCE, state_law
from longrun.tabular import MDP, PrecisionWarning, evaluate

INSIDE, OUTSIDE = 1 - 1e-9, 1 + 1e-9


def test_a_precise_result_comes_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_precision("it", LOOSE * INSIDE)
        check_precision("it", 50 * LOOSE * INSIDE, scale=50)


@pytest.mark.parametrize("error", [LOOSE * OUTSIDE, USELESS * INSIDE])
def test_an_imprecise_result_comes_with_a_warning(error: float) -> None:
    with pytest.warns(PrecisionWarning, match="it may be off by"):
        check_precision("it", error)


@pytest.mark.parametrize("error", [USELESS * OUTSIDE, np.inf, np.nan])
def test_a_useless_result_raises(error: float) -> None:
    with pytest.raises(
        NoConvergence, match=r"it may be off by .*; speed up its rarest transitions"
    ):
        check_precision("it", error)


@pytest.mark.parametrize("terms", [1, 7, 1000])
def test_the_bound_on_rounding_holds_in_any_order_and_is_tight_enough(terms: int) -> None:
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
    assert worst > 0.01 * eps  # the errors are not 0


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


# --- errors of results -----------------------------------------------------------------------


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A chain that is evaluated like large ones, and whose law has the given error."""
    monkeypatch.setattr(evaluation, "DENSE", 1)

    def made(error: float, discount: float = 1.0) -> Any:
        law = np.array([0.5, 0.5])
        monkeypatch.setattr(SparseChain, "stationary", lambda *_: (law, error * (discount == 1)))
        monkeypatch.setattr(SparseChain, "discounted_stationary", lambda *_: (law, error))
        mdp = MDP([sparse.csr_array(np.full((2, 2), 0.5))], [[0.0], [1.0]])
        return evaluate(mdp, [0, 0], discount)

    return made


@pytest.mark.parametrize(
    ("discount", "name"), [(1.0, "the stationary law"), (0.9, "the discounted law")]
)
def test_laws_are_checked_by_their_errors(large: Any, discount: float, name: str) -> None:
    found = large(0.99 * LOOSE, discount)
    assert found.discounted_stationary.tolist() == [0.5, 0.5]
    if discount == 1:
        assert found.stationary_error == 0.99 * LOOSE
    for error in (1.01 * LOOSE, 0.99 * USELESS):
        with pytest.warns(PrecisionWarning, match=f"{name} may be off by") as warned:
            assert large(error, discount).discounted_stationary.tolist() == [0.5, 0.5]
        assert len(warned) == 1
    with pytest.raises(NoConvergence, match=f"{name} may be off by"):
        _ = large(1.01 * USELESS, discount).discounted_stationary


@pytest.mark.parametrize(("error", "kind"), [(0.9, None), (1.1, "warns"), (1e5, "raises")])
def test_gains_are_checked_by_their_residuals(
    error: float, kind: str | None, large: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values 0 and h leave residuals of h / 2 and 1 - h / 2, half of whose spread is the error."""
    found = large(0.0)
    values = np.array([0.0, 1 - 2 * error * LOOSE])
    monkeypatch.setattr(SparseChain, "solve", lambda *_: (values, False))
    if kind == "raises":
        with pytest.raises(NoConvergence, match="the solution of the chain's equations may be"):
            _ = found.gain
        return
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert found.gain == pytest.approx(0.5, abs=2 * error * LOOSE)
        assert found.gain_error == pytest.approx(error * LOOSE, rel=1e-6)
    assert [warning.category for warning in caught] == [PrecisionWarning] * (kind == "warns")


# --- bounds on rounding ----------------------------------------------------------------------


@examples
@given(seeds, st.integers(1, 400))
def test_rounding_bounds_sums_in_any_order(seed: int, terms: int) -> None:
    """Against rational arithmetic: in order, backwards, in pairs, and by BLAS."""
    random = np.random.default_rng(seed)
    x = random.normal(size=terms) * 10.0 ** random.integers(-8, 9, terms)
    y = random.random(terms)
    exact = sum((Fraction(a) * Fraction(b) for a, b in zip(x, y, strict=True)), Fraction(0))
    bound = rounding(terms, float(np.abs(x) @ y))
    products = x * y
    for found in (
        x @ y,
        sum(products),
        sum(products[::-1]),
        products.sum(),
        np.cumsum(products)[-1],
    ):
        assert abs(Fraction(float(found)) - exact) <= bound


@examples
@given(seeds, st.integers(2, 7), st.integers(0, 14))
def test_small_laws_have_one_rounding_error_per_state(seed: int, states: int, slow: int) -> None:
    """`stationary_error` of a small chain, against rational arithmetic."""
    random = np.random.default_rng(seed)
    matrix = random.random((states, states)) * 10.0 ** -random.integers(
        0, slow + 1, (states, states)
    )
    matrix /= matrix.sum(1, keepdims=True)
    exact = np.array(_exact_law(matrix), float)
    law = stationary(matrix)
    np.testing.assert_allclose(law, exact, rtol=4 * states * EPS)
    found = evaluate(MDP(matrix[:, None], np.zeros((states, 1))), [0] * states)
    assert found.stationary_error == states * EPS
    assert np.abs(law - exact).sum() <= 2 * found.stationary_error


def _exact_law(matrix: Any) -> list[Fraction]:
    """The same elimination in fractions; the diagonal is 1 minus the rest of the row."""
    rates = [[Fraction(float(x)) for x in row] for row in matrix]
    order = range(len(rates) - 1, 0, -1)
    for k in order:
        leaving = sum(rates[k][:k], Fraction(0))
        for i in range(k):
            rates[i][k] /= leaving
            for j in range(k):
                rates[i][j] += rates[i][k] * rates[k][j]
    law = [Fraction(1)]
    for k in range(1, len(rates)):
        law.append(sum((law[i] * rates[i][k] for i in range(k)), Fraction(0)))
    return [share / sum(law) for share in law]


# --- user input ------------------------------------------------------------------------------


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_rows_that_nearly_sum_to_1(sign: int, is_sparse: bool) -> None:
    def mdp(off: float) -> MDP:
        row = np.array([[0.5 + sign * off, 0.5], [0.5, 0.5]])
        made: Any = [sparse.csr_array(row)] if is_sparse else row[:, None]
        return MDP(made, [[0.0], [0.0]])

    def first(model: MDP) -> float:
        return float((model.kernel.toarray() if is_sparse else model.kernel)[0, 0])

    near = 0.99 * sign * TOLERANCE  # (1 + 2 x) / 2 (1 + x) is (1 + x) / 2, but for x squared
    assert first(mdp(0.99 * TOLERANCE)) == pytest.approx(0.5 + near / 2, abs=near**2 + EPS)
    with pytest.raises(ValueError, match=r"transitions of state 0, action 0 sum to \S+, not 1"):
        mdp(1.01 * TOLERANCE)
    assert first(mdp(AS_GIVEN)) == 0.5 + sign * AS_GIVEN  # all of these are exact in binary
    assert first(mdp(AS_GIVEN + 2 * EPS)) != 0.5 + sign * (AS_GIVEN + 2 * EPS)


@pytest.mark.parametrize("sign", [-1, 1])
def test_laws_and_policies_that_nearly_sum_to_1(sign: int) -> None:
    near, far = 0.99 * sign * TOLERANCE, 1.01 * sign * TOLERANCE
    mdp = riverswim(2)
    assert state_law([0.5, 0.5 + near], 2).sum() == pytest.approx(1, abs=2 * EPS)
    np.testing.assert_allclose(mdp.distribution([[0.5, 0.5 + near]] * 2).sum(1), 1, atol=2 * EPS)
    with pytest.raises(ValueError, match="make it a probability distribution"):
        state_law([0.5, 0.5 + far], 2)
    with pytest.raises(ValueError, match="not a distribution"):
        mdp.distribution([[0.5, 0.5 + far]] * 2)


# --- models ----------------------------------------------------------------------------------


def stay_of_second_action(slower: float) -> float:
    """Of one customer, who leaves at rate 1 under one action and a little slower under another."""
    events = [Event(1.0, (-1,), actions=(0,)), Event(1.0 - slower, (-1,), actions=(1,))]
    mdp = queueing_network(events, (1.0,), ("fast", "slow"), 1, "a customer")
    return float(mdp.kernel[[3]].toarray()[0, 1])  # action 1, state 1


def test_a_rounding_error_is_not_an_event() -> None:
    """One rate is known to EPS / 2; a larger difference is a rate, with full precision."""
    assert stay_of_second_action(EPS / 2) == stay_of_second_action(EPS) == 0
    assert stay_of_second_action(2 * EPS) == 2 * EPS
    assert stay_of_second_action(1e-13) == pytest.approx(1e-13, rel=1e-2)


def test_rates_in_another_order_are_the_same() -> None:
    """0.1 + 0.2 + 0.3 is not 0.3 + 0.2 + 0.1: the difference must not become a transition."""
    rates = (0.1, 0.2, 0.3)
    events = [
        Event(rate, (-1,), actions=(a,))
        for a, order in enumerate((1, -1))
        for rate in rates[::order]
    ]
    # Added one by one; Python's own sum compensates for rounding since version 3.12.
    assert (0.1 + 0.2) + 0.3 != (0.3 + 0.2) + 0.1
    mdp = queueing_network([*events], (1.0,), ("forth", "back"), 1, "orders")
    kernel = mdp.kernel.toarray()
    assert kernel[1, 1] == kernel[3, 1] == 0
    np.testing.assert_allclose(kernel[[1, 3], 0], 1, rtol=AS_GIVEN)


# --- steps -----------------------------------------------------------------------------------


def test_the_smallest_step() -> None:
    now = evaluate(riverswim(), np.full((6, 2), 0.5))
    found = _best_step(now, "theorem", 1.01 * SMALLEST)
    assert found is not None and found[0] == 1.01 * SMALLEST
    assert found[1].lower > 0
    assert _best_step(now, "theorem", SMALLEST) is None
