"""The result of a solver, and the certificate that all solvers share."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from longrun.base.errors import NoConvergence
from longrun.exact.tabular.mdp import MDP, Array
from longrun.exact.tabular.precision import USELESS, PrecisionWarning, rounding

Actions = NDArray[np.intp]
OnIteration = Callable[[int, float, float], None]
"""Called with (iteration, gain_low, gain_high) while a solver works."""

NEAR_ZERO = 1e-3
"""A gain below this fraction of the rewards that are taken counts as 0: the width of a bracket is
then relative to that fraction instead."""
AT_ROUNDING = 6
"""A bracket is at rounding if its width is at most this multiple of the rounding error of its ends.
Their own allowance is three of it; if the rest is no more, the values cannot be improved."""


@dataclass(frozen=True)
class Solution:
    """An optimal policy, with bounds on the optimal gain that hold for every method."""

    gain: float
    """Middle of the bracket."""
    gain_low: float
    """Certified: the optimal gain, and under limits the policy's own, is not less."""
    gain_high: float
    """Certified: the optimal gain is not more."""
    policy: NDArray[Any]
    """[S] an action for each state, or under limits [S, A] probabilities; one recurrent class, its
    gain at least `gain_low`."""
    bias: Array
    """[S] relative values of the optimality equation (under limits the Lagrangian's)."""
    iterations: int
    """Steps of the method; under limits, Lagrangian problems that were solved."""
    method: str
    sweeps: int = 0
    """Steps of value iteration that policy iteration took before and between its evaluations."""
    cost_rates: dict[str, float] = field(default_factory=dict)
    """Long-run average of each cost under the policy, with or without a limit; as all that follows,
    only if `solve` was given costs or limits."""
    limits: dict[str, float] = field(default_factory=dict)
    multipliers: dict[str, float] = field(default_factory=dict)
    """What the gain would rise by, per unit by which a limit is raised; 0 if it does not bind."""
    excess: dict[str, float] = field(default_factory=dict)
    """How far a cost's rate may exceed its limit, rounding included. It is 0 unless the limit
    is so close to the least possible rate that no policy is below it by more than rounding."""
    randomised: dict[int, dict[int, float]] = field(default_factory=dict)
    """Where the policy randomises, the most visited state first: {state: {action: probability}}."""


class Bracket(NamedTuple):
    """One application T of the Bellman operator: values, greedy policy, bounds on the gain."""

    values: Array
    """h [S]"""
    best: Array
    """T h [S]"""
    policy: Actions
    low: float
    high: float
    rounding: float
    """Bound on the rounding error of either bound; they allow for it."""

    @property
    def width(self) -> float:
        return self.high - self.low

    def closed(self, mdp: MDP, tolerance: float, scale: float) -> bool:
        """Whether it is narrow enough; `scale` is the largest absolute reward of the model."""
        if self.width > tolerance * max(abs(self.low), abs(self.high), NEAR_ZERO * scale):
            return False  # the policy need not be considered
        return relative_width(mdp, self.policy, self.low, self.high) <= tolerance

    @property
    def at_rounding(self) -> bool:
        """Whether no other values could narrow it much."""
        return self.width <= AT_ROUNDING * self.rounding

    def joined(self, other: Bracket) -> Bracket:
        """The bounds of both: the higher lower bound, with its policy, and the lower upper one."""
        better = other if other.low > self.low else self
        return better._replace(high=min(self.high, other.high))


def relative_width(mdp: MDP, policy: Actions, low: float, high: float) -> float:
    """Width of a bracket, relative to the gain or to NEAR_ZERO of the largest reward, if larger.

    Only rewards that the policy takes count: a prohibitive penalty that is never paid
    must not make a wide bracket look narrow.
    """
    paid = float(np.abs(mdp.rewards[np.arange(len(policy)), policy]).max())
    scale = max(abs(low), abs(high), NEAR_ZERO * paid)
    return (high - low) / scale if high > low else 0.0


def bracket(mdp: MDP, values: Array, policy: Actions | None = None) -> Bracket:
    """min (T h - h) <= optimal gain <= max (T h - h), for any values h [S].

    The first holds because the greedy policy earns at least `low` per step more than the decrease
    of h, the second because no policy can earn more than `high`. Rounding widens both. Among
    actions whose difference is below rounding the given policy's is kept, so that policies do not
    alternate; the lower bound allows for that too.
    """
    q = mdp.lookahead(values)
    best = q.max(1)
    greedy = q.argmax(1)
    change = best - values
    # A row's products, its reward, h itself, and a sum of the row that is 1 only up to rounding.
    off = rounding(mdp.longest_row + 4, float(np.abs(values).max() + np.abs(best).max()))
    if policy is not None:
        kept = q[np.arange(len(best)), policy] >= best - off
        greedy = np.where(kept, policy, greedy)
    low, high = float(change.min()) - 2 * off, float(change.max()) + off
    return Bracket(values, best, greedy, low, high, off)


def reward_scale(mdp: MDP) -> float:
    return float(np.abs(np.where(mdp.available, mdp.rewards, 0)).max())


def finished(method: str, iterations: int, found: Bracket, sweeps: int = 0) -> Solution:
    return Solution(
        gain=(found.low + found.high) / 2,
        gain_low=found.low,
        gain_high=found.high,
        policy=found.policy,
        bias=found.values - found.values[0],
        iterations=iterations,
        method=method,
        sweeps=sweeps,
    )


def gave_up(
    method: str, iterations: int, best: Bracket, advice: str, sweeps: int = 0
) -> NoConvergence:
    found = finished(method, iterations, best, sweeps)
    return NoConvergence(f"{how_far(found)}; {advice}", found)


def how_far(found: Solution) -> str:
    limited = " under limits" if found.limits else ""
    return (
        f"{found.method} stopped after {found.iterations} iterations with the gain{limited} between"
        f" {found.gain_low:.14g} and {found.gain_high:.14g}"
    )


def as_precise_as_possible(found: Solution, width: float, tolerance: float) -> Solution:
    """Warn the caller of `solve`, or raise an error, if the relative width is above `tolerance`."""
    if width > tolerance:
        told = f"{how_far(found)}; rounding does not allow more here"
        if width > USELESS:
            raise NoConvergence(f"{told}; speed up the model's rarest transitions", found)
        warnings.warn(f"{told}; raise tolerance={tolerance:g}", PrecisionWarning, stacklevel=4)
    return found
