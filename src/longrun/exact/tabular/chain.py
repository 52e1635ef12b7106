"""Matrices of one Markov chain, dense: the paper's Appendix A.1.

P is [S, S], d the stationary law [S], e a vector of ones, gamma the discount.

Everything is computed from inverses of matrices like I - gamma P that are never formed: only the
rates between states are used, none of which is ever subtracted (Grassmann, Taksar and Heyman 1985;
Alfa, Xue and Ye 2002). The smallest probabilities of a nearly decomposable chain, and a discount of
1 - 1e-12, keep their full relative precision, which 1 - P(s, s) would lose.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from longrun.base.errors import NoConvergence
from longrun.exact.tabular.mdp import Array, Matrix

DENSE = 2000
"""Largest number of states for which matrices are dense."""
BLOCK = 64
"""States that are eliminated one by one; larger matrices are split in two."""


def dense(matrix: Matrix) -> Array:
    """The same matrix as an array."""
    return np.asarray(matrix.toarray() if sparse.issparse(matrix) else matrix)


def stationary(transition: Array) -> Array:
    """d with d P = d, of an irreducible chain; every entry to full relative precision.

    The chain restricted to the first half of the states is solved recursively; then each stay in
    the other half is attributed to the state that it started from.
    """
    states = len(transition)
    if states == 1:
        return np.ones(1)
    half = states // 2
    away = inverse(transition[half:, half:], transition[half:, :half].sum(1))
    trips = transition[:half, half:] @ away
    law = stationary(transition[:half, :half] + trips @ transition[half:, :half])
    law = np.concatenate([law, law @ trips])
    return np.asarray(law / law.sum())


def inverse(rates: Array, ends: Array) -> Array:
    """Mean visits [S, S], the inverse of the matrix with -rates off its diagonal and row sums ends.

    rates: [S, S], not negative; the diagonal is ignored. ends: [S], not negative; from every state,
    one where they are positive must be reachable.
    """
    states = len(rates)
    if states <= BLOCK:
        return _eliminated(rates, ends)
    half = states // 2
    there, back = rates[:half, half:], rates[half:, :half]
    first = inverse(rates[:half, :half], ends[:half] + there.sum(1))
    into, outof = first @ there, back @ first
    second = inverse(rates[half:, half:] + back @ into, ends[half:] + outof @ ends[:half])
    out = np.empty((states, states))
    out[:half, half:] = into @ second
    out[half:, :half] = second @ outof
    out[:half, :half] = first + out[:half, half:] @ outof
    out[half:, half:] = second
    return out


def _eliminated(rates: Array, ends: Array) -> Array:
    """Gauss-Jordan elimination; a state's pivot is the sum of the rates at which it is left."""
    states = len(rates)
    table = np.column_stack([rates, ends])
    for state in range(states):
        row, column = table[state], table[:, state].copy()
        column[state] = 0
        leaving = row[state + 1 :].sum()
        if not leaving > 0:
            raise NoConvergence(
                "transitions underflow while the chain is eliminated; drop tiny ones"
            )
        table[:, state] = 0
        row[state] = 1
        row /= leaving
        table += np.outer(column, row)
    return table[:, :states]


def deviation(transition: Array, law: Array, discount: float = 1.0) -> Array:
    """D = sum over t of gamma^t (P^t - e d); for gamma = 1 the group inverse of I - P.

    With G the mean discounted visits before the likeliest state is reached, and h the mean of gamma
    to the power of the time until then, D = (I - h d / (d h)) G (I - e d). G is at most four times
    as large as D, so that little precision is lost when the products are subtracted.
    """
    goal = int(np.argmax(law))
    others = np.delete(np.arange(len(law)), goal)
    visits = np.zeros_like(transition)
    arrivals = discount * transition[others, goal]
    rates = discount * transition[np.ix_(others, others)]
    visits[np.ix_(others, others)] = inverse(rates, 1 - discount + arrivals)
    arrived = np.ones(len(law))
    arrived[others] = visits[np.ix_(others, others)] @ arrivals
    visits -= np.outer(visits.sum(1), law)
    return np.asarray(visits - np.outer(arrived, law @ visits / (law @ arrived)))


def kemeny(deviation_matrix: Array) -> float:
    """kappa = trace Z = 1 + trace D: mean steps from any state to one drawn from d (gamma = 1)."""
    return 1 + float(np.trace(deviation_matrix))


def first_passage(transition: Array, law: Array) -> Array:
    """M [S, S]: mean steps from s until s' is entered, of an irreducible chain (gamma = 1).

    M = (I - Z + E Z_dg) D is not used, since Z may be far larger than the difference.
    """
    times = _passage(transition, np.ones(len(law)))
    np.fill_diagonal(times, 1 / law)
    return times


def _passage(transition: Array, stay: Array) -> Array:
    """Mean time [S, S] until s' is reached from s, 0 from itself; a visit of s lasts stay[s].

    To reach a state of one half, only the chain restricted to that half is considered, where a
    visit lasts until the return to it; states of the other half first have to reach this half.
    """
    states = len(transition)
    times = np.zeros((states, states))
    if states == 1:
        return times
    first, second = np.split(np.arange(states), [states // 2])
    for inside, outside in ((first, second), (second, first)):
        over = transition[np.ix_(outside, inside)]
        away = inverse(transition[np.ix_(outside, outside)], over.sum(1))
        gone = transition[np.ix_(inside, outside)]
        wait, entry = away @ stay[outside], away @ over
        watched = transition[np.ix_(inside, inside)] + gone @ entry
        found = _passage(watched, stay[inside] + gone @ wait)
        times[np.ix_(inside, inside)] = found
        times[np.ix_(outside, inside)] = wait[:, None] + entry @ found
    return times


def discounted_stationary(transition: Array, initial: Array, discount: float) -> Array:
    """d_gamma = (1 - gamma) d_0 (I - gamma P)^-1."""
    ends = np.full(len(initial), 1 - discount)
    return np.asarray((ends * initial) @ inverse(discount * transition, ends))


def ergodicity_coefficient(matrix: Array) -> float:
    """tau_1 = sup |x B|_1 over |x|_1 = 1, x e = 0: half the largest distance of two rows of B."""
    rows = len(matrix)
    if rows == 1:
        return 0.0
    return 0.5 * max(
        float(np.abs(matrix[i + 1 :] - matrix[i]).sum(1).max()) for i in range(rows - 1)
    )


def relative_values(transition: Matrix, rewards: Array, discount: float = 1.0) -> Array:
    """x [S] or [S, M], 0 in state 0, with (I - gamma P) x = r up to a constant on the right."""
    system = np.eye(len(rewards)) - discount * dense(transition)
    system[:, 0] = 1  # the constant takes the place of x[0] among the unknowns
    solution = np.linalg.solve(system, rewards)
    solution[0] = 0
    return np.asarray(solution)
