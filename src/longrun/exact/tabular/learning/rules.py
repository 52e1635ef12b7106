"""The updates of the tabular average-reward methods, one step of experience at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp

Number: TypeAlias = Any
"""A float, or an array without dimensions."""
Rule: TypeAlias = Callable[["Learner", "Transition", "Settings"], "Learner"]


class Settings(NamedTuple):
    """Parameters that the rules share."""

    step_size: Number
    """h: the n-th update of a pair (n = 0, 1, ...) moves it by h / (h + n) of its error."""
    gain_step_size: Number
    """Differential methods: how far the gain moves when the mean of all entries moves by 1.
    R-learning and CSV-learning: h of the gain's own steps."""
    entries: Number
    """Number of pairs, or of states, that have a value."""
    shift: Number = 0.0
    """CSV-learning: the constant that is subtracted from every reward."""
    epsilon: tuple[Number, Number] = (1.0, 1.0)
    """Probability of exploration at the first and at the last step."""


class Learner(NamedTuple):
    """The state of a method."""

    q: jax.Array
    """[S, A]; minus infinity where an action is not available. [S, 1] when states have values."""
    visits: jax.Array
    """Same shape as q: how often an entry was updated."""
    gain: jax.Array
    """[]"""
    gain_updates: jax.Array
    """[]: how often the gain was updated; not counted where its step size does not depend on it."""


class Transition(NamedTuple):
    """One transition; every entry is a scalar."""

    state: Number
    action: Number
    reward: Number
    successor: Number


def beginner(available: jax.Array) -> Learner:
    """A learner in its initial state, where all pairs [S, A] have the same value."""
    q, zero = jnp.where(available, 0.0, -jnp.inf), jnp.zeros(())
    return Learner(q, jnp.zeros_like(q), zero, zero)


def differential_q(learner: Learner, step: Transition, settings: Settings) -> Learner:
    """Differential Q-learning (Wan, Naik, Sutton 2021).

    delta = r - g + max_b Q(s', b) - Q(s, a)
    Q(s, a) += alpha delta
    g += eta alpha delta,  eta = gain_step_size / entries
    """
    change = _step_size(learner, step, settings) * _error(learner, step, learner.gain)
    gain = learner.gain + settings.gain_step_size / settings.entries * change
    return _moved(learner, step, change)._replace(gain=gain)


def differential_td(learner: Learner, step: Transition, settings: Settings) -> Learner:
    """Differential TD(0), on policy (Wan, Naik, Sutton 2021); q is V, [S, 1].

    delta = r - g + V(s') - V(s)
    V(s) += alpha delta
    g += eta alpha delta,  eta = gain_step_size / entries
    Here alpha is h / (h + t / S) after t steps: if step sizes shrank only with a state's own
    visits, each first visit of a rare state would change the gain of all by much.
    """
    h, time, here = settings.step_size, learner.gain_updates, step._replace(action=0)
    alpha = h / (h + time / settings.entries)
    change = alpha * _error(learner, here, learner.gain)
    gain = learner.gain + settings.gain_step_size / settings.entries * change
    return _moved(learner, here, change)._replace(gain=gain, gain_updates=time + 1)


def rvi_q(learner: Learner, step: Transition, settings: Settings) -> Learner:
    """RVI Q-learning (Abounadi, Bertsekas, Borkar 2001); f(Q) is the mean over the pairs.

    Q(s, a) += alpha (r - f(Q) + max_b Q(s', b) - Q(s, a)),  and f(Q) is the gain.
    A reference pair is the other usual f; it is noisy if that pair is rare. With the mean, this
    is differential Q-learning with gain_step_size 1.
    """
    change = _step_size(learner, step, settings) * _error(learner, step, learner.gain)
    gain = learner.gain + change / settings.entries  # the mean, updated incrementally
    return _moved(learner, step, change)._replace(gain=gain)


def r_learning(learner: Learner, step: Transition, settings: Settings) -> Learner:
    """R-learning (Schwartz 1993).

    Q(s, a) += alpha (r - g + max_b Q(s', b) - Q(s, a))
    g += beta (r + max_b Q(s', b) - max_b Q(s, b) - g)   where a is greedy
    """
    change = _step_size(learner, step, settings) * _error(learner, step, learner.gain)
    return _moved(_gain_learnt(learner, step, settings), step, change)


def csv_learning(learner: Learner, step: Transition, settings: Settings) -> Learner:
    """CSV-learning (Yang, Gao, An, Wang, Chen 2016): a constant c, not the gain, is subtracted.

    Q(s, a) += alpha (r - c + max_b Q(s', b) - Q(s, a))
    Q does not converge but rises, or falls, at the rate gain - c per unit of step size. The gain is
    estimated as c plus the rate of the state values max_b Q(s, b): the mean of R-learning's target.
    """
    change = _step_size(learner, step, settings) * _error(learner, step, settings.shift)
    return _moved(_gain_learnt(learner, step, settings), step, change)


def _error(learner: Learner, step: Transition, shift: Number) -> Number:
    best = learner.q[step.successor].max()
    return step.reward - shift + best - learner.q[step.state, step.action]


def _step_size(learner: Learner, step: Transition, settings: Settings) -> Number:
    """Step sizes like 1 / n weigh all pairs equally in the limit, however often each is visited.

    The proof of RVI Q-learning requires that, and without it CSV-learning's Q-values drift apart.
    """
    h, n = settings.step_size, learner.visits[step.state, step.action]
    return h / (h + n)


def _moved(learner: Learner, step: Transition, change: jax.Array) -> Learner:
    place = step.state, step.action
    return learner._replace(
        q=learner.q.at[place].add(change), visits=learner.visits.at[place].add(1)
    )


def _gain_learnt(learner: Learner, step: Transition, settings: Settings) -> Learner:
    """R-learning's gain after a step; Q is that before the step."""
    best = learner.q[step.state].max()
    counts = learner.q[step.state, step.action] == best
    h, n = settings.gain_step_size, learner.gain_updates
    error = step.reward + learner.q[step.successor].max() - best - learner.gain
    gain = learner.gain + jnp.where(counts, h / (h + n), 0) * error
    return learner._replace(gain=gain, gain_updates=n + counts)
