"""Learning from experience: tabular average-reward methods, many seeds in one program."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from longrun.base.errors import InputError
from longrun.exact.tabular.learning import rules
from longrun.exact.tabular.learning.loop import History, learn_all, simulator
from longrun.exact.tabular.learning.rules import Learner, Rule, Settings
from longrun.exact.tabular.mdp import MDP, Array
from longrun.exact.tabular.validation import require_positive


class Method(NamedTuple):
    """A rule and its default settings."""

    rule: Rule
    gain_step_size: float | None
    epsilon: tuple[float, float] = (1.0, 0.1)


METHODS = {
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
    stopped: NDArray[np.int64]
    """[seeds]: the step after which CSV-learning had terminated, else the last one."""


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
    tolerance: float = 0.0,
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
    tolerance: csv: terminate when all Q-values rose equally, up to this, between two snapshots.
    """
    chosen = _chosen(method, gain_step_size, shift, tolerance)
    pairs = int(mdp.available.sum())
    settings = Settings(step_size, chosen.gain_step_size or 0.0, pairs, shift or 0.0)
    at, learner, history = _simulate(
        mdp,
        chosen.rule,
        settings,
        range(seed, seed + seeds),
        steps,
        snapshots,
        exploration=mdp.uniform_policy,
        entries=mdp.available,
        epsilon=epsilon or chosen.epsilon,
        tolerance=tolerance,
    )
    ended = np.asarray(history.stopped)
    stopped = at[np.where(ended.any(1), ended.argmax(1), -1)]
    gains, policies = np.asarray(history.gain), np.asarray(history.policy)
    return LearningCurves(method, at, gains, policies, np.asarray(learner.q), stopped)


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
    require_positive(gain_step_size=gain_step_size)
    at, learner, history = _simulate(
        mdp,
        rules.differential_td,
        Settings(step_size, gain_step_size, mdp.num_states),
        range(seed, seed + seeds),
        steps,
        snapshots,
        exploration=mdp.distribution(policy),
        entries=np.ones((mdp.num_states, 1), bool),
        epsilon=(1.0, 1.0),  # never greedy: every action is drawn from the policy
    )
    return Prediction(at, np.asarray(history.gain), np.asarray(learner.q)[..., 0])


def _chosen(
    method: str, gain_step_size: float | None, shift: float | None, tolerance: float
) -> Method:
    if method not in METHODS:
        raise InputError(f"method={method!r} is unknown; choose one of {', '.join(METHODS)}")
    if method == "csv" and shift is None:
        raise InputError("shift=None: csv needs a constant to subtract; give a guess of the gain")
    if method != "csv" and (shift is not None or tolerance):
        raise InputError(
            f"shift={shift}, tolerance={tolerance}: only csv has them; leave them out for {method}"
        )
    chosen = METHODS[method]
    if gain_step_size is None:
        return chosen
    if chosen.gain_step_size is None:
        raise InputError(f"gain_step_size={gain_step_size}: {method} has none; leave it out")
    require_positive(gain_step_size=gain_step_size)
    return chosen._replace(gain_step_size=gain_step_size)


def _simulate(
    mdp: MDP,
    rule: Rule,
    settings: Settings,
    seeds: range,
    steps: int,
    snapshots: int,
    *,
    exploration: Array,
    entries: NDArray[np.bool_],
    epsilon: tuple[float, float],
    tolerance: float = 0.0,
) -> tuple[NDArray[np.int64], Learner, History]:
    """The steps [K] of the snapshots, and the learners and snapshots of all seeds."""
    if steps < 1 or snapshots < 1 or steps % snapshots:
        raise InputError(f"steps={steps} must be a positive multiple of snapshots={snapshots}")
    if not seeds:
        raise InputError(f"seeds={len(seeds)}: nothing to do; give at least 1")
    if not all(0 <= e <= 1 for e in epsilon):
        raise InputError(f"epsilon={epsilon} must be two probabilities, at first and at last")
    require_positive(step_size=float(settings.step_size))
    interval = steps // snapshots
    # Double precision: late steps are tiny, and CSV-learning drives its values far from zero.
    with jax.enable_x64(True):
        result = learn_all(
            simulator(mdp, exploration),
            jnp.asarray(entries),
            jnp.asarray(seeds),
            Settings(*map(float, settings)),
            epsilon,
            tolerance,
            rule=rule,
            interval=interval,
            snapshots=snapshots,
        )
    return interval * np.arange(1, snapshots + 1), *result
