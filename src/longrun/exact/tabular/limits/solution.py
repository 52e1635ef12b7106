"""The result of a solver with limits."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from longrun.exact.tabular.mdp import Array


@dataclass(frozen=True)
class LimitedSolution:
    """The best policy that keeps the limits, with bounds on the optimal gain under them."""

    gain: float
    """Middle of the bracket."""
    gain_low: float
    """The policy's own gain is at least this."""
    gain_high: float
    """No policy that keeps the limits gains more: an optimal gain of the Lagrangian."""
    cost_rates: dict[str, float]
    """Long-run average of each cost under the policy, also of those without a limit."""
    limits: dict[str, float]
    multipliers: dict[str, float]
    """What the gain would rise by, per unit by which a limit is raised; 0 if it does not bind."""
    excess: dict[str, float]
    """How far a cost's rate may exceed its limit, rounding included. It is 0 unless the limit
    is so close to the least possible rate that no policy is below it by more than rounding."""
    policy: Array
    """[S, A] probabilities; one recurrent class."""
    bias: Array
    """[S] relative values of the Lagrangian's optimality equation, 0 in state 0."""
    iterations: int
    """Lagrangian problems that were solved, each by policy iteration."""
    method: str
    randomised: dict[int, dict[int, float]] = field(default_factory=dict)
    """Where the policy randomises, the most visited state first: {state: {action: probability}}."""


def randomised_states(policy: Array, law: Array) -> dict[int, dict[int, float]]:
    """Recurrent states with several actions, by their share of time."""
    several = np.flatnonzero(((policy > 0).sum(1) > 1) & (law > 0))
    order = several[np.argsort(-law[several], kind="stable")]
    return {int(s): {int(a): float(policy[s, a]) for a in np.flatnonzero(policy[s])} for s in order}
