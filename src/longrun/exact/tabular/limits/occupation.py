"""The linear program over long-run frequencies of states and actions, with limits."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy import optimize

from longrun.base.errors import NoConvergence
from longrun.exact.tabular.limits.problem import LimitedProblem
from longrun.exact.tabular.mdp import Array
from longrun.exact.tabular.solvers.linear_program import flow_balance, frequencies
from longrun.exact.tabular.solvers.solution import Actions

NOISE = 1e-10
"""Frequencies below this may be rounding errors of HiGHS."""
MOST_POLICIES = 64
"""Combinations of actions that are tried in the states where the program's policy randomises."""
INFEASIBLE = 2
"""The status of `linprog` for a program without a solution."""


class Occupation(NamedTuple):
    """A solution of the program: exact up to HiGHS's tolerances, and certified elsewhere."""

    prices: Array
    """[K] dual variables of the limits, not negative"""
    actions: Actions
    """[S] the most frequent action of each state"""
    choices: dict[int, list[int]]
    """the states with several frequent actions, at most K more than one each in all"""


def solve_occupation(problem: LimitedProblem) -> Occupation | None:
    """max sum x r where x is balanced (Manne 1960) and sum x excess <= 0; None if infeasible."""
    mdp = problem.mdp
    usable = mdp.available.T.ravel()
    balanced, right = flow_balance(mdp)
    costs = [problem.excess(k).T.ravel()[usable] for k in range(len(problem.names))]
    found = optimize.linprog(
        -mdp.rewards.T.ravel()[usable],
        A_ub=np.array(costs),
        b_ub=np.zeros(len(costs)),
        A_eq=balanced,
        b_eq=right,
        method="highs",
    )
    if found.status == INFEASIBLE:
        return None
    if not found.success:
        raise NoConvergence(
            f"linear_program stopped: HiGHS: {found.message}; take method='policy_iteration'"
        )
    flows = frequencies(mdp, found.x)
    actions = np.where(mdp.available, flows, -1).argmax(1)
    prices = np.maximum(-found.ineqlin.marginals, 0)
    return Occupation(prices, actions, _choices(flows, actions, len(costs)))


def _choices(flows: Array, actions: Actions, most: int) -> dict[int, list[int]]:
    """A vertex of the program has at most K more frequent pairs than states that are visited."""
    rest = flows.copy()
    rest[np.arange(len(actions)), actions] = 0
    largest = np.argsort(-rest, axis=None, kind="stable")[:most]
    choices: dict[int, list[int]] = {}
    for s, a in zip(*np.unravel_index(largest, rest.shape), strict=True):
        if rest[s, a] > NOISE:
            choices.setdefault(int(s), [int(actions[s])]).append(int(a))
    return choices


def combinations(policy: Actions, choices: dict[int, list[int]]) -> Iterator[Actions]:
    """The policy with each combination of the choices' actions, unless there are too many."""
    if np.prod([len(actions) for actions in choices.values()]) > MOST_POLICIES:
        return
    for chosen in itertools.product(*choices.values()):
        changed = policy.copy()
        changed[list(choices)] = chosen
        yield changed
