"""Kemeny's constant of a large chain: a stochastic estimate of a trace, with an error bar."""

from __future__ import annotations

import numpy as np

from longrun.base.errors import NoConvergence
from longrun.base.student import student_reach
from longrun.exact.tabular.mdp import Array
from longrun.exact.tabular.poisson import SparseChain

PROBES = 10
"""Random vectors of each kind; an estimate solves three times as many equations."""
TOLERANCE = 1e-6
"""Tolerance of each solution; the standard error of the estimate is far larger."""


def trace_of_deviation(equations: SparseChain, law: Array, seed: int = 0) -> tuple[float, float]:
    """trace D, so that kappa = 1 + trace D, and the half-width of its 95 % interval.

    Hutch++ (Meyer, Musco, Musco and Woodruff 2021): the trace over the directions that D stretches
    most, its slow modes, is computed, and the rest is estimated from random signs. D is only
    applied to vectors, each of which takes the solution of one Poisson equation.
    """
    size = len(law)
    rng = np.random.default_rng(seed)

    def deviation(vectors: Array) -> Array:
        return np.stack([_apply(equations, law, column) for column in vectors.T], axis=1)

    def signs() -> Array:
        return rng.choice([-1.0, 1.0], (size, PROBES))

    slow, _ = np.linalg.qr(deviation(signs()))
    known = float(np.einsum("sk,sk->", slow, deviation(slow)))
    rest = signs()
    rest -= slow @ (slow.T @ rest)
    samples = np.einsum("sk,sk->k", rest, deviation(rest))
    return known + float(samples.mean()), float(student_reach(samples))


def _apply(equations: SparseChain, law: Array, vector: Array) -> Array:
    """D x: the y with (I - P) y = x - (d x) e and d y = 0."""
    goal = TOLERANCE * float(np.abs(vector).max())
    solution, reached = equations.solve(vector - law @ vector, None, goal)
    if not reached:
        raise NoConvergence(
            f"a Poisson equation of Kemeny's constant was not solved to {goal:.2g}; "
            "the chain is too slow for an estimate"
        )
    return np.asarray(solution - law @ solution)
