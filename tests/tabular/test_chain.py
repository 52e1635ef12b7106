"""Matrices of a chain against numbers worked out by hand and in rational arithmetic."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_mdps import examples, seeds

from longrun.exact.tabular import chain
from longrun.exact.tabular.precision import rounding

PAIR = np.array([[0.625, 0.375], [0.125, 0.875]])
"""Left at rates 3/8 and 1/8: I - P shrinks everything but the constants by 1/2."""
MIDDLE = np.array([[0.0, 1, 0], [0.5, 0, 0.5], [0, 1, 0]])
"""Every other step in the middle: eigenvalues 1, 0 and -1."""


def equal(found: Any, expected: Any) -> None:
    """Up to 45 rounding errors: two or three states take at most ten operations each."""
    np.testing.assert_allclose(found, expected, rtol=1e-14, atol=1e-15)


def test_rates_that_underflow_raise() -> None:
    tiny = np.array([[1, 1e-300, 0], [1e-300, 0, 1], [0, 1e-300, 1]])
    with pytest.raises(RuntimeError, match="transitions underflow"):
        chain.stationary(tiny)


# --- two states ------------------------------------------------------------------------------


def test_two_states() -> None:
    law = chain.stationary(PAIR)
    equal(law, [0.25, 0.75])
    deviation = chain.deviation(PAIR, law)
    equal(deviation, [[1.5, -1.5], [-0.5, 0.5]])  # (I - e d) / (1/2)
    equal(deviation + law, [[1.75, -0.75], [-0.25, 1.25]])
    equal(chain.kemeny(deviation), 3)  # 1 + 1 / (1 - 1/2)
    equal(chain.first_passage(PAIR, law), [[4, 8 / 3], [8, 4 / 3]])


def test_two_states_discounted() -> None:
    law = np.array([0.25, 0.75])
    deviation = chain.deviation(PAIR, law, 0.4)
    equal(deviation, [[0.9375, -0.9375], [-0.3125, 0.3125]])  # (I - e d) / (1 - 0.4 / 2)
    equal(chain.discounted_stationary(PAIR, np.array([1.0, 0]), 0.4), [0.8125, 0.1875])
    equal(chain.discounted_stationary(PAIR, law, 0.4), law)
    equal(chain.discounted_stationary(PAIR, np.array([0.5, 0.5]), 0.0), [0.5, 0.5])


def test_ergodicity_coefficient() -> None:
    assert chain.ergodicity_coefficient(PAIR) == 0.5
    assert chain.ergodicity_coefficient(np.array([[1.5, -1.5], [-0.5, 0.5]])) == 2
    assert chain.ergodicity_coefficient(np.eye(3)) == 1
    assert chain.ergodicity_coefficient(np.ones((3, 3)) / 3) == 0
    assert chain.ergodicity_coefficient(np.ones((1, 1))) == 0


# --- three states ----------------------------------------------------------------------------


def test_three_states() -> None:
    law = chain.stationary(MIDDLE)
    equal(law, [0.25, 0.5, 0.25])
    deviation = chain.deviation(MIDDLE, law)
    equal(deviation, [[0.625, -0.25, -0.375], [-0.125, 0.25, -0.125], [-0.375, -0.25, 0.625]])
    equal(deviation + law, [[0.875, 0.25, -0.125], [0.125, 0.75, 0.125], [-0.125, 0.25, 0.875]])
    equal(chain.kemeny(deviation), 2.5)  # 1 + 1 / (1 - 0) + 1 / (1 + 1)
    equal(chain.first_passage(MIDDLE, law), [[4, 1, 4], [3, 2, 3], [4, 1, 4]])
    equal(chain.ergodicity_coefficient(deviation), 1)


def test_three_states_discounted() -> None:
    # 1 and 1 / (1 + 1/2) on the eigenspaces of 0 and -1
    expected = [[2 / 3, -1 / 3, -1 / 3], [-1 / 6, 1 / 3, -1 / 6], [-1 / 3, -1 / 3, 2 / 3]]
    equal(chain.deviation(MIDDLE, np.array([0.25, 0.5, 0.25]), 0.5), expected)
    law = chain.discounted_stationary(MIDDLE, np.array([1.0, 0, 0]), 0.5)
    equal(law, [7 / 12, 1 / 3, 1 / 12])


def test_one_state() -> None:
    alone, law = np.ones((1, 1)), np.ones(1)
    assert chain.stationary(alone) == 1 and chain.deviation(alone, law) == 0
    assert chain.kemeny(chain.deviation(alone, law)) == 1
    assert chain.first_passage(alone, law) == 1
    equal(chain.discounted_stationary(alone, law, 0.9), [1])


def test_a_transient_state() -> None:
    """State 0 stays with probability 3/4; once left for the others it is never entered again."""
    matrix = np.array([[0.75, 0.25, 0], [0, 0.5, 0.5], [0, 0.5, 0.5]])
    law = np.array([0, 0.5, 0.5])
    deviation = chain.deviation(matrix, law)
    # 4 visits of state 0; 1/2 more of the state that is entered than of the other
    equal(deviation, [[4, -1.5, -2.5], [0, 0.5, -0.5], [0, -0.5, 0.5]])
    equal(chain.kemeny(deviation), 6)  # 1 + 1 / (1 - 3/4) + 1 / (1 - 0)


# --- precision -------------------------------------------------------------------------------


def exact_inverse(matrix: list[list[Fraction]]) -> list[list[Fraction]]:
    size = len(matrix)
    rows = [row + [Fraction(i == j) for j in range(size)] for i, row in enumerate(matrix)]
    for p in range(size):
        swap = next(i for i in range(p, size) if rows[i][p])
        rows[p], rows[swap] = rows[swap], rows[p]
        rows[p] = [x / rows[p][p] for x in rows[p]]
        for i in range(size):
            if i != p:
                factor = rows[i][p]
                rows[i] = [x - factor * y for x, y in zip(rows[i], rows[p], strict=True)]
    return [row[size:] for row in rows]


def nearly_decomposable() -> Any:
    """Three pairs of states, each left with 1e-9, 1e-12 or 1e-15: below the rounding of 1 - P."""
    random = np.random.default_rng(0)
    pair = np.arange(6) // 2
    matrix = np.where(pair[:, None] == pair, random.random((6, 6)), 0)
    matrix /= matrix.sum(1, keepdims=True)
    slow = np.array([1e-9, 1e-12, 1e-15])[pair][:, None]
    return (1 - slow) * matrix + slow * random.dirichlet(np.ones(6), 6)


def exact_matrices(matrix: Any, discount: float) -> tuple[Any, Any, Any]:
    """d, D and M; the diagonal of P is 1 minus the rest of its row."""
    states = range(len(matrix))
    exact = [[Fraction(float(x)) for x in row] for row in matrix]
    for i in states:
        exact[i][i] += 1 - sum(exact[i])
    balance = [[(i == j) - exact[i][j] for j in states] for i in states]
    law = exact_inverse([[*row[:-1], Fraction(1)] for row in balance])[-1]

    def fundamental(gamma: Fraction) -> list[list[Fraction]]:
        system = [[(i == j) - gamma * (exact[i][j] - law[j]) for j in states] for i in states]
        return exact_inverse(system)

    here, average = fundamental(Fraction(discount)), fundamental(Fraction(1))
    deviation = [[here[i][j] - law[j] for j in states] for i in states]
    times = [[((i == j) - average[i][j] + average[j][j]) / law[j] for j in states] for i in states]
    return np.array(law, float), np.array(deviation, float), np.array(times, float)


@pytest.mark.parametrize("discount", [1, 1 - 2.0**-50, 0.9])
def test_precision_of_a_nearly_decomposable_chain(discount: float) -> None:
    matrix = nearly_decomposable()
    # 1e-14 is 45 rounding errors, as many as an entry takes operations with six states.
    exact_law, exact_deviation, exact_times = exact_matrices(matrix, discount)
    law = chain.stationary(matrix)
    np.testing.assert_allclose(law, exact_law, rtol=1e-14, atol=0)
    assert law.min() < 1e-6
    deviation = chain.deviation(matrix, law, discount)
    size = np.abs(exact_deviation).max()
    np.testing.assert_allclose(deviation, exact_deviation, rtol=0, atol=1e-14 * size)
    times = chain.first_passage(matrix, law)
    np.testing.assert_allclose(times, exact_times, rtol=1e-14, atol=0)
    assert times.min() < 10 and times.max() > 1e14


def test_precision_of_discounts_close_to_1() -> None:
    law = chain.discounted_stationary(PAIR, np.array([1.0, 0]), 1 - 2.0**-50)
    equal(law, [0.25, 0.75])
    equal(law.sum(), 1)


@examples
@given(seeds, st.integers(1, 9), st.sampled_from([1, 2, 64]))
def test_the_block_size_does_not_matter(seed: int, states: int, block: int) -> None:
    random = np.random.default_rng(seed)
    rates, ends = random.random((states, states)), random.random(states)
    system = -rates
    np.fill_diagonal(system, 0)
    np.fill_diagonal(system, ends - system.sum(1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chain, "BLOCK", block)
        found = chain.inverse(rates, ends)
    expected = np.linalg.inv(system)  # LAPACK, relative to its largest entry
    off = rounding(10 * states, float(np.linalg.cond(system) * np.abs(expected).max()))
    np.testing.assert_allclose(found, expected, rtol=0, atol=off)


def test_a_chain_of_many_blocks() -> None:
    matrix = np.random.default_rng(0).dirichlet(np.ones(200), 200)
    law = chain.stationary(matrix)
    # One rounding error per state for the law, and two for a sum over 200 of them.
    np.testing.assert_allclose(law @ matrix, law, rtol=rounding(3 * 200, 1.0))
    system = np.eye(200) - matrix + law
    off = rounding(10 * 200, float(np.linalg.cond(system)))
    np.testing.assert_allclose(
        chain.deviation(matrix, law), np.linalg.inv(system) - law, rtol=0, atol=off
    )
