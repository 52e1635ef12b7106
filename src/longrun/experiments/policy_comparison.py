"""A learned policy against the optimal one, both exact.

A network without bounds has its exact model in a box of queue lengths; both policies are judged in
the same box. Access control and inventory are finite as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from longrun.config import Config, whole_number
from longrun.envs.native.control import AccessControl, Inventory, vars_of
from longrun.envs.native.network import Decision
from longrun.envs.native.protocol import Environment
from longrun.envs.native.queueing import QueueingEnv
from longrun.envs.spaces import Spaces
from longrun.learn.acting import act
from longrun.learn.types import TrainState
from longrun.tabular import MDP, evaluate, reachable, solve
from longrun.tabular.models.classic import access_control, inventory

Mappable = QueueingEnv | AccessControl | Inventory
Actions = NDArray[np.intp]

SIZES = {2: 60, 3: 30}
"""Customers of each class that the box of so many queues holds: it is solved in about a second."""


MOST_STATES = 1_200_000
"""of a box; it is solved in minutes"""

SAME = 1e-12
"""Actions whose probabilities, and rewards, differ by no more do the same: sums of the same rates
in another order differ by some roundings, 1e-15, and 1e-12 of all rates is no decision."""


def require_mappable(env: Environment) -> Mappable:
    """The environment as it is, or a ValueError that says why there can be no map of it."""
    if not isinstance(env, QueueingEnv | AccessControl | Inventory):
        raise ValueError(no_model(env.name))
    queues = env.network.num_classes if isinstance(env, QueueingEnv) else 2
    if queues not in SIZES:
        raise ValueError(
            f"'{env.name}' has {queues} queue{'s' * (queues != 1)}; a map shows two or three"
        )
    return env


def no_model(name: str) -> str:
    """What to say of an environment that has no exact model."""
    return (
        f"'{name}' has no exact model; a map is for networks of two or three queues"
        " (jax:criss-cross, ...), jax:access-control and jax:inventory"
    )


def box_size(env: Mappable, size: int | None = None) -> int | None:
    """Customers of each class in the box, given or by default; None where there is no box."""
    if isinstance(env, QueueingEnv):
        queues = env.network.num_classes
        size = SIZES[queues] if size is None else whole_number("size", size, 1)
        if (states := (size + 1) ** queues) > MOST_STATES:
            largest = int(MOST_STATES ** (1 / queues)) - 1
            raise ValueError(f"size={size} makes {states:,} states; choose {largest} or less")
        return size
    if size is not None:
        raise ValueError(f"size={size} is for queueing networks; '{env.name}' is finite without it")
    return None


def exact_model(env: Mappable, size: int | None = None) -> MDP:
    """The model that a map is drawn over, with actions and sides in words."""
    require_mappable(env)
    box = box_size(env, size)
    if isinstance(env, QueueingEnv):
        assert box is not None
        mdp = env.exact(box)
        mdp.actions = _in_words(env.decisions, mdp.actions)
    elif isinstance(env, AccessControl):
        mdp = access_control(**vars_of(env))
        paid = ", ".join(f"{priority:g}" for priority in env.priorities)
        mdp.sides = ("free servers", f"kind of the customer (pays {paid})")
    else:
        mdp = inventory(**vars_of(env))
        mdp.sides = ("stock",)
    return mdp


def _in_words(decisions: tuple[Decision, ...], joint: tuple[str, ...]) -> tuple[str, ...]:
    """Of a single server there is no need to tell which one it is."""
    if len(decisions) > 1:
        return joint
    return tuple(f"serve class {each.queue + 1}" if each else "idle" for each in decisions[0][1])


def learned_policy(
    env: Mappable, config: Config, state: TrainState, size: int | None = None
) -> Actions:
    """[S] the most likely action in each state of `exact_model(env, size)`.

    Where several servers decide, an action is a joint one, numbered as `env.exact` numbers them.
    """
    spaces: Spaces = env.spaces

    def chosen(place: jax.Array) -> jax.Array:
        return act(config, spaces, state, env.observation(place), None)

    box = box_size(env, size)
    if isinstance(env, QueueingEnv):
        assert box is not None
        return env.exact_policy(chosen, box)
    rows = jax.vmap(chosen)(jnp.asarray(_places(env)))
    return np.asarray(rows[:, 0], np.intp)


def _places(env: AccessControl | Inventory) -> NDArray[np.int32]:
    """The states [S, ...] in the order of the exact model."""
    if isinstance(env, Inventory):
        return np.arange(env.capacity + 1, dtype=np.int32)
    shape = (env.servers + 1, len(env.priorities))
    return np.indices(shape, np.int32).reshape(2, -1).T


@dataclass(frozen=True)
class Comparison:
    """A policy and the optimal one in the same model."""

    mdp: MDP
    learned: Actions
    """[S] as `effects` says it; so is `optimal`"""
    optimal: Actions
    learned_gain: float
    optimal_gain: float
    learned_law: NDArray[np.float64]
    """[S] the share of time in each state; so is `optimal_law`"""
    optimal_law: NDArray[np.float64]
    undecided: NDArray[np.bool_]
    """[S] True where all that can be done is the same"""
    boxed: bool
    """True where the sides are queues that were cut off"""

    @property
    def gap(self) -> float:
        """By how many percent of the optimum the learned policy misses it."""
        missed = max(self.optimal_gain - self.learned_gain, 0.0)  # below 0 by rounding alone
        return 100 * missed / abs(self.optimal_gain) if self.optimal_gain else float("nan")

    @cached_property
    def at_walls(self) -> float:
        """The share of time that the learned policy has a full queue, which nothing can join."""
        if not self.boxed:
            return 0.0
        inner = self.learned_law.reshape(self.mdp.shape)[(slice(-1),) * len(self.mdp.shape)]
        return float(max(1 - inner.sum(), 0.0))

    def __str__(self) -> str:
        sign, word = (-1, "cost") if self.mdp.cost else (1, "reward")
        return (
            f"average {word} {sign * self.learned_gain:#.5g} learned,"
            f" {sign * self.optimal_gain:#.5g} optimal: a gap of {self.gap:.2f} %"
        )


def compare(mdp: MDP, policy: ArrayLike, boxed: bool = True) -> Comparison:
    """Evaluate a policy [S], solve the model, and see where the two differ in what they do.

    boxed: whether the model's sides are queues that were cut off.
    """
    mdp.distribution(policy)  # refuses what is no policy of this model
    learned = np.asarray(policy, np.intp)
    solution = solve(mdp)
    same, states = effects(mdp), np.arange(mdp.num_states)
    gain, law = _long_run(mdp, learned)
    _, optimal_law = _long_run(mdp, solution.policy)
    return Comparison(
        mdp,
        same[states, learned],
        same[states, solution.policy],
        gain,
        solution.gain,
        law,
        optimal_law,
        undecided=(~mdp.available | (same == same.max(1, keepdims=True))).all(1),
        boxed=boxed,
    )


def _long_run(mdp: MDP, policy: Actions) -> tuple[float, NDArray[np.float64]]:
    """Gain and law [S] of a policy that starts where the model does."""
    transition, rewards = mdp.chain(policy)
    chain = MDP([sparse.csr_array(transition)], rewards[:, None], initial=mdp.initial)
    part, states = reachable(chain)
    found = evaluate(part, np.zeros(len(states), np.intp))
    law = np.zeros(mdp.num_states)
    law[states] = found.stationary
    return found.gain, law


def effects(mdp: MDP) -> Actions:
    """[S, A] the last action that does the same as this one; -1 where it is not available.

    To idle is the last choice of a server, so that one who can do nothing is said to idle.
    """
    count, states = mdp.num_actions, mdp.num_states
    kernels = [mdp.kernel[a * states : (a + 1) * states] for a in range(count)]
    last = np.where(mdp.available, np.arange(count), -1)
    for a in range(count):
        for b in range(a + 1, count):
            both = mdp.available[:, a] & mdp.available[:, b]
            moved = np.asarray(abs(kernels[a] - kernels[b]).sum(axis=1)).ravel()
            paid = np.isclose(mdp.rewards[:, a], mdp.rewards[:, b], rtol=SAME, atol=SAME)
            last[both & (moved <= SAME) & paid, a] = b
    return last
