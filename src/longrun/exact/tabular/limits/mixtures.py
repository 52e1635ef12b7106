"""Mixtures of policies: how much of each, and the stationary policy that does the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import optimize

from longrun.exact.tabular.limits.rates import Column, stationary_law
from longrun.exact.tabular.mdp import MDP, Array

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
