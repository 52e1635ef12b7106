"""What a solver returns, and the certificate that all of them share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from longrun.errors import NoConvergence
from longrun.tabular.mdp import MDP, Array

Actions = NDArray[np.intp]
OnIteration = Callable[[int, float, float], None]
"""Called with (iteration, gain_low, gain_high) while a solver works."""


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

    best: Array
    policy: Actions
    low: float
    high: float
    rounding: float
    """By how much rounding may have moved either bound; they allow for it."""

    def closed(self, mdp: MDP, tolerance: float, scale: float) -> bool:
        """Relative to the gain, or to a thousandth of the largest reward where that is near 0.

        `scale` is the largest reward of all. What counts is the largest that the policy takes: a
        forbidding penalty that nobody pays must not make a wide bracket look narrow.
        """
        width = self.high - self.low
        if width <= tolerance * max(abs(self.low), abs(self.high)):
            return True
        if not width <= 1e-3 * tolerance * scale:
            return False
        paid = mdp.rewards[np.arange(len(self.policy)), self.policy]
        return width <= 1e-3 * tolerance * float(np.abs(paid).max())

    @property
    def at_rounding(self) -> bool:
        """No further value could narrow it much."""
        return self.high - self.low <= 6 * self.rounding


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
    terms = mdp.longest_row + 4
    rounding = float(np.finfo(float).eps * terms * (np.abs(values).max() + np.abs(best).max()))
    if policy is not None:
        kept = q[np.arange(len(best)), policy] >= best - rounding
        greedy = np.where(kept, policy, greedy)
    low, high = float(change.min()) - 2 * rounding, float(change.max()) + rounding
    return Bracket(best, greedy, low, high, rounding)


def reward_scale(mdp: MDP) -> float:
    return float(np.abs(np.where(mdp.available, mdp.rewards, 0)).max())


def finished(method: str, iterations: int, found: Bracket, values: Array) -> Solution:
    return Solution(
        gain=(found.low + found.high) / 2,
        gain_low=found.low,
        gain_high=found.high,
        policy=found.policy,
        bias=values - values[0],
        iterations=iterations,
        method=method,
    )


def gave_up(method: str, iterations: int, low: float, high: float, advice: str) -> NoConvergence:
    return NoConvergence(
        f"{method} stopped after {iterations} iterations with the gain between {low:.14g} and "
        f"{high:.14g}; {advice}"
    )


BELOW_ROUNDING = "rounding does not allow more here; raise tolerance"
