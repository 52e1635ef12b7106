"""A model with limits on the long-run averages of costs, and its Lagrangian relaxations."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike

from longrun.base.errors import InputError
from longrun.exact.tabular.mdp import MDP, Array
from longrun.exact.tabular.validation import cost_table, require_named


@dataclass(frozen=True)
class LimitedProblem:
    """Maximise the gain where every cost's long-run average is at most its limit.

    Costs are used in units of their range in the model, so that limits on falls per step and on
    waiting customers can be weighed against each other: the `excess` of a cost is
    (cost - limit) / unit, and multipliers are prices of that.
    """

    mdp: MDP
    names: tuple[str, ...]
    """[K] of the costs that have a limit"""
    costs: dict[str, Array]
    """[S, A] each; there may be more than have a limit"""
    limits: Array
    """[K]"""
    units: Array
    """[K]"""

    def excess(self, k: int) -> Array:
        """[S, A] of one cost, in its unit; not kept, since large models have little memory."""
        return np.asarray((self.costs[self.names[k]] - self.limits[k]) / self.units[k])

    def lagrangian(self, multipliers: Array) -> MDP:
        """Rewards r - sum of multipliers [K] times excess: its optimal gain is an upper bound.

        A policy that keeps the limits pays a negative price, and so gains at least what it earns.
        """
        return self.mdp.with_rewards(self.mdp.rewards - self._priced(multipliers))

    def violation(self, weights: Array) -> MDP:
        """Rewards minus the excess, weighted [K]: minus its gain is a lower bound on the excess."""
        return self.mdp.with_rewards(-self._priced(weights))

    def _priced(self, multipliers: Array) -> Array:
        total = np.zeros(self.mdp.available.shape)
        for k in np.flatnonzero(multipliers):
            total += multipliers[k] * self.excess(int(k))
        return total


def limited_problem(
    mdp: MDP, costs: Mapping[str, ArrayLike] | None, limits: Mapping[str, float]
) -> LimitedProblem:
    """The problem of `solve`'s arguments, validated; `costs` default to the model's own."""
    tables = dict(mdp.costs)
    if costs is not None:
        named = require_named("costs", costs, "[states, actions]")
        tables = {name: cost_table(name, cost, mdp.available) for name, cost in named.items()}
    for name, limit in require_named("limits", limits, "largest average").items():
        if name not in tables:
            told = f"there are {', '.join(tables)}" if tables else "the model has none; give costs"
            raise InputError(f"limits name '{name}', which is no cost; {told}")
        if isinstance(limit, bool) or not isinstance(limit, Real) or not math.isfinite(limit):
            raise InputError(f"limit {name}={limit!r} is not a finite number; give a rate")

    def unit(cost: Array) -> float:
        """Largest cost minus the least; the size of a constant cost, or 1."""
        least = float(np.min(cost, where=mdp.available, initial=np.inf))
        most = float(np.max(cost, where=mdp.available, initial=-np.inf))
        return (most - least) or abs(most) or 1.0

    units = np.array([unit(tables[name]) for name in limits])
    return LimitedProblem(mdp, tuple(limits), tables, np.array(list(limits.values()), float), units)
