"""Tabular average-reward learning from experience, many seeds in one program.

`learn` has Differential Q-learning, RVI Q-learning, R-learning and CSV-learning
(`LEARNING_METHODS`); `predict` is differential TD.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from longrun.base.checks import known, require_at_least, require_positive, require_probability
from longrun.base.errors import InputError
from longrun.exact.tabular.learning import rules
from longrun.exact.tabular.learning.rules import Learner, Rule, Settings, Transition
from longrun.exact.tabular.mdp import MDP, Array

__all__ = ["LEARNING_METHODS", "LearningCurves", "Method", "Prediction", "learn", "predict"]


class Method(NamedTuple):
    """A rule and its default settings."""

    rule: Rule
    gain_step_size: float | None
    epsilon: tuple[float, float] = (1.0, 0.1)


LEARNING_METHODS = {
    "differential_q": Method(rules.differential_q, 0.5),
    "rvi_q": Method(rules.rvi_q, None),
    "r_learning": Method(rules.r_learning, 10.0),
    # Decaying exploration would make the Q-values of CSV-learning drift apart.
    "csv": Method(rules.csv_learning, 10.0, (0.3, 0.3)),
}
"""The methods of `learn` by name."""


class LearningCurves(NamedTuple):
    """The results of `learn`: K snapshots at equal distances, the last one at the end."""

    method: str
    steps: NDArray[np.int64]
    """[K]"""
    gains: Array
    """[seeds, K]: the method's own estimates."""
    policies: NDArray[np.int64]
    """[seeds, K, S]: the greedy actions."""
    q: Array
    """[seeds, S, A] at the end; minus infinity where an action is not available."""


class Prediction(NamedTuple):
    """The results of `predict` for a policy."""

    steps: NDArray[np.int64]
    """[K]"""
    gains: Array
    """[seeds, K]"""
    values: Array
    """[seeds, S] at the end: the policy's bias, up to a constant for each seed."""


def learn(
    mdp: MDP,
    method: str = "differential_q",
    *,
    steps: int = 3_000_000,
    seeds: int = 8,
    seed: int = 0,
    epsilon: tuple[float, float] | None = None,
    step_size: float = 20.0,
    gain_step_size: float | None = None,
    shift: float | None = None,
    snapshots: int = 100,
) -> LearningCurves:
    """Learn to act from one endless stream of experience for each seed, ..., seed + seeds - 1.

    method: differential_q, rvi_q, r_learning or csv.
    epsilon: probability of a random action at the first and at the last step, linear in between.
    step_size: h; the n-th update of a pair (n = 0, 1, ...) moves it by h / (h + n) of its error.
    gain_step_size: differential_q: how far the gain moves when the mean of Q moves by 1.
        r_learning and csv: h of the gain's own steps. rvi_q has none.
    shift: csv: the constant that is subtracted from every reward, a rough estimate of the gain.
        With one far below the gain rare actions look too bad, with one above it too good.
    """
    chosen = LEARNING_METHODS[known("method", method, LEARNING_METHODS)]
    if method == "csv" and shift is None:
        raise InputError("shift=None: csv needs a constant to subtract; give a guess of the gain")
    if method != "csv" and shift is not None:
        raise InputError(f"shift={shift}: only csv has it; leave it out for {method}")
    if chosen.gain_step_size is None and gain_step_size is not None:
        raise InputError(f"gain_step_size={gain_step_size}: {method} has none; leave it out")
    pace = chosen.gain_step_size if gain_step_size is None else gain_step_size
    settings = Settings(
        step_size=step_size,
        gain_step_size=1.0 if pace is None else pace,
        entries=int(mdp.available.sum()),
        shift=shift or 0.0,
        epsilon=epsilon or chosen.epsilon,
    )
    tables = _tables(mdp, mdp.uniform_policy, mdp.available)
    every = range(seed, seed + seeds)
    at, learner, history = _simulated(chosen.rule, settings, tables, every, steps, snapshots)
    gains, policies = map(np.asarray, history)
    return LearningCurves(method, at, gains, policies, np.asarray(learner.q))


def predict(
    mdp: MDP,
    policy: ArrayLike,
    *,
    steps: int = 3_000_000,
    seeds: int = 8,
    seed: int = 0,
    step_size: float = 100.0,
    gain_step_size: float = 0.5,
    snapshots: int = 100,
) -> Prediction:
    """Gain and differential values of a policy by differential TD(0), on policy.

    policy: [S, A] probabilities or [S] actions.
    step_size: h; after t steps a state moves by h / (h + t / S) of its error.
    gain_step_size: how far the gain moves when the mean of the values moves by 1.
    Other options are those of `learn`.
    """
    rule, settings = rules.differential_td, Settings(step_size, gain_step_size, mdp.num_states)
    tables = _tables(mdp, mdp.distribution(policy), np.ones((mdp.num_states, 1), bool))
    every = range(seed, seed + seeds)
    at, learner, history = _simulated(rule, settings, tables, every, steps, snapshots)
    return Prediction(at, np.asarray(history.gain), np.asarray(learner.q)[..., 0])


def _simulated(
    rule: Rule, settings: Settings, tables: Tables, seeds: range, steps: int, snapshots: int
) -> tuple[NDArray[np.int64], Learner, History]:
    """The steps [K] of the snapshots, and the learners and snapshots of all seeds."""
    if steps < 1 or snapshots < 1 or steps % snapshots:
        raise InputError(f"steps={steps} must be a positive multiple of snapshots={snapshots}")
    require_at_least(1, seeds=len(seeds))
    require_probability(**{f"epsilon[{i}]": each for i, each in enumerate(settings.epsilon)})
    require_positive(step_size=settings.step_size, gain_step_size=settings.gain_step_size)
    interval = steps // snapshots
    # Double precision: late steps are tiny, and CSV-learning drives its values far from zero.
    with jax.enable_x64(True):
        given = jax.tree.map(float, settings), jax.tree.map(jnp.asarray, tables)
        result = _all_seeds(*given, jnp.asarray(seeds), rule, interval, snapshots)
    return interval * np.arange(1, snapshots + 1), *result


Place: TypeAlias = tuple[Learner, jax.Array]
"""A learner and the state that it is in."""


class Tables(NamedTuple):
    """An MDP to sample from; N is the largest number of successors of a pair."""

    successors: Any
    """[S, A, N], padded"""
    probabilities: Any
    """[S, A, N], cumulative, padded with ones"""
    rewards: Any
    """[S, A]"""
    exploration: Any
    """[S, A], cumulative: the law of an exploring action."""
    initial: Any
    """[S], cumulative"""
    entries: Any
    """the shape of the table to be learned; False where an action is not available"""


class History(NamedTuple):
    """Snapshots of learners; [seeds, K, ...] when all are done."""

    gain: jax.Array
    policy: jax.Array
    """[S]: greedy actions"""


def _tables(mdp: MDP, exploration: Array, entries: NDArray[np.bool_]) -> Tables:
    """`exploration`: [S, A] probabilities of the actions."""
    kernel = sparse.csr_array(mdp.kernel)
    counts = np.diff(kernel.indptr)
    rows = np.repeat(np.arange(len(counts)), counts)
    columns = np.arange(kernel.nnz) - kernel.indptr[rows]  # the position within its row
    successors = np.zeros((len(counts), counts.max()), np.int64)
    probabilities = np.zeros(successors.shape)
    successors[rows, columns], probabilities[rows, columns] = kernel.indices, kernel.data
    by_action = (mdp.num_actions, mdp.num_states, -1)
    return Tables(
        successors.reshape(by_action).swapaxes(0, 1),
        _cumulative(probabilities).reshape(by_action).swapaxes(0, 1),
        mdp.rewards,
        _cumulative(exploration),
        _cumulative(mdp.initial),
        entries,
    )


@partial(jax.jit, static_argnames=("rule", "interval", "snapshots"))
def _all_seeds(
    settings: Settings, tables: Tables, seeds: jax.Array, rule: Rule, interval: int, snapshots: int
) -> tuple[Learner, History]:
    """The learners after snapshots * interval steps, and their snapshots, for each of `seeds`."""
    schedule = jnp.linspace(*settings.epsilon, snapshots * interval).reshape(snapshots, interval)

    def one_interval(place: Place, given: tuple[jax.Array, jax.Array]) -> tuple[Place, History]:
        key, epsilons = given
        uniforms = jax.random.uniform(key, (interval, 3))  # far faster than one step at a time
        step = partial(_one_step, tables, settings, rule)
        (learner, state), _ = jax.lax.scan(step, place, (uniforms, epsilons))
        return (learner, state), History(learner.gain, learner.q.argmax(1))

    def one_seed(seed: jax.Array) -> tuple[Learner, History]:
        keys = jax.random.split(jax.random.key(seed), snapshots + 1)
        state = _draw(tables.initial, jax.random.uniform(keys[0]))
        place = rules.beginner(tables.entries), state
        (learner, _), history = jax.lax.scan(one_interval, place, (keys[1:], schedule))
        return learner, history

    return jax.vmap(one_seed)(seeds)


def _one_step(
    tables: Tables, settings: Settings, rule: Rule, place: Place, chance: tuple[Any, Any]
) -> tuple[Place, None]:
    """`chance`: three uniform numbers and the probability of exploration."""
    (learner, state), (uniforms, epsilon) = place, chance
    other = _draw(tables.exploration[state], uniforms[1])
    action = jnp.where(uniforms[0] < epsilon, other, learner.q[state].argmax())
    drawn = _draw(tables.probabilities[state, action], uniforms[2])
    successor = tables.successors[state, action, drawn]
    step = Transition(state, action, tables.rewards[state, action], successor)
    return (rule(learner, step, settings), successor), None


def _draw(cumulative: jax.Array, uniform: jax.Array) -> jax.Array:
    return (uniform >= cumulative).sum()


def _cumulative(probabilities: Array) -> Array:
    """Sums along the last axis that end at exactly 1, so that padding is never drawn."""
    sums = probabilities.cumsum(-1)
    total = sums[..., -1:]
    return np.asarray(np.divide(sums, total, out=np.ones_like(sums), where=total > 0))
