"""Howard's policy iteration: evaluate, improve, until no action promises more."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import sparse
from scipy.sparse import linalg as sparse_linalg

from longrun.tabular.chain import DENSE, dense, stationary
from longrun.tabular.mdp import MDP, Array, Matrix
from longrun.tabular.poisson import Mergers, SparseChain
from longrun.tabular.solvers.solution import (
    BELOW_ROUNDING,
    Actions,
    Bracket,
    OnIteration,
    Solution,
    bracket,
    finished,
    gave_up,
    reward_scale,
)
from longrun.tabular.solvers.value_iteration import STAY
from longrun.tabular.structure import chain_structure

Evaluate = Callable[[MDP, Actions, Array, float], Array]
"""(model, policy [S], first guess [S], tolerance) -> bias [S], up to a constant."""

SWEEPS = 50
"""Steps of value iteration in a batch, before an evaluation: they carry the news of a better action
as many states far, and cost little beside it. (Without them it comes one state far, by way of
policies whose chains are too slow to be evaluated: RiverSwim with 300 states.)"""
SHRINK = 0.6
"""Batches go on as long as each shrinks the bracket to this fraction."""
FORCING = 1e-2
"""An iterative evaluation goes down to this fraction of the residual that it starts from."""
EFFORT = 100
"""Multigrid cycles that it may take for that; a half-evaluated policy can be improved as well."""


def policy_iteration(
    mdp: MDP,
    tolerance: float,
    max_iterations: int,
    on_iteration: OnIteration,
    linear_solver: str = "auto",
    policy: Actions | None = None,
) -> Solution:
    """Solve (I - P_pi) h = r_pi - g e for the policy, take the greedy policy of h, again.

    Evaluations by a Krylov method start from the last bias and stop early (FORCING): the bracket
    is certified whatever h is.
    """
    if linear_solver == "auto":
        linear_solver = "dense" if mdp.num_states <= DENSE else "krylov"
    evaluate, scale = EVALUATIONS[linear_solver](), reward_scale(mdp)
    values = np.zeros(mdp.num_states)
    found = bracket(mdp, values, policy)
    given = policy is not None  # where to start; sweeps from 0 would forget it
    policy = found.policy if policy is None else policy
    low, high = -np.inf, np.inf
    for iteration in range(1, max_iterations + 1):
        if iteration > 1 or not given:
            values, found = _swept(mdp, values, found, tolerance, scale)
            if linear_solver == "krylov" and found.closed(mdp, tolerance, scale):
                on_iteration(iteration, found.low, found.high)
                return finished("policy_iteration", iteration, found, values)
            policy = found.policy
        policy = one_recurrent_class(mdp, policy)
        goal = max(FORCING * (found.high - found.low), 0.1 * tolerance * abs(found.low))
        values = _evaluated(evaluate, mdp, policy, values, goal)
        found = bracket(mdp, values, policy)
        low, high = max(low, found.low), min(high, found.high)
        on_iteration(iteration, found.low, found.high)
        if found.closed(mdp, tolerance, scale):
            return finished("policy_iteration", iteration, found, values)
        settled = linear_solver != "krylov" and (found.policy == policy).all()
        if settled or found.at_rounding:
            raise gave_up("policy_iteration", iteration, low, high, BELOW_ROUNDING)
        policy = found.policy
    advice = "raise max_iterations or tolerance"
    raise gave_up("policy_iteration", iteration, low, high, advice)


def _evaluated(
    evaluate: Evaluate, mdp: MDP, policy: Actions, values: Array, tolerance: float
) -> Array:
    """The policy's bias, or the values as they are where its chain is too slow for the solver."""
    try:
        bias = evaluate(mdp, policy, values, tolerance)
    except (np.linalg.LinAlgError, RuntimeError):  # exactly singular: NumPy and SuperLU
        return values
    return bias if np.isfinite(bias).all() else values


def _swept(
    mdp: MDP, values: Array, found: Bracket, tolerance: float, scale: float
) -> tuple[Array, Bracket]:
    """Batches of value iteration, as long as they pay."""
    while not found.closed(mdp, tolerance, scale):
        width = found.high - found.low
        for _ in range(SWEEPS):
            values = values + (1 - STAY) * (mdp.lookahead(values).max(1) - values)
            values -= values[0]
        found = bracket(mdp, values, found.policy)
        if not found.high - found.low <= SHRINK * width:
            break
    return values, found


def _dense(mdp: MDP, policy: Actions, guess: Array, tolerance: float) -> Array:
    """The bias with h[0] = 0, whose place the gain takes among the unknowns."""
    transition, rewards = mdp.chain(policy)
    system = np.eye(mdp.num_states) - dense(transition)
    system[:, 0] = 1
    bias = np.linalg.solve(system, rewards)  # slow chains are ill-conditioned: the bracket judges
    bias[0] = 0
    return np.asarray(bias)


def _lu(mdp: MDP, policy: Actions, guess: Array, tolerance: float) -> Array:
    transition, rewards = mdp.chain(policy)
    system = sparse.identity(mdp.num_states, format="csc") - sparse.csc_array(transition)
    ones = sparse.csc_array(np.ones((mdp.num_states, 1)))
    bias = sparse_linalg.splu(sparse.hstack([ones, system[:, 1:]], format="csc")).solve(rewards)
    bias[0] = 0
    return np.asarray(bias)


class _Krylov:
    """Policies differ little, so that states are merged as they were for the first one."""

    def __init__(self) -> None:
        self.mergers: Mergers | None = None

    def __call__(self, mdp: MDP, policy: Actions, guess: Array, tolerance: float) -> Array:
        transition, rewards = mdp.chain(policy)
        equations = SparseChain(transition, mergers=self.mergers)
        values, _ = equations.solve(rewards, guess, tolerance, EFFORT)
        self.mergers = equations.mergers
        return values


EVALUATIONS: dict[str, Callable[[], Evaluate]] = {
    "dense": lambda: _dense,
    "lu": lambda: _lu,
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
    """Of each recurrent class; there may be as many as states, so that a class must cost little."""
    states = np.concatenate(classes)
    edges = np.cumsum([0, *map(len, classes)])
    blocks, own = transition[states][:, states], rewards[states]
    gains = own[edges[:-1]]  # of a single state
    for c in np.flatnonzero(np.diff(edges) > 1):
        part = slice(edges[c], edges[c + 1])
        gains[c] = _class_gain(blocks[part][:, part], own[part])
    return np.asarray(gains)


def _class_gain(transition: Matrix, rewards: Array) -> float:
    """Of an irreducible chain, or a rough idea of it where rounding allows no more."""
    if len(rewards) > DENSE:
        chain = SparseChain(sparse.csr_array(transition))
        values, _ = chain.solve(rewards, None, 1e-6 * float(np.abs(rewards).max()), EFFORT)
        return chain.gain(rewards, values)
    return float(stationary(dense(transition)) @ rewards)
