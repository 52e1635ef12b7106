"""Matrices of one Markov chain, dense: the paper's Appendix A.1.

P is [S, S], d the stationary law [S], e a vector of ones, gamma the discount.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from longrun.tabular.mdp import Array


GTH_LIMIT = 500


def stationary(transition: Array) -> Array:
    """d with d P = d, of an irreducible chain.

    State by state the chain is watched only on the states that are left (Grassmann, Taksar and
    Heyman 1985). Nothing is ever subtracted, so even the smallest probabilities of a nearly
    decomposable chain come out to full relative precision. Beyond GTH_LIMIT states that takes too
    long, and a linear system is solved.
    """
    if len(transition) > GTH_LIMIT:
        return _stationary_by_elimination(transition)
    watched = transition.copy()
    states = len(watched)
    leaving = np.empty(states)
    for last in range(states - 1, 0, -1):
        leaving[last] = watched[last, :last].sum()
        watched[:last, last] /= leaving[last]
        watched[:last, :last] += np.outer(watched[:last, last], watched[last, :last])
    law = np.ones(states)
    for state in range(1, states):
        law[state] = law[:state] @ watched[:state, state]
    return law / law.sum()


def _stationary_by_elimination(transition: Array) -> Array:
    """d (I - P) = 0 with d e = 1 in place of the last equation."""
    system = np.eye(len(transition)) - transition
    system[:, -1] = 1
    right = np.zeros(len(transition))
    right[-1] = 1
    return np.maximum(np.asarray(linalg.solve(system.T, right)), 0)


def fundamental(transition: Array, law: Array, discount: float = 1.0) -> Array:
    """Z = (I - gamma P + gamma e d)^-1, the (discounted) fundamental matrix."""
    return np.asarray(linalg.inv(np.eye(len(law)) - discount * (transition - law)))


def deviation(fundamental_matrix: Array, law: Array) -> Array:
    """D = Z - e d = sum over t of gamma^t (P^t - e d); for gamma = 1 the group inverse of I - P."""
    return fundamental_matrix - law


def kemeny(fundamental_matrix: Array) -> float:
    """kappa = trace Z: mean time from any state to one drawn from d, counted from 1 (gamma = 1)."""
    return float(np.trace(fundamental_matrix))


def first_passage(fundamental_matrix: Array, law: Array) -> Array:
    """M = (I - Z + E Z_dg) D [S, S]: mean number of steps from s until s' is entered (gamma = 1)."""
    return np.asarray((np.eye(len(law)) - fundamental_matrix + np.diag(fundamental_matrix)) / law)


def discounted_stationary(transition: Array, initial: Array, discount: float) -> Array:
    """d_gamma = (1 - gamma) d_0 (I - gamma P)^-1."""
    system = np.eye(len(initial)) - discount * transition
    return np.asarray(linalg.solve(system.T, (1 - discount) * initial))


def ergodicity_coefficient(matrix: Array) -> float:
    """tau_1 = sup |x B|_1 over |x|_1 = 1, x e = 0: half the largest distance of two rows of B."""
    rows = len(matrix)
    if rows == 1:
        return 0.0
    return 0.5 * max(
        float(np.abs(matrix[i + 1 :] - matrix[i]).sum(1).max()) for i in range(rows - 1)
    )
