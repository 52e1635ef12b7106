"""Policy iteration, value iteration, and modified policy iteration between the two."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import numpy as np
from scipy import sparse

from longrun.exact.tabular.chain import DENSE, dense, relative_values, stationary
from longrun.exact.tabular.mdp import MDP, Array, Matrix
from longrun.exact.tabular.poisson import Mergers, SparseChain
from longrun.exact.tabular.precision import longest_row, rounding
from longrun.exact.tabular.solvers.solution import (
    Actions,
    Bracket,
    OnIteration,
    Solution,
    bracket,
    finished,
    gave_up,
    reward_scale,
)
from longrun.exact.tabular.structure import chain_structure

Evaluate = Callable[[Matrix, Array, float, float], Array]
"""(P [S, S], r [S], gamma, tolerance) -> x [S], (I - gamma P) x = r up to a constant each side."""

STAY = 0.1
"""Aperiodicity transform (Schweitzer 1971): each step happens with probability 1 - STAY. Gain and
policies per step are unchanged, and every chain is aperiodic."""
SWEEPS = 50
"""Steps of value iteration in a batch, before an evaluation: they propagate the value of a better
action over as many states, and cost little in comparison. (Without them it propagates by one state,
through policies whose chains are too slow to be evaluated: RiverSwim with 300 states.)"""
SHRINK = 0.6
"""Batches continue as long as each shrinks the bracket to this fraction."""
FORCING = 1e-2
"""An iterative evaluation stops at this fraction of its initial residual."""
EFFORT = 100
"""Limit on its multigrid cycles; a partly evaluated policy can be improved as well."""
ELIMINATED = DENSE
"""States up to which policies are evaluated by elimination; above, by a Krylov method."""
WATCHED = 1 - 1e-4
"""Discount for a policy that is too slow to be evaluated: ten thousand steps show where more is
earned, and every solver can handle them (a million of RiverSwim's stall conjugate residuals)."""


def policy_iteration(
    mdp: MDP,
    tolerance: float,
    max_iterations: int,
    on_iteration: OnIteration,
    policy: Actions | None = None,
    values: Array | None = None,
) -> Solution:
    """Solve (I - P_pi) h = r_pi - g e for the policy, take the greedy policy of h, repeat.

    Evaluations by a Krylov method start from the last bias and stop early (FORCING): the bracket
    is certified for any h. It stays wider than the tolerance where rounding allows no more.
    policy, values: [S] each, to start from; values without the policy's own are of use too.
    """
    iterative = mdp.num_states > ELIMINATED
    evaluate, scale = EVALUATIONS["krylov" if iterative else "dense"](), reward_scale(mdp)
    started = np.zeros(mdp.num_states) if values is None else values - values[0]
    found = best = bracket(mdp, started, policy)
    sweeps = 0
    for iteration in range(1, max_iterations + 1):
        # Sweeps from 0 would discard the given policy.
        if iteration > 1 or policy is None or values is not None:
            found, more = _swept(mdp, found, tolerance, scale)
            sweeps += more
            if iterative and found.closed(mdp, tolerance, scale):
                on_iteration(iteration, found.low, found.high)
                return finished("policy_iteration", iteration, found, sweeps)
            policy, best = found.policy, best.joined(found)
        policy = one_recurrent_class(mdp, policy)
        goal = max(FORCING * best.width, 0.1 * tolerance * abs(best.low))
        bias, done = _evaluated(evaluate, mdp, policy, found.values, best.width, goal)
        found = bracket(mdp, bias, policy)
        settled = done and not iterative and bool((found.policy == policy).all())
        on_iteration(iteration, found.low, found.high)
        if found.closed(mdp, tolerance, scale):
            return finished("policy_iteration", iteration, found, sweeps)
        gained = found.width < best.width
        best = best.joined(found)
        if (settled or found.at_rounding) and not gained:
            return finished("policy_iteration", iteration, best, sweeps)
    raise gave_up(
        "policy_iteration", max_iterations, best, "raise max_iterations or tolerance", sweeps
    )


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


def _evaluated(
    evaluate: Evaluate, mdp: MDP, policy: Actions, values: Array, width: float, tolerance: float
) -> tuple[Array, bool]:
    """The policy's bias [S] and True, or values that are at least as close to it as those given.

    The elimination of a chain that is too slow ends with a pivot that consists of rounding errors:
    exactly 0 on one machine, of either sign on others, and its result is useless. This is detected:
    it solves the policy's own equation no better than the previous values, or than `width`, the
    bracket of the gain. The policy is then evaluated with a discount, starting from these values
    (Bertsekas and Ioffe 1996): the residual becomes a mean of itself over that time,
    which is never wider.
    """
    transition, rewards = mdp.chain(policy)
    residual = rewards - values + transition @ values

    def missed(bias: Array) -> float:
        off = rounding(longest_row(transition) + 4, 2 * float(np.abs(bias).max()))
        return float(np.ptp(rewards - bias + transition @ bias)) + off

    before = missed(values)
    for discount, most in ((1.0, min(before, width)), (WATCHED, before)):
        singular = suppress(np.linalg.LinAlgError)
        with singular, np.errstate(all="ignore"):
            bias = values + evaluate(transition, residual, discount, tolerance)
            bias -= bias[0]  # rounding grows with the values, not only with their differences
            if missed(bias) <= most + 2 * tolerance:
                return np.asarray(bias), discount == 1
    return values, False


def _swept(mdp: MDP, found: Bracket, tolerance: float, scale: float) -> tuple[Bracket, int]:
    """Batches of value iteration, as long as they are worthwhile, and the number of steps."""
    sweeps = 0
    while not found.closed(mdp, tolerance, scale):
        values, width = found.values, found.width
        for _ in range(SWEEPS):
            values = values + (1 - STAY) * (mdp.lookahead(values).max(1) - values)
            values -= values[0]
        found = bracket(mdp, values, found.policy)
        sweeps += SWEEPS
        if not found.width <= SHRINK * width:
            break
    return found, sweeps


def _dense(transition: Matrix, rewards: Array, discount: float, tolerance: float) -> Array:
    return relative_values(transition, rewards, discount)


class _Krylov:
    """Policies differ little, so the mergers of states of the first one are reused."""

    def __init__(self) -> None:
        self.mergers: Mergers | None = None

    def __call__(
        self, transition: Matrix, rewards: Array, discount: float, tolerance: float
    ) -> Array:
        equations = SparseChain(transition, discount, self.mergers)
        solution, _ = equations.solve(rewards, None, tolerance, EFFORT)
        self.mergers = equations.mergers
        return solution


EVALUATIONS: dict[str, Callable[[], Evaluate]] = {
    "dense": lambda: _dense,
    "krylov": _Krylov,
}


def one_recurrent_class(mdp: MDP, policy: Actions) -> Actions:
    """The policy itself if it is unichain; else all states are led to its best recurrent class.

    In a weakly communicating model every state can get there (Haviv and Puterman 1991). States that
    the policy itself leads there keep their actions.
    """
    transition, rewards = mdp.chain(policy)
    found = chain_structure(transition)
    if found.unichain:
        return policy
    gains = _class_gains(transition, rewards, found.recurrent)
    reached = np.zeros(mdp.num_states, bool)
    reached[found.recurrent[int(np.argmax(gains))]] = True
    policy = policy.copy()
    while not reached.all():
        led = ~reached & (transition @ reached.astype(float) > 0)
        if led.any():
            reached |= led
            continue
        towards = (mdp.kernel @ reached.astype(float)).reshape(mdp.num_actions, -1)
        new = ~reached & (towards.max(0) > 0)
        policy[new] = towards.argmax(0)[new]
        reached |= new
    return policy


def _class_gains(transition: Matrix, rewards: Array, classes: list[Actions]) -> Array:
    """Gain of each recurrent class; fast for each, since there may be as many as states."""
    states = np.concatenate(classes)
    edges = np.cumsum([0, *map(len, classes)])
    blocks, own = transition[states][:, states], rewards[states]
    gains = own[edges[:-1]]  # for classes of a single state
    for c in np.flatnonzero(np.diff(edges) > 1):
        part = slice(edges[c], edges[c + 1])
        gains[c] = _class_gain(blocks[part][:, part], own[part])
    return np.asarray(gains)


def _class_gain(transition: Matrix, rewards: Array) -> float:
    """Gain of an irreducible chain, or a rough estimate where rounding allows no more."""
    if len(rewards) > DENSE:
        chain = SparseChain(sparse.csr_array(transition))
        # Classes this close are equivalent here: the bracket decides later.
        values, _ = chain.solve(rewards, None, 1e-6 * float(np.abs(rewards).max()), EFFORT)
        return chain.gain(rewards, values)
    return float(stationary(dense(transition)) @ rewards)
