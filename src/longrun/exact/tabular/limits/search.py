"""Lagrangian policy iteration: price the costs, solve, mix the policies that were found, repeat.

Strong duality: the best gain under limits is the least optimal gain of r - sum of prices times
excess, over all prices >= 0. Every price gives an upper bound, certified by policy iteration, and a
policy. The best mixture of the policies found so far is feasible, hence a lower bound, and its dual
variables are the next prices (Dantzig and Wolfe 1960). Both meet after finitely many policies.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longrun.base.errors import InfeasibleLimits, NoConvergence
from longrun.exact.tabular.limits.columns import (
    Column,
    Mixture,
    RateEvaluator,
    best_mixture,
    least_violation,
)
from longrun.exact.tabular.mdp import MDP, Array
from longrun.exact.tabular.solvers.linear_program import Occupation
from longrun.exact.tabular.solvers.policy_iteration import one_recurrent_class, policy_iteration
from longrun.exact.tabular.solvers.solution import NEAR_ZERO, OnIteration, Solution
from longrun.exact.tabular.structure import chain_structure

INNER = 0.1
"""Precision of the Lagrangian problems, relative to that of the result."""
EARLY = 0.01
"""Precision of the Lagrangian problems while the bounds are apart, relative to the gap."""
EVALUATED = 1e-3
"""Precision of the evaluations of large chains, relative to the tolerance; the payments that it is
relative to in turn are larger than their averages."""
STEPS = 200
"""Steps of policy iteration for one of them."""
NOISE = 1e-10
"""Frequencies below this may be rounding errors of HiGHS."""
MOST_POLICIES = 64
"""Combinations of actions that are tried in the states where the program's policy randomises."""


class Search:
    """Policies, their rates, and the least upper bound so far.

    Costs are used in units of their range in the model, so that limits on falls per step and on
    waiting customers can be weighed against each other: the excess [K] of the costs that have a
    limit is (cost - limit) / unit, and prices are multipliers of that.
    """

    def __init__(
        self,
        mdp: MDP,
        costs: dict[str, Array],
        limits: Mapping[str, float],
        tolerance: float,
        most: int,
        on_iteration: OnIteration,
    ) -> None:
        """costs: [S, A] each, all that there are; most: Lagrangian problems that are solved."""
        self.mdp, self.costs, self.names = mdp, costs, tuple(limits)
        self.limits = np.array(list(limits.values()), float)
        self.units = np.array([_range(mdp, costs[name]) for name in limits])
        self.tolerance, self.most, self.on_iteration = tolerance, most, on_iteration
        payments = [mdp.rewards, *(self.excess(k) for k in range(len(limits)))]
        self.rates = RateEvaluator(mdp, payments, EVALUATED * tolerance)
        self.columns: list[Column] = []
        self.seen: set[bytes] = set()
        self.iterations = 0
        self.bound, self.value = np.inf, -np.inf
        self.prices = np.zeros(len(limits))
        self.bias = np.zeros(mdp.num_states)
        self.paid = 0.0
        """Largest absolute reward that one of the policies takes."""
        self.allowed = 0.0
        """Excess of a limit that no policy keeps by more than rounding."""

    def excess(self, k: int) -> Array:
        """[S, A] of one cost, in its unit; not kept, since large models have little memory."""
        return np.asarray((self.costs[self.names[k]] - self.limits[k]) / self.units[k])

    def priced(self, prices: Array, rewards: Array | float = 0.0) -> MDP:
        """The model with rewards minus the prices [K] of the excess.

        With the model's own rewards, this Lagrangian's optimal gain is an upper bound: a policy
        that keeps the limits pays a negative price, and so gains at least what it earns. Without
        rewards, minus its gain is a lower bound on the excess.
        """
        total = np.zeros(self.mdp.available.shape)
        for k in np.flatnonzero(prices):
            total += prices[k] * self.excess(int(k))
        return self.mdp.with_rewards(rewards - total)

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
            taken = self.mdp.rewards[np.arange(len(policy)), policy]
            self.paid = max(self.paid, float(np.abs(taken).max()))
        return new

    def column(self, policy: NDArray[Any]) -> Column | None:
        """The policy's rates; None with several recurrent classes."""
        if not chain_structure(self.mdp.chain(policy)[0]).unichain:
            return None
        return self.rates(policy)

    def price(self, prices: Array, start: NDArray[np.intp] | None = None) -> bool:
        """Solve the Lagrangian of prices [K]; whether its policy is new.

        It is solved to a fraction of the gap that is still open, or to a fraction of the tolerance
        where that finds no new policy.
        """
        least = INNER * self.tolerance
        for goal in dict.fromkeys([max(least, EARLY * self.gap), least]):
            values = None
            if start is None and self.columns:
                known = (column for column in self.columns if column.biases is not None)
                best = max(known, key=lambda column: column.worth(prices))
                start, values = best.policy, best.biases @ np.r_[1.0, -prices]
            found = self._solved(self.priced(prices, self.mdp.rewards), goal, start, values)
            if found.gain_high < self.bound:
                self.bound, self.prices, self.bias = found.gain_high, prices, found.bias
            if self.add(found.policy):
                return True
            start = found.policy
        return False

    @property
    def gap(self) -> float:
        """Relative; 1 while one of the bounds is missing."""
        if not 0 < self.scale < np.inf:
            return 1.0
        return min((self.bound - self.value) / self.scale, 1.0)

    def _solved(
        self,
        model: MDP,
        tolerance: float,
        start: NDArray[np.intp] | None,
        values: Array | None = None,
    ) -> Solution:
        self.iterations += 1
        try:
            found = policy_iteration(
                model, tolerance, STEPS, lambda *_: None, policy=start, values=values
            )
        except NoConvergence as stopped:  # its bracket holds, and is all that is used here
            if stopped.solution is None:
                raise
            found = stopped.solution
        self.on_iteration(self.iterations, self.value, self.bound)
        return replace(found, policy=one_recurrent_class(model, found.policy))

    def start_from(self, program: Occupation) -> None:
        """The policies between which the linear program's solution randomises.

        A vertex of the program has at most K more frequent pairs than states that are visited.
        """
        actions = program.frequencies.argmax(1)
        self.price(program.prices, actions)
        rest = program.frequencies.copy()
        rest[np.arange(len(actions)), actions] = 0
        largest = np.argsort(-rest, axis=None, kind="stable")[: len(program.prices)]
        choices: dict[int, list[int]] = {}
        for s, a in zip(*np.unravel_index(largest, rest.shape), strict=True):
            if rest[s, a] > NOISE:
                choices.setdefault(int(s), [int(actions[s])]).append(int(a))
        if np.prod([len(several) for several in choices.values()]) > MOST_POLICIES:
            return
        policy = self.columns[-1].policy
        for chosen in itertools.product(*choices.values()):
            changed = policy.copy()
            changed[list(choices)] = chosen
            self.add(changed)

    def become_feasible(self) -> None:
        """Add policies until a mixture keeps the limits; raise an error if none does."""
        while best_mixture(self.columns, np.zeros(len(self.prices))) is None:
            closest = least_violation(self.columns)
            start = min(self.columns, key=lambda c: float(closest.prices @ c.excess)).policy
            model = self.priced(closest.prices)
            found = self._solved(model, INNER * self.tolerance, start)
            least = -found.gain_high
            new = self.add(found.policy)
            near = closest.value - least <= self.tolerance * abs(closest.value)
            if least > 0 and (near or not new):
                raise self._infeasible(closest)
            if not new:
                self.allowed = max(closest.value, 0.0)
                return

    def _infeasible(self, closest: Mixture) -> InfeasibleLimits:
        """The error for limits that no mixture keeps; `closest` has the least violation."""
        names, limits, units = self.names, self.limits, self.units
        found = zip(closest.weights, self.columns, strict=False)  # one column may be newer
        rates = limits + sum(weight * column.excess for weight, column in found) * units
        over = np.maximum(rates - limits, 0)

        def shown(k: int, rate: float) -> str:
            return "0" if abs(rate) <= self.tolerance * units[k] else f"{rate:.6g}"

        alone = [(int(k), self._least_excess(int(k))) for k in np.flatnonzero(over)]
        told = "; ".join(
            f"{names[k]} <= {limits[k]:g}: its least average is"
            f" {shown(k, limits[k] + least * units[k])}"
            for k, least in alone
            if least > 0
        )
        if not told:
            between = ", ".join(names[k] for k in np.flatnonzero(closest.prices))
            those = ", ".join(
                f"{name} {shown(k, rates[k])} (limit {limits[k]:g})" for k, name in enumerate(names)
            )
            told = f"{between} together, though each alone can be kept; the closest has {those}"
        by_name = (dict(zip(names, each.tolist(), strict=True)) for each in (rates, over))
        return InfeasibleLimits(f"no policy keeps {told}", *by_name)

    def _least_excess(self, k: int) -> float:
        """The least long-run excess of one cost, in its unit; 0 if the limit can be kept."""
        model = self.priced(np.eye(len(self.names))[k])
        found = self._solved(model, INNER * self.tolerance, None)
        return -found.gain if found.gain_high < 0 else 0.0

    def improve(self) -> None:
        """Add policies until the best mixture is as good as the bound."""
        while True:
            mixture = best_mixture(self.columns, np.full(len(self.prices), -self.allowed))
            if mixture is None:  # feasible by less than the program's tolerance
                return
            self.value = mixture.value
            for column, weight in zip(self.columns, mixture.weights, strict=True):
                if not weight:
                    column.biases = None
            if self.closed or self.iterations >= self.most or not self.price(mixture.prices):
                return


def _range(mdp: MDP, cost: Array) -> float:
    """Largest cost minus the least; the size of a constant cost, or 1."""
    least = float(np.min(cost, where=mdp.available, initial=np.inf))
    most = float(np.max(cost, where=mdp.available, initial=-np.inf))
    return (most - least) or abs(most) or 1.0
