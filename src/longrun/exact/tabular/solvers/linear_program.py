"""Linear programming over long-run frequencies of states and actions (Manne 1960)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import optimize, sparse

from longrun.base.errors import NoConvergence
from longrun.exact.tabular.mdp import MDP, Array
from longrun.exact.tabular.solvers.policy_iteration import policy_iteration
from longrun.exact.tabular.solvers.solution import OnIteration, Solution

INFEASIBLE = 2
"""The status of `linprog` for a program without a solution."""


class Occupation(NamedTuple):
    """A solution of the program: exact up to HiGHS's tolerances, and certified elsewhere."""

    frequencies: Array
    """[S, A]; -1 where an action is not available"""
    prices: Array
    """[K] dual variables of the limits, not negative"""
    iterations: int


def linear_program(
    mdp: MDP, tolerance: float, max_iterations: int, on_iteration: OnIteration
) -> Solution:
    """The program's policy, polished.

    The frequencies determine the policy in recurrent states only, so policy iteration starts from
    it: one evaluation certifies it, or several correct its transient states.
    """
    found = occupation(mdp)
    assert found is not None, "some policy has a law"
    best = found.frequencies.argmax(1)
    polished = policy_iteration(mdp, tolerance, max_iterations, on_iteration, policy=best)
    return dataclasses.replace(polished, method="linear_program", iterations=found.iterations)


def occupation(mdp: MDP, excess: Sequence[Array] = ()) -> Occupation | None:
    """max sum x r over frequencies x(s, a) >= 0 with sum 1 and balanced flow in every state.

    excess: K of them, [S, A] each; sum x excess <= 0. None if no x satisfies that.
    """
    usable = mdp.available.T.ravel()
    balanced, right = _flow_balance(mdp)
    found = optimize.linprog(
        -mdp.rewards.T.ravel()[usable],
        A_ub=np.array([each.T.ravel()[usable] for each in excess]) if excess else None,
        b_ub=np.zeros(len(excess)) if excess else None,
        A_eq=balanced,
        b_eq=right,
        method="highs",
    )
    if excess and found.status == INFEASIBLE:
        return None
    if not found.success:
        raise NoConvergence(
            f"linear_program stopped: HiGHS: {found.message}; take method='policy_iteration'"
        )
    frequencies = np.full(len(usable), -1.0)
    frequencies[usable] = found.x
    by_state = frequencies.reshape(mdp.num_actions, mdp.num_states).T
    return Occupation(by_state, np.maximum(-found.ineqlin.marginals, 0), int(found.nit))


def _flow_balance(mdp: MDP) -> tuple[sparse.csr_array, Array]:
    """A x = b of the frequencies x of available pairs, actions outermost: balanced, with sum 1."""
    states, usable = mdp.num_states, mdp.available.T.ravel()
    owners = np.tile(np.arange(states), mdp.num_actions)[usable]
    pairs = np.arange(len(owners))
    out = sparse.csr_array((np.ones(len(owners)), (owners, pairs)), (states, len(owners)))
    inward = sparse.csr_array(mdp.kernel)[usable].T
    everything = sparse.csr_array(np.ones((1, len(owners))))
    balanced = sparse.vstack([out - inward, everything], format="csr")
    return balanced, np.r_[np.zeros(states), 1.0]
