"""A learned policy and the optimal one, evaluated exactly.

The exact model of a network with unbounded queues is restricted to a box of queue lengths; both
policies are evaluated in the same box. Access control, inventory and maintenance are finite.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray

from longrun.base.checks import whole_number
from longrun.base.errors import InputError
from longrun.exact.tabular.long_run import RecurrentClass, long_run
from longrun.exact.tabular.mdp import MDP
from longrun.exact.tabular.solvers import solve
from longrun.learning.envs.native.protocol import Environment, ExactEnvironment
from longrun.learning.learn.acting import act
from longrun.learning.learn.types import TrainState
from longrun.learning.options.config import Config

Actions = NDArray[np.intp]

SIZES = {2: 60, 3: 30}
"""Largest queue length in the box, by the number of queues: it is solved in about a second."""
MOST_STATES = 1_200_000
"""States of a box at most; it is solved in minutes."""

SAME = 1e-12
"""Actions whose probabilities, and rewards, differ by no more do the same: sums of the same rates
in another order differ by some roundings, 1e-15, and 1e-12 of all rates is no decision."""


def require_mappable(env: Environment) -> ExactEnvironment:
    """The environment itself, or an InputError with the reason why it has no map."""
    if not isinstance(env, ExactEnvironment):
        raise InputError(no_map(env.name))
    if (queues := env.num_queues) not in (0, *SIZES):
        raise InputError(
            f"'{env.name}' has {queues} queue{'s' * (queues != 1)}; a map shows two or three"
        )
    return env


def no_map(name: str) -> str:
    """The message for an environment that has no map, whether it has an exact model or not."""
    return (
        f"no map is drawn of '{name}': it is for networks of two or three queues (jax:criss-cross,"
        " ...), jax:access-control, jax:inventory and jax:maintenance; with another model, compare"
        " a policy in Python,"
        " longrun.lab.policy_map.exact_comparison.compare_policies(mdp, policy)"
    )


def box_size(env: ExactEnvironment, size: int | None = None) -> int:
    """Largest queue length in the box, given or by default; 0 if there are no queues."""
    queues = env.num_queues
    by_default = env.buffer or SIZES.get(queues, 0)
    size = env.box(by_default if size is None else whole_number("size", size, 1))
    if (states := (size + 1) ** queues) > MOST_STATES:
        largest = int(MOST_STATES ** (1 / queues)) - 1
        raise InputError(f"size={size} makes {states:,} states; choose {largest} or less")
    return size


def exact_model(env: ExactEnvironment, size: int | None = None) -> MDP:
    """The model that a map is drawn over, with names of its actions and sides."""
    return require_mappable(env).exact(box_size(env, size))


def learned_policy(
    env: ExactEnvironment, config: Config, state: TrainState, size: int | None = None
) -> Actions:
    """[S] the most likely action in each state of `exact_model(env, size)`.

    Where several servers decide, an action is a joint one, numbered as `env.exact` numbers them.
    """
    spaces = env.spaces

    def chosen(place: jax.Array) -> jax.Array:
        return act(config.acting, spaces, state, env.observation(place), None)

    return env.exact_policy(chosen, box_size(env, size))


def compare_run(
    env: Environment, config: Config, state: TrainState, size: int | None = None
) -> PolicyComparison:
    """Compare what was learned in an environment that has an exact model."""
    exact = require_mappable(env)
    learned = learned_policy(exact, config, state, size)
    boxed = exact.num_queues > 0 and not exact.buffer
    return compare_policies(exact_model(exact, size), learned, boxed)


@dataclass(frozen=True)
class PolicyComparison:
    """A policy and the optimal one in the same model."""

    mdp: MDP
    learned: Actions
    """[S] as `effects` numbers the actions; so is `optimal`"""
    optimal: Actions
    learned_gain: float
    optimal_gain: float
    learned_law: NDArray[np.float64]
    """[S] the share of time in each state; so is `optimal_law`"""
    optimal_law: NDArray[np.float64]
    undecided: NDArray[np.bool_]
    """[S] True where all available actions have the same effect"""
    boxed: bool
    """whether the sides are queues that were truncated"""
    classes: list[RecurrentClass]
    """the recurrent classes that the learned policy may end in, from the model's start"""

    @property
    def gap(self) -> float:
        """The distance of the learned policy from the optimum, in percent of the optimum."""
        distance = max(self.optimal_gain - self.learned_gain, 0.0)  # negative only by rounding
        return 100 * distance / abs(self.optimal_gain) if self.optimal_gain else float("nan")

    @cached_property
    def at_walls(self) -> float:
        """The share of time in which a queue is full under the learned policy."""
        if not self.boxed:
            return 0.0
        inner = self.learned_law.reshape(self.mdp.shape)[(slice(-1),) * len(self.mdp.shape)]
        return float(max(1 - inner.sum(), 0.0))

    def __str__(self) -> str:
        sign, name = (-1, "cost") if self.mdp.cost else (1, "reward")
        return (
            f"average {name} {sign * self.learned_gain:#.5g} learned,"
            f" {sign * self.optimal_gain:#.5g} optimal: a gap of {self.gap:.2f} %"
        )


def compare_policies(mdp: MDP, policy: ArrayLike, boxed: bool = True) -> PolicyComparison:
    """Evaluate a policy [S], solve the model, and compare the effects of the two policies.

    boxed: whether the model's sides are queues that were truncated.
    """
    mdp.distribution(policy)  # raises an error if it is not a policy of this model
    learned = np.asarray(policy, np.intp)
    solution = solve(mdp)
    same, states = effects(mdp), np.arange(mdp.num_states)
    found = long_run(mdp, learned)
    return PolicyComparison(
        mdp,
        same[states, learned],
        same[states, solution.policy],
        found.gain,
        solution.gain,
        found.law,
        long_run(mdp, solution.policy).law,
        undecided=(~mdp.available | (same == same.max(1, keepdims=True))).all(1),
        boxed=boxed,
        classes=found.classes,
    )


def effects(mdp: MDP) -> Actions:
    """[S, A] the last action that does the same as this one; -1 where it is not available.

    Idling is a server's last action, so that a server without customers is shown as idle.
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
