"""Tabular learning against the exact optimum: all methods, two models, seeds 0 to 7.

python benchmarks/tabular_learning.py

Writes benchmarks/results/tabular-learning.csv and a figure a model. About two minutes.
"""

import argparse
import csv
import time
from pathlib import Path

import numpy as np

from longrun.tabular.learning import METHODS, LearningCurves, Prediction, learn, predict
from longrun.tabular.learning_figure import learning_curves_figure
from longrun.tabular.mdp import MDP, Array
from longrun.tabular.models.classic import access_control, riverswim

RESULTS = Path(__file__).parent / "results"
MODELS = {"riverswim": riverswim, "access-control": access_control}
SHIFTS = {"riverswim": 0.4, "access-control": 2.5}
"""CSV-learning's prior knowledge: the gain, known up to some 10 %. All else is left at its default."""
COLUMNS = (
    "model",
    "method",
    "steps",
    "seeds",
    "exact gain",
    "mean estimate",
    "worst estimate, error %",
    "worst greedy policy, error %",
    "worst value, error",
    "seconds",
)
Row = dict[str, object]


def gains_from_everywhere(mdp: MDP, policy: Array) -> Array:
    """[S]: a policy's gain from each state; a bad policy may have several recurrent classes."""
    matrix, rewards = mdp.chain(policy)
    matrix = matrix.toarray() if mdp.is_sparse else matrix
    limit = (matrix + np.eye(len(rewards))) / 2  # aperiodic, with the same gains
    for _ in range(60):
        limit = limit @ limit
        limit /= limit.sum(1, keepdims=True)
    return np.asarray(limit @ rewards)


def bias(mdp: MDP, policy: Array) -> tuple[float, Array]:
    """Gain and bias [S] of a policy with one recurrent class: (I - P) h + g = r, h[0] = 0."""
    matrix, rewards = mdp.chain(policy)
    matrix = matrix.toarray() if mdp.is_sparse else matrix
    system = np.eye(len(rewards)) - matrix
    system[:, 0] = 1  # h[0] is 0; its column is the gain's
    solution = np.linalg.solve(system, rewards)
    return float(solution[0]), np.concatenate([[0.0], solution[1:]])


def optimum(mdp: MDP) -> tuple[float, Array]:
    """The optimal gain and a policy, by policy iteration from the greedy policy of the rewards."""
    policy = mdp.rewards.argmax(1)
    while True:
        gain, values = bias(mdp, policy)
        better = mdp.lookahead(values)
        current = better[np.arange(len(policy)), policy]
        improved = np.where(better.max(1) > current + 1e-10, better.argmax(1), policy)
        if (improved == policy).all():
            return gain, policy
        policy = improved


def value_errors(mdp: MDP, policy: Array, values: Array) -> Array:
    """[seeds]: root mean square error of values [seeds, S] in the long run, apart from a constant."""
    matrix, _ = mdp.chain(policy)
    matrix = matrix.toarray() if mdp.is_sparse else matrix
    law = np.linalg.matrix_power((matrix + np.eye(len(matrix))) / 2, 2**16)[0]
    errors = values - bias(mdp, policy)[1]
    errors = errors - (errors @ law)[:, None]
    return np.sqrt(errors**2 @ law)
