"""What a solver returns, and the certificate that all of them share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from longrun.errors import NoConvergence
from longrun.tabular.mdp import MDP, Array
from longrun.tabular.precision import rounding

Actions = NDArray[np.intp]
OnIteration = Callable[[int, float, float], None]
"""Called with (iteration, gain_low, gain_high) while a solver works."""

NEAR_ZERO = 1e-3
"""A gain below this share of the rewards that are taken is as good as 0: there, the width of a
bracket is relative to that share instead."""
AT_ROUNDING = 6
"""Times the rounding of a bracket's ends, of which their own allowance is three: where the rest is
no more than that allowance again, further digits of the values are rounding themselves."""


@dataclass(frozen=True)
class Solution:
    """An optimal policy, with bounds on the optimal gain that hold whatever the solver did."""

    gain: float
    """Middle of the bracket."""
    gain_low: float
    gain_high: float
    policy: Actions
    """[S] an action for each state; one recurrent class, its gain at least `gain_low`."""
    bias: Array
    """[S] relative values of the optimality equation, 0 in state 0."""
    iterations: int
    method: str


class Bracket(NamedTuple):
    """One application T of the Bellman operator: best values, greedy policy, bounds on the gain."""

    values: Array
    """h [S]"""
    best: Array
    """T h [S]"""
    policy: Actions
    low: float
    high: float
    rounding: float
    """By how much rounding may have moved either bound; they allow for it."""

    @property
    def width(self) -> float:
        return self.high - self.low

    def closed(self, mdp: MDP, tolerance: float, scale: float) -> bool:
        """Whether it is narrow enough; `scale` is the largest reward of all."""
        if self.width > tolerance * max(abs(self.low), abs(self.high), NEAR_ZERO * scale):
            return False  # without looking at the policy
        return relative_width(mdp, self.policy, self.low, self.high) <= tolerance

    @property
    def at_rounding(self) -> bool:
        """No further value could narrow it much."""
        return self.width <= AT_ROUNDING * self.rounding

    def joined(self, other: Bracket) -> Bracket:
        """What both prove: the higher of the lower bounds, with its policy, and the lower upper."""
        better = other if other.low > self.low else self
        return better._replace(high=min(self.high, other.high))


def relative_width(mdp: MDP, policy: Actions, low: float, high: float) -> float:
    """Of a bracket: relative to the gain, or to NEAR_ZERO of the largest reward if that is more.

    What counts is the largest reward that the policy takes: a forbidding penalty that nobody pays
    must not make a wide bracket look narrow.
    """
    paid = float(np.abs(mdp.rewards[np.arange(len(policy)), policy]).max())
    scale = max(abs(low), abs(high), NEAR_ZERO * paid)
    return (high - low) / scale if high > low else 0.0


def bracket(mdp: MDP, values: Array, policy: Actions | None = None) -> Bracket:
    """min (T h - h) <= optimal gain <= max (T h - h), for any values h [S].

    For the first bound follow the greedy policy: its rewards pay at least `low` a step more than h
    falls. For the second, no policy can pay more than `high`. Rounding widens both. Among actions
    that rounding cannot tell apart the given policy's stays, so that policies do not flicker; the
    lower bound allows for that too.
    """
    q = mdp.lookahead(values)
    best = q.max(1)
    greedy = q.argmax(1)
    change = best - values
    # A row's products, its reward, h itself, and a sum of the row that is 1 up to rounding only.
    off = rounding(mdp.longest_row + 4, float(np.abs(values).max() + np.abs(best).max()))
    if policy is not None:
        kept = q[np.arange(len(best)), policy] >= best - off
        greedy = np.where(kept, policy, greedy)
    low, high = float(change.min()) - 2 * off, float(change.max()) + off
    return Bracket(values, best, greedy, low, high, off)


def reward_scale(mdp: MDP) -> float:
    return float(np.abs(np.where(mdp.available, mdp.rewards, 0)).max())


def finished(method: str, iterations: int, found: Bracket) -> Solution:
    return Solution(
        gain=(found.low + found.high) / 2,
        gain_low=found.low,
        gain_high=found.high,
        policy=found.policy,
        bias=found.values - found.values[0],
        iterations=iterations,
        method=method,
    )


def gave_up(method: str, iterations: int, best: Bracket, advice: str) -> NoConvergence:
    found = finished(method, iterations, best)
    return NoConvergence(f"{how_far(found)}; {advice}", found)


def how_far(found: Solution) -> str:
    return (
        f"{found.method} stopped after {found.iterations} iterations with the gain between "
        f"{found.gain_low:.14g} and {found.gain_high:.14g}"
    )
