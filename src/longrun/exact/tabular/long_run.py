"""A policy's long run from the model's start, also where it has several recurrent classes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from longrun.exact.tabular.evaluation import Evaluation, evaluate
from longrun.exact.tabular.mdp import MDP, Array, Matrix
from longrun.exact.tabular.structure import chain_structure, reachable


@dataclass(frozen=True)
class RecurrentClass:
    """States that are never left once one of them is entered."""

    states: NDArray[np.intp]
    probability: float
    """probability of being entered from the model's start"""
    gain: float


@dataclass(frozen=True)
class LongRun:
    """Averages over time and over the class that the policy ends in."""

    gain: float
    law: Array
    """[S] the mean share of time in each state"""
    classes: list[RecurrentClass]
    """the likeliest one first"""


def long_run(mdp: MDP, policy: ArrayLike) -> LongRun:
    """The long run of a policy, [S] actions or [S, A] probabilities, from `mdp.initial`."""
    transition, rewards = mdp.chain(mdp.distribution(policy))
    part, states = reachable(_chain(transition, rewards, mdp.initial))
    matrix, earned = sparse.csr_array(part.kernel), part.rewards[:, 0]
    recurrent = chain_structure(matrix).recurrent
    law = np.zeros(mdp.num_states)
    classes = []
    chances = _entered(matrix, part.initial, recurrent)
    for members, chance in zip(recurrent, chances, strict=True):
        found = _evaluated(_chain(matrix[members][:, members], earned[members]))
        classes.append(RecurrentClass(states[members], float(chance), found.gain))
        law[states[members]] = chance * found.stationary
    gain = float(chances @ np.array([each.gain for each in classes]))
    return LongRun(gain, law, sorted(classes, key=lambda each: -each.probability))


def _entered(matrix: Matrix, initial: Array, classes: list[NDArray[np.intp]]) -> Array:
    """[classes] the probability of each, of a chain [S, S] with an initial law [S].

    In the chain that starts anew from each class, as one state, all are entered again and again:
    their shares of its time have the same proportions.
    """
    if len(classes) == 1:
        return np.ones(1)
    merged = np.concatenate(classes)
    rest = np.setdiff1d(np.arange(len(initial)), merged)
    number = np.empty(len(initial), np.intp)  # of each state in the new chain
    number[rest] = len(classes) + np.arange(len(rest))
    for c, members in enumerate(classes):
        number[members] = c
    size = len(classes) + len(rest)
    to = sparse.csr_array((np.ones(len(initial)), (np.arange(len(initial)), number)))
    start = sparse.csr_array((initial @ to)[None, :])
    anew = sparse.vstack([start] * len(classes) + [matrix[rest] @ to], format="csr")
    time = _evaluated(_chain(anew, np.zeros(size))).stationary[: len(classes)]
    return np.asarray(time / time.sum())


def _chain(transition: Matrix, rewards: Array, initial: Array | None = None) -> MDP:
    return MDP([sparse.csr_array(transition)], rewards[:, None], initial=initial)


def _evaluated(chain: MDP) -> Evaluation:
    return evaluate(chain, np.zeros(chain.num_states, np.intp))
