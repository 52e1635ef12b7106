"""The loop of tabular learning: a simulated MDP, one update per step, many seeds at once."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from scipy import sparse

from longrun.exact.tabular.learning import rules
from longrun.exact.tabular.learning.rules import Learner, Number, Rule, Settings, Transition
from longrun.exact.tabular.mdp import MDP, Array

Place: TypeAlias = tuple[Learner, jax.Array]
"""A learner and the state that it is in."""


class Simulator(NamedTuple):
    """An MDP as tables to sample from; N is the largest number of successors of a pair."""

    successors: jax.Array
    """[S, A, N], padded"""
    probabilities: jax.Array
    """[S, A, N], cumulative, padded with ones"""
    rewards: jax.Array
    """[S, A]"""
    exploration: jax.Array
    """[S, A], cumulative: the law of an exploring action."""
    initial: jax.Array
    """[S], cumulative"""


class History(NamedTuple):
    """Snapshots of learners; [seeds, K, ...] when all are done."""

    gain: jax.Array
    policy: jax.Array
    """[S]: greedy actions"""
    stopped: jax.Array
    """Whether CSV-learning has terminated."""


def simulator(mdp: MDP, exploration: Array) -> Simulator:
    """`exploration`: [S, A] probabilities of the actions."""
    kernel = sparse.csr_array(mdp.kernel)
    counts = np.diff(kernel.indptr)
    rows = np.repeat(np.arange(len(counts)), counts)
    columns = np.arange(kernel.nnz) - kernel.indptr[rows]  # the position within its row
    successors = np.zeros((len(counts), counts.max()), np.int64)
    probabilities = np.zeros(successors.shape)
    successors[rows, columns], probabilities[rows, columns] = kernel.indices, kernel.data
    by_action = (mdp.num_actions, mdp.num_states, -1)
    return Simulator(
        jnp.asarray(successors.reshape(by_action).swapaxes(0, 1)),
        jnp.asarray(_cumulative(probabilities).reshape(by_action).swapaxes(0, 1)),
        jnp.asarray(mdp.rewards),
        jnp.asarray(_cumulative(exploration)),
        jnp.asarray(_cumulative(mdp.initial)),
    )


@partial(jax.jit, static_argnames=("rule", "interval", "snapshots"))
def learn_all(
    simulator: Simulator,
    entries: jax.Array,
    seeds: jax.Array,
    settings: Settings,
    epsilon: tuple[Number, Number],
    tolerance: Number,
    *,
    rule: Rule,
    interval: int,
    snapshots: int,
) -> tuple[Learner, History]:
    """The learners after snapshots * interval steps, and their snapshots, for each of `seeds`.

    entries: the shape of the table to be learned; False where an action is not available.
    """
    schedule = jnp.linspace(*epsilon, snapshots * interval).reshape(snapshots, interval)

    def one_interval(place: Place, given: tuple[jax.Array, jax.Array]) -> tuple[Place, History]:
        key, epsilons = given
        uniforms = jax.random.uniform(key, (interval, 3))  # far faster than one step at a time
        step = partial(_one_step, simulator, settings, rule)
        (learner, state), _ = jax.lax.scan(step, place, (uniforms, epsilons))
        stopped = learner.stopped | rules.terminated(place[0].q, learner.q, tolerance)
        learner = learner._replace(stopped=stopped)
        return (learner, state), History(learner.gain, learner.q.argmax(1), stopped)

    def one_seed(seed: jax.Array) -> tuple[Learner, History]:
        keys = jax.random.split(jax.random.key(seed), snapshots + 1)
        state = _draw(simulator.initial, jax.random.uniform(keys[0]))
        place = rules.beginner(entries), state
        (learner, _), history = jax.lax.scan(one_interval, place, (keys[1:], schedule))
        return learner, history

    return jax.vmap(one_seed)(seeds)


def _one_step(
    simulator: Simulator,
    settings: Settings,
    rule: Rule,
    place: Place,
    chance: tuple[jax.Array, jax.Array],
) -> tuple[Place, None]:
    """`chance`: three uniform numbers and the probability of exploration."""
    (learner, state), (uniforms, epsilon) = place, chance
    other = _draw(simulator.exploration[state], uniforms[1])
    action = jnp.where(uniforms[0] < epsilon, other, learner.q[state].argmax())
    drawn = _draw(simulator.probabilities[state, action], uniforms[2])
    successor = simulator.successors[state, action, drawn]
    step = Transition(state, action, simulator.rewards[state, action], successor)
    return (rule(learner, step, settings), successor), None


def _draw(cumulative: jax.Array, uniform: jax.Array) -> jax.Array:
    return (uniform >= cumulative).sum()


def _cumulative(probabilities: Array) -> Array:
    """Sums along the last axis that end at exactly 1, so that padding is never drawn."""
    sums = probabilities.cumsum(-1)
    total = sums[..., -1:]
    return np.asarray(np.divide(sums, total, out=np.ones_like(sums), where=total > 0))
