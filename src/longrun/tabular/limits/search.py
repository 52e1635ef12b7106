"""Lagrangian policy iteration: price the costs, solve, mix the policies that were found, repeat.

Strong duality: the best gain under limits is the least optimal gain of r - sum of prices times
excess, over all prices >= 0. Every price gives an upper bound, certified by policy iteration, and a
policy. The best mixture of the policies found so far is feasible, hence a lower bound, and its dual
variables are the next prices (Dantzig and Wolfe 1960). Both meet after finitely many policies.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from longrun.errors import InfeasibleLimits, NoConvergence
from longrun.tabular.limits.mixtures import Column, Mixture, best_mixture, least_violation
from longrun.tabular.limits.occupation import Occupation, combinations
from longrun.tabular.limits.problem import LimitedProblem
from longrun.tabular.limits.rates import long_run_rates
from longrun.tabular.mdp import MDP, Array
from longrun.tabular.solvers.policy_iteration import one_recurrent_class, policy_iteration
from longrun.tabular.solvers.solution import NEAR_ZERO, OnIteration, Solution
from longrun.tabular.structure import chain_structure

INNER = 0.1
"""Precision of the Lagrangian problems, relative to that of the result."""


class Search:
    """Policies, their rates, and the least upper bound so far."""

    def __init__(
        self, problem: LimitedProblem, tolerance: float, most: int, on_iteration: OnIteration
    ) -> None:
        self.problem, self.tolerance, self.most = problem, tolerance, most
        self.on_iteration = on_iteration
        self.columns: list[Column] = []
        self.seen: set[bytes] = set()
        self.iterations = 0
        self.bound, self.value = np.inf, -np.inf
        self.prices = np.zeros(len(problem.names))
        self.bias = np.zeros(problem.mdp.num_states)
        self.paid = 0.0
        """Largest absolute reward that one of the policies takes."""
        self.allowed = 0.0
        """Excess of a limit that no policy keeps by more than rounding."""

    @property
    def scale(self) -> float:
        """What the tolerance is relative to: as in `relative_width`."""
        return max(abs(self.value), abs(self.bound), NEAR_ZERO * self.paid)

    @property
    def closed(self) -> bool:
        return self.bound - self.value <= 0.5 * self.tolerance * self.scale

    def add(self, policy: NDArray[np.intp]) -> bool:
        """Whether the policy is new; one with several recurrent classes is not evaluated."""
        key = policy.tobytes()
        new = key not in self.seen
        self.seen.add(key)
        column = self.column(policy) if new else None
        if column is not None:
            self.columns.append(column)
            taken = self.problem.mdp.rewards[np.arange(len(policy)), policy]
            self.paid = max(self.paid, float(np.abs(taken).max()))
        return new

    def column(self, policy: NDArray[np.generic]) -> Column | None:
        """The policy's rates; None with several recurrent classes."""
        mdp = self.problem.mdp
        if not chain_structure(mdp.chain(policy)[0]).unichain:
            return None
        excess = [self.problem.excess(k) for k in range(len(self.problem.names))]
        values, errors = long_run_rates(mdp, policy, [mdp.rewards, *excess])
        return Column(policy, float(values[0]), values[1:], errors[1:])

    def price(self, prices: Array, start: NDArray[np.intp] | None = None) -> bool:
        """Solve the Lagrangian of prices [K]; whether its policy is new."""
        if start is None and self.columns:
            start = max(self.columns, key=lambda c: c.gain - prices @ c.excess).policy
        found = self._solved(self.problem.lagrangian(prices), start)
        if found.gain_high < self.bound:
            self.bound, self.prices, self.bias = found.gain_high, prices, found.bias
        return self.add(found.policy)

    def _solved(self, model: MDP, start: NDArray[np.intp] | None) -> Solution:
        self.iterations += 1
        try:
            found = policy_iteration(
                model, INNER * self.tolerance, 200, lambda *_: None, policy=start
            )
        except NoConvergence as stopped:  # its bracket holds, and is all that is used here
            if stopped.solution is None:
                raise
            found = stopped.solution
        self.on_iteration(self.iterations, self.value, self.bound)
        policy = one_recurrent_class(model, found.policy)
        return replace(found, policy=policy)

    def start_from(self, program: Occupation) -> None:
        """The policies between which the linear program's solution randomises."""
        self.price(program.prices, program.actions)
        for policy in combinations(self.columns[-1].policy, program.choices):
            self.add(policy)

    def become_feasible(self) -> None:
        """Add policies until a mixture keeps the limits; raise an error if none does."""
        while best_mixture(self.columns, np.zeros(len(self.prices))) is None:
            closest = least_violation(self.columns)
            start = max(self.columns, key=lambda c: -closest.prices @ c.excess).policy
            found = self._solved(self.problem.violation(closest.prices), start)
            least = -found.gain_high
            new = self.add(found.policy)
            near = closest.value - least <= self.tolerance * abs(closest.value)
            if least > 0 and (near or not new):
                raise _infeasible(self.problem, self.columns, closest)
            if not new:
                self.allowed = max(closest.value, 0.0)
                return

    def improve(self) -> None:
        """Add policies until the best mixture is as good as the bound."""
        while self.iterations < self.most:
            mixture = best_mixture(self.columns, np.full(len(self.prices), -self.allowed))
            if mixture is None:  # feasible by less than the program's tolerance
                return
            self.value = mixture.value
            if self.closed or not self.price(mixture.prices):
                return


def _infeasible(
    problem: LimitedProblem, columns: list[Column], closest: Mixture
) -> InfeasibleLimits:
    excess = closest.weights @ np.array([column.excess for column in columns])
    rates = dict(
        zip(problem.names, (problem.limits + excess * problem.units).tolist(), strict=True)
    )
    told = ", ".join(
        f"{name} {rates[name]:.6g} (limit {limit:g})"
        for name, limit in zip(problem.names, problem.limits, strict=True)
    )
    over = {
        name: max(rates[name] - float(limit), 0.0)
        for name, limit in zip(problem.names, problem.limits, strict=True)
    }
    return InfeasibleLimits(
        f"no policy keeps the limits; the closest has {told}; raise them by "
        + ", ".join(f"{value:.6g} ({name})" for name, value in over.items() if value > 0),
        rates,
        over,
    )
