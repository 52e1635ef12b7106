"""`solve` with limits: search, then one stationary policy and its certificate."""

from __future__ import annotations

import warnings

import numpy as np

from longrun.errors import NoConvergence
from longrun.tabular.limits.few_states import differ_in_one_state
from longrun.tabular.limits.mixtures import (
    Column,
    best_mixture,
    stationary_law,
    stationary_policy,
)
from longrun.tabular.limits.occupation import solve_occupation
from longrun.tabular.limits.problem import LimitedProblem
from longrun.tabular.limits.rates import long_run_rates
from longrun.tabular.limits.search import Search
from longrun.tabular.limits.solution import LimitedSolution, randomised_states
from longrun.tabular.mdp import Array
from longrun.tabular.precision import USELESS, PrecisionWarning
from longrun.tabular.solvers.solution import OnIteration

METHODS = ("linear_program", "policy_iteration")
LINEAR_PROGRAM = 2000
"""States up to which the linear program is the default. It takes 0.4 s for 961 states of the
N-model and 16 s for 5,041 on a core, and its prices there are off by 1e-4, relative."""
ATTEMPTS = 6
"""Mixtures that are tried, each further below the limits than the last was above."""


def solve_limited(
    problem: LimitedProblem,
    method: str,
    tolerance: float,
    max_iterations: int,
    on_iteration: OnIteration,
) -> LimitedSolution:
    """The best policy that keeps the limits; `method` is one of METHODS, or "auto" by size."""
    if method == "auto":
        small = problem.mdp.num_states <= LINEAR_PROGRAM and problem.names
        method = "linear_program" if small else "policy_iteration"
    search = Search(problem, tolerance, max_iterations, on_iteration)
    program = solve_occupation(problem) if method == "linear_program" else None
    if program is not None:
        search.start_from(program)
    else:
        search.price(np.zeros(len(problem.names)))
    search.become_feasible()
    search.improve()
    found = _settled(search, method)
    width = (found.gain_high - found.gain_low) / search.scale
    if width <= tolerance:
        return found
    told = (
        f"{method} stopped after {found.iterations} iterations with the gain under limits between "
        f"{found.gain_low:.14g} and {found.gain_high:.14g}"
    )
    if search.iterations >= search.most:
        raise NoConvergence(f"{told}; raise max_iterations or tolerance", found)
    if width > USELESS:
        raise NoConvergence(f"{told}; speed up the model's rarest transitions", found)
    warnings.warn(f"{told}; rounding does not allow more here", PrecisionWarning, stacklevel=3)
    return found


def _settled(search: Search, method: str) -> LimitedSolution:
    """The best mixture as one stationary policy, evaluated; below the limits if that is possible.

    The frequencies of the mixture are those of its stationary policy, up to rounding; where that
    brings a cost above its limit, a mixture that is further below is taken.
    """
    columns, margins = _few_columns(search), np.full(len(search.prices), -search.allowed)
    if not search.allowed:
        margins = 3 * np.max([column.errors for column in columns], axis=0)
    policy = values = errors = None
    for _ in range(ATTEMPTS):
        made = _stationary(search, columns, margins)
        if made is None:  # too far below for any mixture of these
            break
        policy, values, errors = made
        over = np.maximum(values[1:] + errors[1:], 0)
        if not over.any():
            break
        margins = margins + 2 * over
    if policy is None or values is None or errors is None:
        made = _stationary(search, columns, np.full(len(margins), -search.allowed))
        if made is None:
            raise NoConvergence("rounding errors exceed the range between the costs' limits")
        policy, values, errors = made
    return _solution(search, method, policy, values, errors)


def _stationary(
    search: Search, columns: list[Column], margins: Array
) -> tuple[Array, Array, Array] | None:
    """A policy [S, A] below the limits by `margins` [K], with its rates and their errors [1 + K].

    Policies with different recurrent classes have no stationary mixture: the share of time in each
    class would depend on the start. A small part of the uniform policy connects all classes.
    """
    mixture = best_mixture(columns, margins)
    if mixture is None:
        return None
    mdp = search.problem.mdp
    used = mixture.weights > 0
    policy = stationary_policy(mdp, [c for c, u in zip(columns, used, strict=True) if u], mixture.weights[used])
    if search.column(policy) is None:
        uniform = search.column(mdp.uniform_policy)
        assert uniform is not None, "a model with one end component"
        loss = search.bound - (uniform.gain - search.prices @ uniform.excess)
        part = min(0.25 * search.tolerance * search.scale / loss, 0.5) if loss > 0 else 0.5
        columns = [*columns, uniform]
        mixture = best_mixture(columns, margins, np.r_[np.zeros(len(columns) - 1), part])
        if mixture is None:
            return None
        policy = stationary_policy(mdp, columns, mixture.weights)
    excess = [search.problem.excess(k) for k in range(len(search.prices))]
    return policy, *long_run_rates(mdp, policy, [mdp.rewards, *excess])


def _few_columns(search: Search) -> list[Column]:
    """With one limit, two policies that differ in one state, if there are such."""
    mixture = best_mixture(search.columns, np.full(len(search.prices), -search.allowed))
    if mixture is None or len(search.prices) != 1 or (mixture.weights > 0).sum() != 2:
        return search.columns
    first, second = (search.columns[i] for i in np.flatnonzero(mixture.weights))
    return [*differ_in_one_state(search, first, second)]


def _solution(
    search: Search, method: str, policy: Array, values: Array, errors: Array
) -> LimitedSolution:
    problem = search.problem
    over = np.maximum(values[1:] + errors[1:], 0) * problem.units
    prices = search.prices / problem.units
    rates, _ = (
        long_run_rates(problem.mdp, policy, list(problem.costs.values()))
        if problem.costs
        else (np.zeros(0), None)
    )
    low = min(float(values[0] - errors[0]), search.bound)
    law = stationary_law(problem.mdp, policy)

    def named(numbers: Array) -> dict[str, float]:
        return dict(zip(problem.names, numbers.tolist(), strict=True))

    return LimitedSolution(
        gain=(low + search.bound) / 2,
        gain_low=low,
        gain_high=search.bound,
        cost_rates=dict(zip(problem.costs, rates.tolist(), strict=True)),
        limits=named(problem.limits),
        multipliers=named(prices),
        excess=named(over),
        policy=policy,
        bias=search.bias,
        iterations=search.iterations,
        method=method,
        randomised=randomised_states(policy, law),
    )
