"""The paper's quantities of one policy: by hand, and as relations that must hold."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_mdps import (
    COUPLING,
    KINDS,
    discounts,
    examples,
    pairs,
    random_mdp,
    random_policy,
    seeds,
)
from scipy import sparse

from longrun.exact.tabular import evaluation
from longrun.exact.tabular.evaluation import Evaluation, evaluate
from longrun.exact.tabular.mdp import MDP
from longrun.exact.tabular.models import garnet
from longrun.exact.tabular.poisson import SparseChain, trace_of_deviation
from longrun.exact.tabular.precision import rounding
from reference_networks import criss_cross, tandem

TRANSITIONS = [[[1, 0], [0.25, 0.75]], [[0.25, 0.75], [0, 1]]]
REWARDS = [[8, 0], [2, -2]]
EVENLY = [[0.5, 0.5], [0.5, 0.5]]
"""P is [[5, 3], [1, 7]] / 8, d is (1/4, 3/4), r is (4, 0); I - P halves r - eta."""


def two_states(**settings: Any) -> MDP:
    return MDP(TRANSITIONS, REWARDS, initial=[1, 0], **settings)


def close(found: Any, expected: Any, *terms: Any) -> None:
    """Equal up to 1e-11 of the largest of the terms, which are summed.

    Sums over up to 7 states and 4 actions have about 30 rounding errors, 1e-14; the rest is
    for terms that are themselves differences, in chains that take a million steps to mix.
    """
    scale = max(1.0, *(float(np.abs(term).max()) for term in terms)) if terms else 1.0
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-11 * scale)


# --- by hand ---------------------------------------------------------------------------------


def test_average_criterion_by_hand() -> None:
    found = evaluate(two_states(), EVENLY)
    close(found.transition, [[0.625, 0.375], [0.125, 0.875]])
    close(found.rewards, [4, 0])
    close(found.stationary, [0.25, 0.75])
    close(found.gain, 1)
    close(found.bias, [6, -2])
    close(found.q, [[13, -1], [1, -5]])
    close(found.advantage, [[7, -7], [3, -3]])
    close(found.fundamental, [[1.75, -0.75], [-0.25, 1.25]])
    close(found.deviation, [[1.5, -1.5], [-0.5, 0.5]])
    close(found.first_passage, [[4, 8 / 3], [8, 4 / 3]])
    close(found.kemeny, 3)
    assert found.kemeny_error == 0 and 0 < found.gain_error < 1e-13
    close(found.discounted_stationary, [0.25, 0.75])
    close(found.discounted_gain, 1)


def test_discounted_criterion_by_hand() -> None:
    found = evaluate(two_states(), EVENLY, 0.9)
    close(found.stationary, [0.25, 0.75])
    close(found.gain, 1)
    close(found.bias, [60 / 11, -20 / 11])  # (r - eta) / (1 - 0.9 / 2)
    close(found.q, [[131 / 11, -1], [1, -51 / 11]])
    close(found.advantage, [[71 / 11, -71 / 11], [31 / 11, -31 / 11]])
    close(found.deviation, [[15 / 11, -15 / 11], [-5 / 11, 5 / 11]])
    close(found.fundamental, [[71 / 44, -27 / 44], [-9 / 44, 53 / 44]])
    close(found.discounted_stationary, [17 / 44, 27 / 44])
    close(found.discounted_gain, 17 / 11)
    close(found.first_passage, [[4, 8 / 3], [8, 4 / 3]])  # of the chain, for any discount
    close(found.kemeny, 3)


def test_another_first_state() -> None:
    found = evaluate(two_states(), EVENLY, 0.9, initial=[0.25, 0.75])
    close(found.discounted_stationary, [0.25, 0.75])
    close(found.discounted_gain, 1)


def test_deterministic_policies() -> None:
    found = evaluate(two_states(), [1, 0])
    close(found.transition, [[0.25, 0.75], [0.25, 0.75]])
    close(found.gain, 1.5)
    close(found.bias, [-1.5, 0.5])
    close(found.kemeny, 2)


def test_actions_that_are_not_available() -> None:
    mdp = MDP(
        [[[0.5, 0.5], [0, 0]], [[1, 0], [0, 1]]],
        [[1, 0], [4, 0]],
        available=[[True, False], [True, True]],
    )
    found = evaluate(mdp, [0, 0])
    close(found.stationary, [2 / 3, 1 / 3])
    close(found.gain, 2)
    assert found.q[0, 1] == found.advantage[0, 1] == -np.inf
    close(found.advantage[1], [0, -4 + found.bias[1] - found.bias[0]])


# --- relations -------------------------------------------------------------------------------


@examples
@given(pairs(), st.one_of(st.just(1.0), discounts))
def test_values(parts: tuple[MDP, Any, Any], discount: float) -> None:
    mdp, policy, _ = parts
    found = evaluate(mdp, policy, discount)
    chain, law, values = found.transition, found.stationary, found.bias
    close(law @ chain, law)
    close(law.sum(), 1)
    assert (law >= 0).all()
    close(found.gain, law @ found.rewards)
    close(values - discount * chain @ values, found.rewards - found.gain, values)
    system = np.eye(len(law)) - discount * chain + discount * law
    close(system @ (values + found.gain), found.rewards, values)
    close(law @ values, 0, values)  # Proposition 3
    close(values, found.deviation @ found.rewards, found.deviation)

    usable = mdp.available
    kernel = mdp.kernel.toarray() if mdp.is_sparse else mdp.kernel
    ahead = (kernel @ values).reshape(mdp.num_actions, -1).T
    ahead = mdp.rewards - found.gain + discount * ahead
    close(found.q[usable], ahead[usable], values)
    close(found.advantage[usable], (found.q - values[:, None])[usable], values)
    assert (found.q[~usable] == -np.inf).all() and (found.advantage[~usable] == -np.inf).all()
    close((policy * np.where(usable, found.q, 0)).sum(1), values, values)
    close((policy * np.where(usable, found.advantage, 0)).sum(1), 0 * values, values)


@examples
@given(pairs(), st.one_of(st.just(1.0), discounts))
def test_matrices(parts: tuple[MDP, Any, Any], discount: float) -> None:
    mdp, policy, _ = parts
    found = evaluate(mdp, policy, discount)
    matrix, law, eye = found.fundamental, found.stationary, np.eye(mdp.num_states)
    chain = found.transition
    close(matrix @ np.ones(len(law)), np.ones(len(law)), matrix)
    close(law @ matrix, law, matrix)
    means = np.tile(law, (len(law), 1))
    close(matrix @ (eye - discount * chain), eye - discount * means, matrix)
    close(found.deviation, matrix - law, matrix)
    close(found.deviation @ (eye - discount * chain), eye - means, matrix)


@examples
@given(pairs(), discounts)
def test_discounted_law(parts: tuple[MDP, Any, Any], discount: float) -> None:
    mdp, policy, _ = parts
    found = evaluate(mdp, policy, discount)
    law = found.discounted_stationary
    close(law - discount * law @ found.transition, (1 - discount) * mdp.initial)
    close(law.sum(), 1)
    step = (1 - discount) * mdp.initial
    close(law, found.stationary + step @ found.deviation)
    close(found.discounted_gain, law @ found.rewards)
    close(found.discounted_gain, found.gain + step @ found.bias)


@examples
@given(pairs(), discounts)
def test_limits(parts: tuple[MDP, Any, Any], discount: float) -> None:
    """The distance from the average criterion is 1 - gamma times a known quantity."""
    mdp, policy, _ = parts
    near, limit = evaluate(mdp, policy, discount), evaluate(mdp, policy)
    step, large = (1 - discount) * near.deviation @ near.transition, limit.deviation
    terms = (limit.bias, step @ limit.bias)
    close(near.bias - limit.bias, -step @ limit.bias, *terms)
    close(near.deviation - large, -step @ large, large, step @ large)
    assert near.gain == limit.gain
    assert near.kemeny == limit.kemeny


def test_limit_by_numbers() -> None:
    limit = evaluate(two_states(), EVENLY)
    for gap in (1e-4, 1e-8, 1e-12):
        near = evaluate(two_states(), EVENLY, 1 - gap)
        for name in ("bias", "q", "advantage", "fundamental", "discounted_stationary"):
            np.testing.assert_allclose(getattr(near, name), getattr(limit, name), rtol=10 * gap)


@examples
@given(
    pairs(("dense", "slow", "periodic", "multichain", "nearly reducible")),
    st.one_of(st.just(1.0), discounts),
)
def test_first_passage(parts: tuple[MDP, Any, Any], discount: float) -> None:
    mdp, policy, _ = parts
    found = evaluate(mdp, policy, discount)
    chain, law, times = found.transition, found.stationary, found.first_passage
    np.testing.assert_allclose(times, chain @ (times - np.diag(np.diag(times))) + 1, rtol=1e-12)
    np.testing.assert_allclose(np.diag(times), 1 / law, rtol=1e-12)
    np.testing.assert_allclose(times @ law, found.kemeny, rtol=1e-12)
    matrix = evaluate(mdp, policy).fundamental
    close(times * law, np.eye(len(law)) - matrix + np.diag(matrix), matrix)


@examples
@given(pairs())
def test_kemeny_is_a_sum_over_eigenvalues(parts: tuple[MDP, Any, Any]) -> None:
    mdp, policy, _ = parts
    found = evaluate(mdp, policy)
    rates, vectors = np.linalg.eig(found.transition)
    rates = np.delete(rates, np.argmin(np.abs(rates - 1)))
    # LAPACK perturbs P by a few rounding errors, which moves an eigenvalue by the condition of
    # the eigenvectors times as much (Bauer and Fike); kappa times that is its share of 1 - lambda.
    off = rounding(10 * mdp.num_states, float(np.linalg.cond(vectors)) * found.kemeny)
    np.testing.assert_allclose(found.kemeny, 1 + np.sum(1 / (1 - rates)).real, rtol=off)


def test_transient_states() -> None:
    """State 0 is left forever with probability 1/4; its reward does not affect the gain."""
    mdp = MDP([[[0.75, 0.25, 0]], [[0, 0.5, 0.5]], [[0, 0.5, 0.5]]], [[8], [3], [1]])
    found = evaluate(mdp, [0, 0, 0])
    close(found.stationary, [0, 0.5, 0.5])
    close(found.gain, 2)
    close(found.bias, [25, 1, -1])  # 4 (8 - 2) + 1
    close(found.kemeny, 6)
    assert found.structure.unichain and not found.structure.irreducible


def test_kemeny_of_transient_states_is_a_limit() -> None:
    mdp = random_mdp(np.random.default_rng(3), "transient", 6, 1)
    matrix, _ = mdp.chain([0] * 6)
    expected = evaluate(mdp, [0] * 6).kemeny
    for small in (1e-4, 1e-8):
        nearby = (1 - small) * matrix + small / 6
        found = evaluate(MDP(nearby[:, None], mdp.rewards), [0] * 6)
        assert found.structure.irreducible
        np.testing.assert_allclose(found.kemeny, expected, rtol=100 * small)
        np.testing.assert_allclose(found.first_passage @ found.stationary, found.kemeny, rtol=1e-12)


def test_slow_chains_keep_their_precision() -> None:
    """States that are left with 1e-12: Q - V and a plain inverse would have four digits."""
    slow = 1e-12
    stay = [[1 - slow, slow], [slow, 1 - slow]]
    mdp = MDP(np.stack([stay, np.eye(2)], axis=1), [[1, 1], [0, 0]])
    found = evaluate(mdp, [0, 0])
    off = rounding(16, 1.0)  # about as many operations for each of these
    np.testing.assert_allclose(found.kemeny, 1 + 1 / (2 * slow), rtol=off)
    np.testing.assert_allclose(found.bias, [1 / (4 * slow), -1 / (4 * slow)], rtol=off)
    np.testing.assert_allclose(found.advantage, [[0, 0.5], [0, -0.5]], atol=off)


# --- large models ----------------------------------------------------------------------------


def both_paths(mdp: MDP, policy: Any, discount: float) -> tuple[Evaluation, Evaluation]:
    """Evaluations by dense algebra, and by the methods for large models."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluation, "DENSE", 1)
        iterative = evaluate(mdp, policy, discount)
    return evaluate(mdp, policy, discount), iterative


def check_paths(mdp: MDP, policy: Any, discount: float) -> None:
    dense, iterative = both_paths(mdp, policy, discount)
    assert dense.is_dense and not iterative.is_dense
    names = ("gain", "bias", "stationary", "discounted_stationary", "discounted_gain", "q")
    for name in (*names, "advantage"):
        expected = np.asarray(getattr(dense, name))
        scale = max(1.0, float(np.abs(expected[np.isfinite(expected)]).max()))
        found = getattr(iterative, name)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8 * scale, err_msg=name)
    assert abs(iterative.gain - dense.gain) <= iterative.gain_error <= 1e-8


@examples
@given(seeds, st.sampled_from([kind for kind in KINDS if kind not in COUPLING]), discounts)
def test_iterative_path(seed: int, kind: str, discount: float) -> None:
    random = np.random.default_rng(seed)
    mdp = random_mdp(random, kind, 40, 3)
    policy = random_policy(random, mdp)
    check_paths(mdp, policy, discount)


@pytest.mark.parametrize("discount", [1.0, 0.99])
def test_iterative_path_of_queues(discount: float) -> None:
    for mdp in (tandem(size=12), criss_cross(size=5)):
        policy = mdp.available / mdp.available.sum(1, keepdims=True)
        check_paths(mdp, policy, discount)


def chain_of(mdp: MDP) -> Evaluation:
    return evaluate(mdp, mdp.available / mdp.available.sum(1, keepdims=True))


@pytest.mark.parametrize("mdp", [garnet(200, 3, 5), tandem(size=12), criss_cross(size=5)])
def test_estimate_of_kemeny(mdp: MDP) -> None:
    """15 or fewer of 20 intervals of 95 % contain the true value once in 400 times."""
    exact = chain_of(mdp)
    equations = SparseChain(sparse.csr_array(exact.transition))
    hits = 0
    for seed in range(20):
        trace, error = trace_of_deviation(equations, exact.stationary, seed)
        assert abs(1 + trace - exact.kemeny) < 4 * error
        assert 0 < error < 0.1 * exact.kemeny
        hits += abs(1 + trace - exact.kemeny) <= error
    assert hits > 15


def test_the_estimate_of_kemeny_by_dense_algebra() -> None:
    """Hutch++ with the matrix itself, and Student's interval of its ten samples."""
    at = chain_of(garnet(60, 2, 4))
    trace, error = trace_of_deviation(SparseChain(at.transition), at.stationary, seed=3)
    random = np.random.default_rng(3)
    probes, others = (random.choice([-1.0, 1.0], (60, 10)) for _ in range(2))
    slow, _ = np.linalg.qr(at.deviation @ probes)
    rest = others - slow @ (slow.T @ others)
    samples = np.einsum("sk,st,tk->k", rest, at.deviation, rest)
    expected = np.trace(slow.T @ at.deviation @ slow) + samples.mean()
    assert trace == pytest.approx(expected, rel=1e-6)
    # 2.262 is the 97.5 % point of Student's distribution with 9 degrees of freedom, from a table.
    assert error == pytest.approx(2.262 * samples.std(ddof=1) / np.sqrt(10), rel=1e-3)


def test_large_models_estimate_kemeny(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = chain_of(tandem(size=12))
    monkeypatch.setattr(evaluation, "DENSE", 1)
    found = chain_of(tandem(size=12))
    assert 0 < found.kemeny_error < 0.1 * found.kemeny
    assert abs(found.kemeny - exact.kemeny) < 2 * found.kemeny_error
    assert found.kemeny == chain_of(tandem(size=12)).kemeny  # the same random signs


# --- errors ----------------------------------------------------------------------------------


def test_two_recurrent_classes() -> None:
    message = (
        "the policy's chain has 2 recurrent classes (states 0 and 1, for example), so its gain "
        "depends on the start; make one class reachable from all"
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        evaluate(two_states(), [0, 1])


@pytest.mark.parametrize("discount", [-0.1, 1.1, np.nan, "0.9", None])
def test_discounts_outside(discount: Any) -> None:
    with pytest.raises(ValueError, match=r"discount=.* is outside \[0, 1\]"):
        evaluate(two_states(), EVENLY, discount)


def test_bad_policies_and_laws() -> None:
    with pytest.raises(ValueError, match=r"policy of state 1 is \[0\.5 0\.6\], not a distribution"):
        evaluate(two_states(), [[0.5, 0.5], [0.5, 0.6]])
    with pytest.raises(ValueError, match=r"policy has shape \(3,\)"):
        evaluate(two_states(), [0, 0, 0])
    with pytest.raises(ValueError, match=r"initial has shape \(3,\)"):
        evaluate(two_states(), EVENLY, 0.9, initial=[1, 0, 0])


def test_first_passage_needs_all_states() -> None:
    mdp = MDP([[[0.5, 0.5]], [[0, 1]]], [[0], [0]])
    with pytest.raises(ValueError, match="state 0 is never visited again"):
        _ = evaluate(mdp, [0, 0]).first_passage


def test_large_models_have_no_inverse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "DENSE", 1)
    found = evaluate(two_states(), EVENLY)
    for name, what in (
        ("fundamental", "fundamental matrix"),
        ("deviation", "deviation matrix"),
        ("first_passage", "matrix of mean first passage times"),
    ):
        message = f"the {what} of 2 states is not formed (the limit is 1)"
        with pytest.raises(ValueError, match=re.escape(message)):
            getattr(found, name)
