"""Solvers for the optimal gain: one call, four methods, one certificate; limits; growing boxes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from longrun.base.checks import known, whole_number
from longrun.base.errors import InputError, NoConvergence
from longrun.exact.tabular.limits.solver import METHODS as LIMITED_METHODS
from longrun.exact.tabular.limits.solver import solve_limited
from longrun.exact.tabular.mdp import MDP, require_mdp
from longrun.exact.tabular.room import require_room_to_solve
from longrun.exact.tabular.solvers.linear_program import linear_program
from longrun.exact.tabular.solvers.policy_iteration import (
    one_recurrent_class,
    policy_iteration,
    relative_value_iteration,
)
from longrun.exact.tabular.solvers.solution import (
    OnIteration,
    Solution,
    as_precise_as_possible,
    relative_width,
)
from longrun.exact.tabular.structure import require_constant_gain

__all__ = ["METHODS", "NoConvergence", "Solution", "Truncation", "grow_box", "solve"]

Method = Callable[[MDP, float, int, OnIteration], Solution]
METHODS: dict[str, Method] = {
    "policy_iteration": policy_iteration,
    "value_iteration": relative_value_iteration,
    "modified_policy_iteration": partial(relative_value_iteration, sweeps=30),
    "linear_program": linear_program,
}
LIMITED_ITERATIONS = 500
"""Lagrangian problems that are solved before `solve` gives up; one limit needs about ten."""


def solve(
    mdp: MDP,
    method: str = "auto",
    *,
    costs: Mapping[str, ArrayLike] | None = None,
    limits: Mapping[str, float] | None = None,
    tolerance: float = 1e-8,
    max_iterations: int | None = None,
    on_iteration: OnIteration = lambda iteration, low, high: None,
    discount: None = None,
) -> Solution:
    """The optimal gain, bracketed to `tolerance` (relative), with a policy that reaches it.

    method: one of METHODS; "auto" is policy iteration, or with limits what suits the size.
    costs, limits: by name, arrays [S, A] or [S] (default: the model's own) and the largest
    long-run averages that the policy may have. The policy may then randomise; limits that no
    policy keeps raise `InfeasibleLimits`, which says by how much.
    Where the gain is near 0, the width is relative to a thousandth of the rewards that are taken.
    A model whose optimal gain depends on the start raises an error that says why. Where rounding
    keeps the bracket wider than `tolerance`, as in slow models, the result is as precise as
    rounding allows and a `PrecisionWarning` says so. A bracket wider than a tenth of the gain, or
    still open after `max_iterations`, raises `NoConvergence`, whose `solution` is the best so far.
    There is no discount: it is refused with what to call instead.
    """
    require_mdp("solve", mdp)
    if discount is not None:
        raise InputError(
            "solve has no discount: it maximises the long-run average; give evaluate(mdp, policy,"
            f" discount={discount!r}) or trust_region_policy_iteration(mdp, discount={discount!r})"
        )
    limited = costs is not None or limits is not None
    if limited:
        known("method under limits", method, ("auto", *LIMITED_METHODS))
    known("method", method, ("auto", *METHODS))
    if not isinstance(tolerance, Real) or not 0 < tolerance < 1:
        raise InputError(f"tolerance={tolerance!r} is not between 0 and 1; take 1e-8, for example")
    if max_iterations is not None:
        whole_number("max_iterations", max_iterations, 1)
    require_room_to_solve(mdp, len(limits or {}))
    require_constant_gain(mdp)
    if limited:
        most = max_iterations or LIMITED_ITERATIONS
        return solve_limited(mdp, method, costs, limits or {}, tolerance, most, on_iteration)
    chosen = METHODS["policy_iteration" if method == "auto" else method]
    most = max_iterations or (200 if chosen in (policy_iteration, linear_program) else 1_000_000)
    return _solved(mdp, chosen, tolerance, most, on_iteration)


def _solved(
    mdp: MDP, method: Method, tolerance: float, most: int, on_iteration: OnIteration
) -> Solution:
    """Solve without limits; warn or raise an error if the bracket stays wider than `tolerance`."""
    try:
        found = method(mdp, tolerance, most, on_iteration)
        width = relative_width(mdp, found.policy, found.gain_low, found.gain_high)
    except NoConvergence as stopped:
        if stopped.solution is not None:
            stopped.solution = _in_one_class(mdp, stopped.solution)
        raise
    return as_precise_as_possible(_in_one_class(mdp, found), width, tolerance)


def _in_one_class(mdp: MDP, found: Solution) -> Solution:
    return replace(found, policy=one_recurrent_class(mdp, found.policy))


@dataclass(frozen=True)
class Truncation:
    """Solutions of growing boxes, and an estimate of the distance from the infinite box."""

    sizes: list[int]
    solutions: list[Solution]

    @property
    def gain(self) -> float:
        """Gain of the largest box."""
        return self.solutions[-1].gain

    @property
    def error(self) -> float:
        """Estimate (not a bound) of the distance from the limit, brackets included.

        Gains approach their limit geometrically when tails are geometric: the error of a box of
        size n is proportional to q^n. The last two changes determine q, and the last one then the
        remainder, which is limited to ten times the last change, also where changes do not shrink.
        """
        gains = [solution.gain for solution in self.solutions]
        slack = self.solutions[-1].gain_high - self.solutions[-1].gain_low
        last = abs(gains[-1] - gains[-2])
        if len(gains) < 3 or last == 0:
            return last + slack
        before = abs(gains[-2] - gains[-3])
        steps = self.sizes[-2] - self.sizes[-3], self.sizes[-1] - self.sizes[-2]
        shrink = _shrinkage(last / before if before else np.inf, *steps)
        remainder = last * shrink / (1 - shrink) if shrink < 10 / 11 else 10 * last
        return max(remainder, 0.01 * last) + slack


def _shrinkage(ratio: float, first: int, second: int) -> float:
    """q^second, where changes over these sizes have the ratio (1 - q^second) / (q^-first - 1).

    With equal steps this is the ratio itself.
    """
    if ratio >= second / first:  # q = 1: they do not shrink
        return 1.0
    power = second / first
    low, high = 0.0, 1.0  # of x = q^first
    for _ in range(60):
        x = (low + high) / 2
        low, high = (x, high) if x * (1 - x**power) < ratio * (1 - x) else (low, x)
    return float(low**power)


def grow_box(
    build: Callable[[int], MDP],
    sizes: Sequence[int],
    **options: Any,
) -> Truncation:
    """Solve `build(size)` for each of the growing sizes; `options` are passed to `solve`."""
    if len(sizes) < 2 or list(sizes) != sorted(set(sizes)):
        raise InputError(f"sizes={list(sizes)} need at least two, growing")
    return Truncation(list(sizes), [solve(build(size), **options) for size in sizes])
