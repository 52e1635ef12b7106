"""Policies as columns of a linear program: their long-run averages, and mixtures of them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from longrun.exact.tabular.chain import DENSE, dense, relative_values, stationary
from longrun.exact.tabular.evaluation import TOLERANCE
from longrun.exact.tabular.mdp import MDP, Array, Matrix
from longrun.exact.tabular.poisson import Mergers, SparseChain
from longrun.exact.tabular.precision import EPS, longest_row, rounding
from longrun.exact.tabular.structure import chain_structure

PRECISE = 1e-10
"""Error, relative to the payments, above which a small chain is also evaluated by its law."""


@dataclass
class Column:
    """A policy with one recurrent class, evaluated: a column of the program of mixtures."""

    policy: NDArray[Any]
    """[S] actions, or [S, A] probabilities"""
    values: Array
    """[1 + K] long-run averages of the reward and of the excess of the costs"""
    errors: Array
    """[1 + K] bounds on the errors of `values`"""
    biases: Array | None
    """[S, 1 + K]; None once they are not needed, since those of many policies fill the memory"""

    @property
    def gain(self) -> float:
        return float(self.values[0])

    @property
    def excess(self) -> Array:
        """[K]"""
        return self.values[1:]

    def worth(self, prices: Array) -> float:
        """The gain less the price of the excess."""
        return self.gain - float(prices @ self.excess)


class RateEvaluator:
    """Evaluates policies of one model, each starting from the last one's solution."""

    def __init__(self, mdp: MDP, payments: Sequence[Array], precision: float = TOLERANCE) -> None:
        """payments: M of them, [S, A] each; precision: of large chains, relative to payments."""
        self.mdp, self.payments, self.precision = mdp, payments, max(precision, TOLERANCE)
        self.mergers: Mergers | None = None
        self.guess: Array | None = None

    def __call__(self, policy: NDArray[Any]) -> Column:
        """policy: [S] or [S, A], not validated; its chain must have one recurrent class.

        For any h [S], the average of r is between the least and the largest entry of r - h + P h
        (`docs/theory.md`).
        """
        small = self.mdp.num_states <= DENSE
        transition, _ = self.mdp.chain(policy)
        earned = np.stack([_of_policy(self.mdp, policy, pay) for pay in self.payments], axis=1)
        biases = _directly(transition, earned) if small else self._by_multigrid(transition, earned)
        biases -= (biases.max(0) + biases.min(0)) / 2  # rounding grows with the values
        residual = earned - biases + transition @ biases
        low, high = residual.min(0), residual.max(0)
        sizes = np.abs(biases).max(0) + np.abs(earned).max(0)
        allowed = np.array([rounding(longest_row(transition) + 4, float(size)) for size in sizes])
        values, errors = (low + high) / 2, (high - low) / 2 + allowed
        if small and (errors > PRECISE * np.abs(earned).max(0)).any():
            # Entries of the law keep their relative precision in slow chains: elimination without
            # subtraction is off by a few rounding errors per state (O'Cinneide 1993).
            law = stationary_law(transition)
            their = 4 * EPS * np.count_nonzero(law) * (law @ np.abs(earned))
            values = np.where(errors <= their, values, law @ earned)
            errors = np.minimum(errors, their)
        return Column(policy, values, errors, biases)

    def _by_multigrid(self, transition: Matrix, earned: Array) -> Array:
        equations = SparseChain(transition, mergers=self.mergers)
        biases = np.empty_like(earned)
        for m, column in enumerate(earned.T):
            scale = float(np.abs(column).max()) or 1.0
            guess = None if self.guess is None else np.ascontiguousarray(self.guess[:, m])
            biases[:, m], _ = equations.solve(
                np.ascontiguousarray(column), guess, self.precision * scale
            )
        self.mergers, self.guess = equations.mergers, biases
        return biases


def _of_policy(mdp: MDP, policy: NDArray[Any], payment: Array) -> Array:
    """[S]: mean payment of each state."""
    if policy.ndim == 1:
        return np.asarray(payment[np.arange(len(policy)), policy])
    return np.asarray(np.einsum("sa,sa->s", policy, np.where(mdp.available, payment, 0)))


def _directly(transition: Matrix, earned: Array) -> Array:
    """h [S, M] with (I - P) h = r - g by elimination; zeros where the chain is too slow for it."""
    with suppress(np.linalg.LinAlgError):
        found = relative_values(transition, earned)
        if np.isfinite(found).all():
            return found
    return np.zeros_like(earned)


def stationary_law(transition: Matrix) -> Array:
    """d [S] of a chain with one recurrent class."""
    recurrent = chain_structure(transition).recurrent[0]
    part = transition[recurrent][:, recurrent]
    law = np.zeros(transition.shape[0])
    if len(recurrent) <= DENSE:
        law[recurrent] = stationary(dense(part))
    else:
        law[recurrent], _ = SparseChain(part).stationary(np.ones(len(recurrent)))
    return law


FINEST = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
"""HiGHS's smallest tolerances; its defaults of 1e-7 would hide what is still to be gained."""

BINDING = 1e-9
"""A limit binds if the excess, in units, is closer to it: ten times HiGHS's tolerance."""


class Mixture(NamedTuple):
    """Fractions of time under each of several policies."""

    weights: Array
    """[columns]"""
    value: float
    prices: Array
    """[K] of the excess, not negative: the program's dual variables"""


def best_mixture(
    columns: Sequence[Column], margins: Array, least: Array | None = None
) -> Mixture | None:
    """The mixture of largest gain whose mean excess [K] is at most -margins; None if none is.

    least: [columns] lower bounds on the weights.
    """
    gains = np.array([column.gain for column in columns])
    excess = np.array([column.excess for column in columns]).T
    spread = float(np.ptp(gains)) or 1.0
    found = optimize.linprog(
        -(gains - gains.max()) / spread,
        A_ub=excess,
        b_ub=-margins,
        A_eq=np.ones((1, len(columns))),
        b_eq=[1.0],
        bounds=[(low, None) for low in (np.zeros(len(columns)) if least is None else least)],
        method="highs",
        options=FINEST,
    )
    if found.status != 0:
        return None
    weights = _corrected(_as_weights(found.x), excess, margins)
    prices = np.maximum(-found.ineqlin.marginals, 0) * spread
    return Mixture(weights, float(weights @ gains), prices)


def least_violation(columns: Sequence[Column]) -> Mixture:
    """The mixture whose largest mean excess is least; the prices of the excess sum to 1."""
    excess = np.array([column.excess for column in columns]).T
    costs, count = excess.shape
    found = optimize.linprog(
        np.r_[np.zeros(count), 1.0],
        A_ub=np.c_[excess, -np.ones(costs)],
        b_ub=np.zeros(costs),
        A_eq=np.r_[np.ones(count), 0.0][None],
        b_eq=[1.0],
        bounds=[*[(0, None)] * count, (None, None)],
        method="highs",
        options=FINEST,
    )
    prices = np.maximum(-found.ineqlin.marginals, 0)
    weights = _as_weights(found.x[:-1])
    return Mixture(weights, float((excess @ weights).max()), prices / prices.sum())


def _corrected(weights: Array, excess: Array, margins: Array) -> Array:
    """The weights, with the limits that bind kept to rounding instead of HiGHS's tolerance."""
    used, binding = weights > 0, np.abs(excess @ weights + margins) < BINDING
    system = np.r_[excess[binding][:, used], np.ones((1, int(used.sum())))]
    missed = np.r_[-margins[binding], 1.0] - system @ weights[used]
    corrected = weights.copy()
    corrected[used] += np.linalg.lstsq(system, missed)[0]
    return _as_weights(corrected)


def _as_weights(solution: Array) -> Array:
    weights = np.maximum(solution, 0)
    return np.asarray(weights / weights.sum())


def stationary_policy(mdp: MDP, columns: Sequence[Column], weights: Array) -> Array:
    """[S, A] whose long-run frequencies are the weighted mean of those of the columns.

    A state's probabilities are proportional to the frequencies of its pairs. States that no column
    visits in the long run take the actions of the first one of the largest weight, which lead to
    its recurrent states.
    """
    flows = np.zeros(mdp.available.shape)
    for column, weight in zip(columns, weights, strict=True):
        if weight > 0:
            law = stationary_law(mdp.chain(column.policy)[0])
            flows += weight * law[:, None] * mdp.distribution(column.policy)
    visits = flows.sum(1, keepdims=True)
    default = mdp.distribution(columns[int(np.argmax(weights))].policy)
    return np.asarray(np.where(visits > 0, flows / np.where(visits > 0, visits, 1), default))
