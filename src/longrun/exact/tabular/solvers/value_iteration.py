"""Relative value iteration and modified policy iteration."""

from __future__ import annotations

import numpy as np

from longrun.exact.tabular.mdp import MDP
from longrun.exact.tabular.solvers.solution import (
    OnIteration,
    Solution,
    bracket,
    finished,
    gave_up,
    reward_scale,
)

STAY = 0.1
"""Aperiodicity transform (Schweitzer 1971): each step happens with probability 1 - STAY. Gain and
policies per step are unchanged, and every chain is aperiodic."""


def relative_value_iteration(
    mdp: MDP, tolerance: float, max_iterations: int, on_iteration: OnIteration, sweeps: int = 0
) -> Solution:
    """h <- h + (1 - STAY) (T h - h), less its value in state 0 (White 1963).

    With `sweeps` > 0 this is modified policy iteration (Puterman and Shin 1978): each application
    of T is followed by that many steps under the greedy policy alone, which cost less.
    """
    method = "modified_policy_iteration" if sweeps else "value_iteration"
    values, policy, scale = np.zeros(mdp.num_states), None, reward_scale(mdp)
    best = None
    for iteration in range(1, max_iterations + 1):
        found = bracket(mdp, values, policy)
        best = found if best is None else best.joined(found)
        on_iteration(iteration, found.low, found.high)
        if found.closed(mdp, tolerance, scale):
            return finished(method, iteration, found)
        if found.at_rounding:
            return finished(method, iteration, best)
        values = values + (1 - STAY) * (found.best - values)
        if sweeps:
            policy = found.policy
            transition, rewards = mdp.chain(policy)
            for _ in range(sweeps):
                values = STAY * values + (1 - STAY) * (rewards + transition @ values)
        values -= values[0]
    assert best is not None
    raise gave_up(method, max_iterations, best, "raise max_iterations or take policy_iteration")
