"""Linear programming over long-run state-action frequencies (Manne 1960)."""

from __future__ import annotations

import dataclasses

import numpy as np
from scipy import optimize, sparse

from longrun.base.errors import NoConvergence
from longrun.exact.tabular.mdp import MDP, Array
from longrun.exact.tabular.solvers.policy_iteration import policy_iteration
from longrun.exact.tabular.solvers.solution import OnIteration, Solution


def linear_program(
    mdp: MDP, tolerance: float, max_iterations: int, on_iteration: OnIteration
) -> Solution:
    """max sum x r over frequencies x(s, a) >= 0 with sum 1 and balanced flow in every state.

    The frequencies determine the policy in recurrent states only, so policy iteration starts from
    it: one evaluation certifies it, or several correct its transient states.
    """
    usable = mdp.available.T.ravel()
    balanced, right = flow_balance(mdp)
    found = optimize.linprog(
        -mdp.rewards.T.ravel()[usable], A_eq=balanced, b_eq=right, method="highs"
    )
    if not found.success:
        raise NoConvergence(f"linear_program stopped: HiGHS: {found.message}")
    by_action = np.where(mdp.available, frequencies(mdp, found.x), -1)
    polished = policy_iteration(
        mdp, tolerance, max_iterations, on_iteration, policy=by_action.argmax(1)
    )
    return dataclasses.replace(polished, method="linear_program", iterations=int(found.nit))


def flow_balance(mdp: MDP) -> tuple[sparse.csr_array, Array]:
    """A x = b of the frequencies x of available pairs, actions outermost: balanced, with sum 1."""
    states, usable = mdp.num_states, mdp.available.T.ravel()
    owners = np.tile(np.arange(states), mdp.num_actions)[usable]
    pairs = np.arange(len(owners))
    out = sparse.csr_array((np.ones(len(owners)), (owners, pairs)), (states, len(owners)))
    inward = sparse.csr_array(mdp.kernel)[usable].T
    everything = sparse.csr_array(np.ones((1, len(owners))))
    balanced = sparse.vstack([out - inward, everything], format="csr")
    return balanced, np.r_[np.zeros(states), 1.0]


def frequencies(mdp: MDP, found: Array) -> Array:
    """[S, A] from those of the available pairs; 0 elsewhere."""
    result = np.zeros(mdp.num_states * mdp.num_actions)
    result[mdp.available.T.ravel()] = found
    return result.reshape(mdp.num_actions, mdp.num_states).T
