"""The performance difference formula and every bound: by hand, and as relations that must hold."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_mdps import discounts, examples, pairs, random_mdp, random_policy
from test_policy_evaluation import EVENLY, two_states

from longrun.exact.tabular import bounds, evaluation
from longrun.exact.tabular.bounds import Bound, ImprovementBounds, improvement_bounds
from longrun.exact.tabular.evaluation import evaluate
from longrun.exact.tabular.mdp import MDP
from longrun.exact.tabular.precision import rounding

NEW = [[0.5, 0.5], [1, 0]]
"""State 1 is left with 1/4 for 1/8: d' is (2/5, 3/5), r' is (4, 2), and kappa' = 1 + 8/5."""
ROUNDING = 1e-11
"""Tolerance of sums over up to 7 states and 4 actions, relative to their terms: 1e-14, where
nothing cancels, times a thousand for chains that take a million steps to mix."""
every_discount = st.one_of(st.just(1.0), discounts)


def close(found: Any, expected: Any) -> None:
    """Tolerance for about ten operations on a law and a bias of two states, each to 2e-16."""
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-14)


def check_bound(found: Bound, constant: float, lower: float, upper: float) -> None:
    close((found.xi, found.lower, found.upper), (constant, lower, upper))


# --- by hand ---------------------------------------------------------------------------------


def test_average_criterion_by_hand() -> None:
    found = improvement_bounds(two_states(), EVENLY, NEW)
    close(found.difference, 1.8)  # 2.8 - 1
    close(found.formula, 1.8)  # 3/5 of A = 3
    close(found.surrogate, 2.25)  # 3/4 of it
    close(found.epsilon, 3)
    close(found.policy_distance, 0.375)  # 3/4 of 1/2
    close(found.law_distance, 0.15)
    check_bound(found.by_law, 1, 1.35, 3.15)
    check_bound(found.theorem, 1.6, -1.35, 5.85)  # 2 * 3 * 1.6 * 0.375 = 3.6
    check_bound(found.zhang_ross, 1.6, -1.35, 5.85)
    check_bound(found.dai_gluzman, 1.6, -1.35, 5.85)  # two states: tau_1 is kappa' - 1
    check_bound(found.achiam, math.inf, -math.inf, math.inf)
    close((found.xi, found.lower, found.upper), (1.6, -1.35, 5.85))
    assert list(found.bounds) == ["theorem", "achiam", "zhang_ross", "dai_gluzman"]


def test_discounted_criterion_by_hand() -> None:
    found = improvement_bounds(two_states(), EVENLY, NEW, 0.9)
    close(found.difference, 837 / 583)  # 158 / 53 - 17 / 11
    close(found.formula, 837 / 583)  # 27 / 53 of A = 31 / 11
    surrogate = 837 / 484  # 27 / 44 of it
    close(found.surrogate, surrogate)
    close(found.epsilon, 31 / 11)
    close(found.policy_distance, 27 / 88)
    close(found.law_distance, 243 / 2332)  # 26 / 53 - 17 / 44
    half = 2 * 31 / 11 * 27 / 88  # 2 epsilon E TV
    check_bound(found.theorem, 72 / 37, surrogate - 72 / 37 * half, surrogate + 72 / 37 * half)
    check_bound(found.achiam, 9, surrogate - 9 * half, surrogate + 9 * half)
    check_bound(found.dai_gluzman, 72 / 53, surrogate - 72 / 53 * half, surrogate + 72 / 53 * half)
    check_bound(found.zhang_ross, math.inf, -math.inf, math.inf)
    law = 2 * 31 / 11 * 243 / 2332
    check_bound(found.by_law, 1, surrogate - law, surrogate + law)
    assert found.tightest == "dai_gluzman"


def test_constants_by_hand() -> None:
    assert bounds.achiam_xi(0.75) == 3 and bounds.achiam_xi(1) == math.inf
    assert bounds.zhang_ross_xi(2.5, 1) == 1.5 and bounds.zhang_ross_xi(2.5, 0.9) == math.inf
    assert bounds.xi(2.5, 1) == 1.5
    close(bounds.xi(2.5, 0.9), 0.9 * 1.5 / 0.75)
    close(bounds.xi(2.5, 0.1), 1 / 9)  # Achiam's, since kappa gives only 0.15 / 1.25
    assert bounds.xi(2.5, 0.0) == 0
    assert bounds.xi(2.0, 0.5) == 1  # the second constant is infinite
    assert bounds.xi(1.0, 0.0) == 0 and bounds.xi(1.0, 0.5) == 0  # one state
    close(bounds.worst_discount(2.5), 0.75)
    assert bounds.largest_xi(2.5) == 3 == bounds.xi(2.5, 0.75)


def test_mean_advantage_by_hand() -> None:
    before = evaluate(two_states(), EVENLY)
    close(bounds.mean_advantage(before, np.array(NEW)), [0, 3])


# --- relations -------------------------------------------------------------------------------


def compared(parts: tuple[MDP, Any, Any], discount: float) -> tuple[Any, Any, ImprovementBounds]:
    mdp, old, new = parts
    before, after = evaluate(mdp, old, discount), evaluate(mdp, new, discount)
    return before, after, bounds.compare(before, after)


@examples
@given(pairs(), every_discount)
def test_performance_difference(parts: tuple[MDP, Any, Any], discount: float) -> None:
    before, after, found = compared(parts, discount)
    values, old_law, new_law = (
        before.bias,
        before.discounted_stationary,
        after.discounted_stationary,
    )
    change = after.transition - before.transition
    gain = after.rewards - before.rewards + discount * change @ values
    scale = max(1.0, float(np.abs(values).max()))
    advantage = bounds.mean_advantage(before, after.policy)
    np.testing.assert_allclose(advantage, gain, rtol=0, atol=ROUNDING * scale)
    plain = max(1.0, float(np.abs(advantage).max()))
    assert abs(found.difference - found.formula) <= ROUNDING * plain
    assert abs(found.difference - new_law @ gain) <= ROUNDING * scale
    assert abs(found.surrogate - old_law @ gain) <= ROUNDING * scale
    ratio = after.policy / np.where(before.policy > 0, before.policy, 1)
    weighted = before.policy * ratio * np.where(before.mdp.available, before.advantage, 0)
    assert abs(found.surrogate - old_law @ weighted.sum(1)) <= ROUNDING * plain
    assert found.epsilon == np.abs(advantage).max()


@examples
@given(pairs(), every_discount)
def test_bounds_hold(parts: tuple[MDP, Any, Any], discount: float) -> None:
    before, _, found = compared(parts, discount)
    slack = ROUNDING * max(1.0, found.epsilon)
    for bound in (found.by_law, *found.bounds.values()):
        assert bound.lower - slack <= found.difference <= bound.upper + slack
    for bound in found.bounds.values():  # Proposition 2
        reach = bound.xi * found.policy_distance if found.policy_distance else 0.0
        assert found.law_distance <= reach + ROUNDING
    shift = np.abs(np.subtract(parts[2], parts[1])).sum(1) / 2
    assert abs(found.policy_distance - before.discounted_stationary @ shift) <= ROUNDING


@examples
@given(pairs(), every_discount)
def test_constants_are_ordered(parts: tuple[MDP, Any, Any], discount: float) -> None:
    _, after, found = compared(parts, discount)
    assert found.dai_gluzman.xi <= found.theorem.xi * (1 + ROUNDING)
    assert found.theorem.xi <= found.achiam.xi
    assert found.theorem.xi <= bounds.largest_xi(after.kemeny) * (1 + ROUNDING)
    if discount == 1:
        assert found.theorem == found.zhang_ross
    smallest = min(bound.xi for bound in found.bounds.values())
    assert found.bounds[found.tightest].xi == smallest


@examples
@given(st.floats(1.5, 1e5))
def test_remarks(kemeny: float) -> None:
    worst, largest = bounds.worst_discount(kemeny), bounds.largest_xi(kemeny)
    np.testing.assert_allclose(bounds.xi(kemeny, worst), largest, rtol=1e-9)
    grid = np.unique([*np.linspace(0, 1, 2001), *(1 - 10.0 ** -np.linspace(0, 9, 500)), worst])
    found = np.array([bounds.xi(kemeny, discount) for discount in grid])
    assert grid[np.argmax(found)] == worst and found.max() <= largest * (1 + 1e-9)
    assert (np.diff(found[grid <= worst]) >= 0).all()  # rises up to the worst, then falls
    assert (np.diff(found[grid >= worst]) <= 1e-9 * largest).all()
    for gap in (1e-3, 1e-6, 1e-9):  # Remark 1
        near = bounds.xi(kemeny, 1 - gap / kemeny)
        np.testing.assert_allclose(near, kemeny - 1, rtol=2 * gap + 1e-10)
    assert bounds.xi(kemeny, 1) == kemeny - 1


@examples
@given(pairs(), every_discount)
def test_equal_policies(parts: tuple[MDP, Any, Any], discount: float) -> None:
    mdp, old, _ = parts
    found = improvement_bounds(mdp, old, old, discount)
    assert found.difference == found.policy_distance == found.law_distance == 0
    scale = max(1.0, float(np.abs(evaluate(mdp, old, discount).bias).max()))
    # Each of these is a sum over actions and successors of differences of values.
    off = rounding(mdp.num_states * mdp.num_actions + 8, 2 * scale)
    assert max(abs(found.formula), abs(found.surrogate), found.epsilon) <= off
    for bound in (found.by_law, *found.bounds.values()):
        assert bound.lower == found.surrogate == bound.upper  # infinity times 0 is 0 here
        assert not math.isnan(bound.xi)


# --- the appendix ----------------------------------------------------------------------------


@examples
@given(pairs(("dense", "periodic", "multichain")), every_discount)
def test_lemmas_a1_and_a2(parts: tuple[MDP, Any, Any], discount: float) -> None:
    mdp, policy, _ = parts
    at = evaluate(mdp, policy, discount)
    eye, matrix, law = np.eye(mdp.num_states), at.fundamental, at.stationary
    times, scaled = at.first_passage, at.first_passage * law  # M and M D^-1
    visits = np.diag(1 / law)
    left = (eye - discount * at.transition) @ (times - visits)
    scale = ROUNDING * times.max()
    np.testing.assert_allclose(left, discount + (1 - discount) * times - visits, atol=scale)

    np.testing.assert_allclose(np.linalg.norm(eye - scaled, np.inf), at.kemeny - 1, atol=ROUNDING)
    mixed = np.diag(matrix @ times) * law
    numerator = eye - scaled + np.diag(matrix) - (1 - discount) * mixed
    denominator = eye - (1 - discount) * scaled
    np.testing.assert_allclose(matrix @ denominator, numerator, atol=1e-9)
    if (1 - discount) * at.kemeny < 1:
        inverse = np.linalg.inv(denominator)
        largest = 1 / (1 - (1 - discount) * at.kemeny)  # the paper prints 1 / ((1 - gamma) kappa)
        assert np.linalg.norm(inverse, np.inf) <= largest * (1 + 1e-9)
        np.testing.assert_allclose(matrix, numerator @ inverse, atol=1e-9 * largest)


@examples
@given(pairs(), every_discount)
def test_lemma_a3(parts: tuple[MDP, Any, Any], discount: float) -> None:
    before, after, found = compared(parts, discount)
    law = before.discounted_stationary
    change = after.transition - before.transition
    moved = discount * law @ change @ after.fundamental
    scale = ROUNDING * max(1.0, float(np.abs(after.fundamental).max()))
    difference = after.discounted_stationary - law
    np.testing.assert_allclose(difference, moved, rtol=0, atol=scale)
    assert np.abs(law @ change).sum() <= 2 * found.policy_distance + ROUNDING
    if discount <= 0.999:
        direct = np.linalg.solve((np.eye(len(law)) - discount * after.transition).T, law @ change)
        np.testing.assert_allclose(difference, discount * direct, rtol=0, atol=1e-10)


# --- large models ----------------------------------------------------------------------------


@pytest.mark.parametrize("discount", [1.0, 0.9999])
def test_large_models(discount: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """kappa' is then the upper end of its interval; bounds that need an inverse are left out."""
    random = np.random.default_rng(0)
    mdp = random_mdp(random, "few successors", 60, 3)
    old, new = random_policy(random, mdp), random_policy(random, mdp)
    exact = improvement_bounds(mdp, old, new, discount)
    monkeypatch.setattr(evaluation, "DENSE", 1)
    found = improvement_bounds(mdp, old, new, discount)
    for name in ("difference", "formula", "surrogate", "epsilon", "policy_distance"):
        np.testing.assert_allclose(getattr(found, name), getattr(exact, name), rtol=1e-8)
    after = evaluate(mdp, new, discount)
    most = after.kemeny + after.kemeny_error
    # The term of kappa' is the least by far, so that its error shows.
    assert bounds.achiam_xi(discount) > 10 * found.xi
    assert after.kemeny_error > 1e-3 * after.kemeny
    assert found.xi == bounds.xi(most, discount) > 1.001 * bounds.xi(after.kemeny, discount)
    if discount == 1:
        assert found.zhang_ross.xi == most - 1
    assert found.dai_gluzman == Bound(math.inf, -math.inf, math.inf)
    assert found.tightest == "theorem"
