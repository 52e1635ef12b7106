"""Solvers for the optimal gain: one call, four methods, the same certificate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from longrun.errors import InputError, NoConvergence
from longrun.tabular.mdp import MDP
from longrun.tabular.solvers.linear_program import linear_program
from longrun.tabular.solvers.policy_iteration import (
    EVALUATIONS,
    one_recurrent_class,
    policy_iteration,
)
from longrun.tabular.solvers.solution import OnIteration, Solution
from longrun.tabular.solvers.value_iteration import (
    modified_policy_iteration,
    relative_value_iteration,
)
from longrun.tabular.structure import require_constant_gain

__all__ = ["METHODS", "NoConvergence", "Solution", "solve"]

Method = Callable[[MDP, float, int, OnIteration], Solution]
METHODS: dict[str, Method] = {
    "policy_iteration": policy_iteration,
    "value_iteration": relative_value_iteration,
    "modified_policy_iteration": modified_policy_iteration,
    "linear_program": linear_program,
}


def solve(
    mdp: MDP,
    method: str = "policy_iteration",
    *,
    tolerance: float = 1e-8,
    max_iterations: int | None = None,
    linear_solver: str = "auto",
    on_iteration: OnIteration = lambda iteration, low, high: None,
) -> Solution:
    """The optimal gain, bracketed to `tolerance` (relative), with a policy that reaches it.

    Where the gain is near 0, the width is relative to a thousandth of the rewards that are taken.
    linear_solver: how policy iteration evaluates: "dense", "lu", "krylov", or "auto" by size.
    A model whose optimal gain depends on the start is refused with the reason; a bracket that does
    not close raises `NoConvergence` and tells how far it came.
    """
    if method not in METHODS:
        raise InputError(f"method='{method}' is unknown; valid: {', '.join(METHODS)}")
    if linear_solver not in ("auto", *EVALUATIONS):
        raise InputError(
            f"linear_solver='{linear_solver}' is unknown; valid: auto, {', '.join(EVALUATIONS)}"
        )
    if not 0 < tolerance < 1:
        raise InputError(f"tolerance={tolerance} is not between 0 and 1; take 1e-8, for example")
    if max_iterations is not None and max_iterations < 1:
        raise InputError(f"max_iterations={max_iterations} is less than 1")
    require_constant_gain(mdp)
    limit = max_iterations or (200 if method == "policy_iteration" else 1_000_000)
    if method == "policy_iteration":
        found = policy_iteration(mdp, tolerance, limit, on_iteration, linear_solver)
    else:
        found = METHODS[method](mdp, tolerance, limit, on_iteration)
    return replace(found, policy=one_recurrent_class(mdp, found.policy))
