"""Long-run averages of several payments under one policy, with bounds on their errors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from longrun.tabular.chain import DENSE, dense, stationary
from longrun.tabular.evaluation import TOLERANCE
from longrun.tabular.mdp import MDP, Array, Matrix
from longrun.tabular.poisson import SparseChain
from longrun.tabular.precision import EPS, rounding
from longrun.tabular.sparse_products import longest_row
from longrun.tabular.structure import chain_structure

PRECISE = 1e-10
"""Error, relative to the payments, above which a small chain is also evaluated by its law."""


def long_run_rates(
    mdp: MDP, policy: NDArray[np.generic], payments: Sequence[Array]
) -> tuple[Array, Array]:
    """Averages [M] of payments [S, A], M of them, and bounds [M] on their errors.

    policy: [S] or [S, A], not validated; its chain must have one recurrent class. For any h [S],
    the average of r is between the least and the largest entry of r - h + P h (`docs/theory.md`).
    """
    transition, _ = mdp.chain(policy)
    earned = np.stack([_of_policy(mdp, policy, each) for each in payments], axis=1)  # [S, M]
    biases = (_directly if mdp.num_states <= DENSE else _by_multigrid)(transition, earned)
    residual = earned - biases + transition @ biases
    low, high = residual.min(0), residual.max(0)
    sizes = np.abs(biases).max(0) + np.abs(earned).max(0)
    allowed = np.array([rounding(longest_row(transition) + 4, float(size)) for size in sizes])
    values, errors = (low + high) / 2, (high - low) / 2 + allowed
    if mdp.num_states <= DENSE and (errors > PRECISE * np.abs(earned).max(0)).any():
        return _closer(values, errors, *_by_law(transition, earned))
    return values, errors


def _of_policy(mdp: MDP, policy: NDArray[np.generic], payment: Array) -> Array:
    """[S]: mean payment of each state."""
    if policy.ndim == 1:
        return np.asarray(payment[np.arange(len(policy)), policy])
    return np.asarray(np.einsum("sa,sa->s", policy, np.where(mdp.available, payment, 0)))


def _directly(transition: Matrix, earned: Array) -> Array:
    """h [S, M] with (I - P) h = r - g by elimination; zeros where the chain is too slow for it."""
    system = np.eye(len(earned)) - dense(transition)
    system[:, 0] = 1  # h is 0 in state 0, and the gain takes its place among the unknowns
    try:
        found = np.linalg.solve(system, earned)
    except np.linalg.LinAlgError:
        return np.zeros_like(earned)
    found[0] = 0
    found -= (found.max(0) + found.min(0)) / 2  # rounding grows with the values
    return np.asarray(found if np.isfinite(found).all() else np.zeros_like(earned))


def _by_multigrid(transition: Matrix, earned: Array) -> Array:
    equations = SparseChain(transition)
    biases = np.empty_like(earned)
    for m, column in enumerate(earned.T):
        scale = float(np.abs(column).max()) or 1.0
        biases[:, m], _ = equations.solve(np.ascontiguousarray(column), None, TOLERANCE * scale)
    return np.asarray(biases - (biases.max(0) + biases.min(0)) / 2)


def _by_law(transition: Matrix, earned: Array) -> tuple[Array, Array]:
    """By the stationary law, whose entries keep their relative precision in the slowest chain.

    Elimination without subtraction is off by a few rounding errors per state (O'Cinneide 1993).
    """
    recurrent = chain_structure(transition).recurrent[0]
    law = stationary(dense(transition[recurrent][:, recurrent]))
    sizes = law @ np.abs(earned[recurrent])
    return law @ earned[recurrent], 4 * EPS * len(recurrent) * sizes


def _closer(values: Array, errors: Array, others: Array, their: Array) -> tuple[Array, Array]:
    return np.where(errors <= their, values, others), np.minimum(errors, their)
