"""`solve` with limits: search, then one stationary policy and its certificate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike

from longrun.base.errors import InputError, NoConvergence
from longrun.exact.tabular.limits.columns import (
    Column,
    RateEvaluator,
    best_mixture,
    stationary_law,
    stationary_policy,
)
from longrun.exact.tabular.limits.search import Search
from longrun.exact.tabular.mdp import MDP, Array
from longrun.exact.tabular.solvers.linear_program import occupation
from longrun.exact.tabular.solvers.solution import (
    OnIteration,
    Solution,
    as_precise_as_possible,
    how_far,
)
from longrun.exact.tabular.validation import cost_table

METHODS = ("linear_program", "policy_iteration")
LINEAR_PROGRAM = 2000
"""States up to which the linear program is the default. It takes 0.4 s for 961 states of the
N-model and 16 s for 5,041 on a core, and its prices there are off by 1e-4, relative."""
ATTEMPTS = 6
"""Mixtures that are tried, each further below the limits than the last was above."""


def solve_limited(
    mdp: MDP,
    method: str,
    costs: Mapping[str, ArrayLike] | None,
    limits: Mapping[str, float],
    tolerance: float,
    max_iterations: int,
    on_iteration: OnIteration,
) -> Solution:
    """The best policy that keeps the limits; `method` is one of METHODS, or "auto" by size."""
    tables = _checked(mdp, costs, limits)
    search = Search(mdp, tables, limits, tolerance, max_iterations, on_iteration)
    method = _started(search, method)
    search.become_feasible()
    search.improve()
    found = _settled(search, method)
    width = (found.gain_high - found.gain_low) / search.scale if search.scale else 0.0
    if width > tolerance and search.iterations >= search.most:
        raise NoConvergence(f"{how_far(found)}; raise max_iterations or tolerance", found)
    return as_precise_as_possible(found, width, tolerance)


def _checked(
    mdp: MDP, costs: Mapping[str, ArrayLike] | None, limits: Mapping[str, float]
) -> dict[str, Array]:
    """[S, A] each of `solve`'s costs, by default the model's own; `limits` must be of these."""
    tables = dict(mdp.costs)
    if costs is not None:
        tables = {name: cost_table(name, cost, mdp.available) for name, cost in costs.items()}
    for name, limit in limits.items():
        if name not in tables:
            told = f"there are {', '.join(tables)}" if tables else "the model has none; give costs"
            raise InputError(f"limits name '{name}', which is no cost; {told}")
        if isinstance(limit, bool) or not isinstance(limit, Real) or not math.isfinite(limit):
            raise InputError(f"limit {name}={limit!r} is not a finite number; give a rate")
    return tables


def _started(search: Search, method: str) -> str:
    """Solve the linear program, or the problem without limits; the method that is used."""
    program = None
    if not search.names or (method == "auto" and search.mdp.num_states > LINEAR_PROGRAM):
        method = "policy_iteration"
    if method != "policy_iteration":
        try:
            excess = [search.excess(k) for k in range(len(search.names))]
            program, method = occupation(search.mdp, excess), "linear_program"
        except NoConvergence:
            if method != "auto":
                raise
            method = "policy_iteration"  # HiGHS fails in slow models, which this can still solve
    if program is None:
        search.price(np.zeros(len(search.names)))
    else:
        search.start_from(program)
    return method


def _settled(search: Search, method: str) -> Solution:
    """The best mixture as one stationary policy, evaluated; below the limits if that is possible.

    The frequencies of the mixture are those of its stationary policy, up to rounding; where that
    brings a cost above its limit, a mixture that is further below is taken.
    """
    columns, exactly = _few_columns(search), np.full(len(search.prices), -search.allowed)
    margins = exactly + 3 * np.max([column.errors[1:] for column in columns], axis=0)
    found = None
    for _ in range(ATTEMPTS):
        made = _stationary(search, columns, margins)
        if made is None:  # too far below for any mixture of these
            break
        found = made
        over = np.maximum(found.excess + found.errors[1:], 0)
        if not over.any():
            break
        margins = 2 * (margins + over)
    found = found or _stationary(search, columns, exactly)
    if found is None:
        raise NoConvergence("limits are so close together that rounding decides; raise one")
    return _solution(search, method, found)


def _stationary(search: Search, columns: list[Column], margins: Array) -> Column | None:
    """A stationary policy that is below the limits by `margins` [K]; None if there is none.

    Policies with different recurrent classes have no stationary mixture: the share of time in each
    class would depend on the start. A small part of the uniform policy connects all classes.
    """
    mixture = best_mixture(columns, margins)
    if mixture is None:
        return None
    mdp = search.mdp
    found = search.column(stationary_policy(mdp, columns, mixture.weights))
    if found is not None:
        return found
    uniform = search.column(mdp.uniform_policy)
    assert uniform is not None, "a model with one end component"
    loss = search.bound - uniform.worth(search.prices)
    part = min(0.25 * search.tolerance * search.scale / loss, 0.5) if loss > 0 else 0.5
    mixture = best_mixture([*columns, uniform], margins, np.r_[np.zeros(len(columns)), part])
    if mixture is None:
        return None
    return search.column(stationary_policy(mdp, [*columns, uniform], mixture.weights))


def _few_columns(search: Search) -> list[Column]:
    """The columns; with one limit only two policies that differ in one state, if there are such."""
    mixture = best_mixture(search.columns, np.full(len(search.prices), -search.allowed))
    if mixture is None or len(search.prices) != 1 or (mixture.weights > 0).sum() != 2:
        return search.columns
    return _differing_in_one_state(
        search, *(search.columns[i] for i in np.flatnonzero(mixture.weights))
    )


def _differing_in_one_state(search: Search, first: Column, second: Column) -> list[Column]:
    """Two policies between the given ones, one on each side of the limit (Beutler and Ross 1985).

    The states where the policies differ are moved from the first's action to the second's one by
    one. All policies on the way are optimal for the same price; somewhere the cost passes the
    limit. The given ones are returned where a policy on the way has several recurrent classes, or
    is worse: in states that neither visits, their actions need not be optimal.
    """

    def lost(column: Column) -> float:
        return search.bound - column.worth(search.prices)

    places = np.flatnonzero(first.policy != second.policy)
    if (first.excess[0] > 0) == (second.excess[0] > 0):
        return [first, second]
    low, high = (0, first), (len(places), second)
    while high[0] - low[0] > 1:
        middle = (low[0] + high[0]) // 2
        policy = first.policy.copy()
        policy[places[:middle]] = second.policy[places[:middle]]
        column = search.column(policy)
        if column is None or lost(column) > 0.5 * search.tolerance * search.scale:
            return [first, second]
        if (column.excess[0] > 0) == (low[1].excess[0] > 0):
            low = (middle, column)
        else:
            high = (middle, column)
    return [low[1], high[1]]


def _solution(search: Search, method: str, found: Column) -> Solution:
    low = min(found.gain - float(found.errors[0]), search.bound)

    def named(numbers: Array) -> dict[str, float]:
        return dict(zip(search.names, numbers.tolist(), strict=True))

    rates = named(search.limits + found.excess * search.units)
    others = [name for name in search.costs if name not in rates]
    if others:
        evaluate = RateEvaluator(search.mdp, [search.costs[name] for name in others])
        rates |= dict(zip(others, evaluate(found.policy).values.tolist(), strict=True))
    return Solution(
        gain=(low + search.bound) / 2,
        gain_low=low,
        gain_high=search.bound,
        cost_rates={name: rates[name] for name in search.costs},
        limits=named(search.limits),
        multipliers=named(search.prices / search.units),
        excess=named(np.maximum(found.excess + found.errors[1:], 0) * search.units),
        policy=found.policy,
        bias=search.bias,
        iterations=search.iterations,
        method=method,
        randomised=_randomised(found.policy, stationary_law(search.mdp.chain(found.policy)[0])),
    )


def _randomised(policy: Array, law: Array) -> dict[int, dict[int, float]]:
    """Recurrent states with several actions, by their share of time."""
    several = np.flatnonzero(((policy > 0).sum(1) > 1) & (law > 0))
    order = several[np.argsort(-law[several], kind="stable")]
    return {int(s): {int(a): float(policy[s, a]) for a in np.flatnonzero(policy[s])} for s in order}
