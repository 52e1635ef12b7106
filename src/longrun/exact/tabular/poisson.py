"""Linear systems of large sparse chains, without forming an inverse.

The Poisson equation of a chain, (I - gamma P) h = r - g e, is solved by a Krylov method that is
preconditioned by algebraic multigrid: states are merged in pairs of strongly connected neighbours,
level by level (PyAMG's pairwise aggregation). For gamma = 1 the matrix is singular, its null space
being the constants, so that vectors are centred; the gain is the remainder.
"""

from __future__ import annotations

from functools import cached_property
from typing import TypeAlias

import numpy as np
import pyamg
from numpy.typing import NDArray
from pyamg.relaxation.relaxation import gauss_seidel
from scipy import sparse

from longrun.base.errors import NoConvergence
from longrun.base.student import student_reach
from longrun.exact.tabular.krylov import bicgstab, centred, conjugate_residuals
from longrun.exact.tabular.mdp import Array, Matrix
from longrun.exact.tabular.precision import longest_row, rounding

Floats: TypeAlias = NDArray[np.floating]
Mergers: TypeAlias = list[Matrix]
"""[S of a level, S of the next]: 1 where a state belongs to a merged one."""

EFFORT = 3000
"""Cycles before the solver gives up."""
DETOUR = 600
"""Limit on the cycles of BiCGSTAB. It needs 30 to 200 where it converges."""
LAW_STEPS = 200
"""Steps of the chain itself at the start of the computation of a stationary law."""
LAW_TOLERANCE = 1e-14
"""Largest residual of a law, relative to its largest entry: 45 units in the last place of that
entry, close to the rounding error of a state's inflow, a sum of about ten terms in a network."""
ROUGHLY = 0.1
"""Relative precision of a mean time from which an upper bound is computed."""
COARSEST = 500
"""Number of states of the level at which multigrid solves directly."""


class SparseChain:
    """The equations of one sparse chain P [S, S]; preconditioners are built when first needed."""

    def __init__(
        self, transition: Matrix, discount: float = 1.0, mergers: Mergers | None = None
    ) -> None:
        self.given_mergers = mergers
        self.size = transition.shape[0]
        self.discount = discount
        self.matrix = sparse.csr_array(sparse.identity(self.size) - discount * transition)

    def solve(
        self, rewards: Array, guess: Array | None, tolerance: float, effort: int = EFFORT
    ) -> tuple[Array, bool]:
        """h with (I - gamma P) h = rewards, up to a constant on both sides.

        `tolerance` limits the largest residual, `effort` the number of multigrid cycles.
        Returns h and whether the tolerance was reached. Where conjugate residuals stall, in long
        narrow chains and nearly reducible ones, BiCGSTAB uses the remaining effort.
        """

        def worst(values: Array) -> float:
            return float(np.abs(centred(rewards - self.matrix @ values)).max())

        values, left = conjugate_residuals(
            self.matrix, rewards, guess, tolerance, effort, self._multigrid
        )
        if left > 0 and worst(values) > tolerance:
            detour = min(left, DETOUR)
            guide = self._careful_multigrid
            values = bicgstab(self.matrix, rewards, values, tolerance, detour, guide)
        return values, worst(values) <= tolerance

    def gain(self, rewards: Array, values: Array) -> float:
        """Middle of r - (I - P) h [S]: for any h, the gain of r is between its min and max."""
        residual = rewards - self.matrix @ values
        return float(residual.min() + residual.max()) / 2

    def stationary(self, guess: Array) -> tuple[Array, float]:
        """d [S] with d (I - P) = 0 and d e = 1 (gamma = 1), and a bound on the sum of its errors.

        guess: [S] starting point, with a positive sum.
        """
        forward = sparse.csr_array(sparse.identity(self.size) - self._transposed)
        law = _as_law(guess)
        for _ in range(LAW_STEPS):
            law = 0.1 * law + 0.9 * (forward @ law)
        nothing = np.zeros(self.size)
        for _ in range(2):  # the first gives the size of its entries, on which rounding depends
            law = _as_law(self.left_solve(nothing, law, LAW_TOLERANCE * float(law.max())))
        return law, self._law_error(law, nothing, self.times(law))

    def discounted_stationary(
        self, law: Array, initial: Array, times: Array
    ) -> tuple[Array, float]:
        """d_gamma [S] = (1 - gamma) d_0 (I - gamma P)^-1, and a bound on the sum of its errors.

        law, initial, times: [S] d, d_0, and `times` of the average criterion. It is found as
        d + (1 - gamma) y with y (I - gamma P) = d_0 - d: a small correction for gamma close to 1.
        """
        wrong = initial - law
        goal = LAW_TOLERANCE * float(np.abs(wrong).max())
        visits = self.left_solve(wrong, np.zeros(self.size), goal)
        found = _as_law(law + (1 - self.discount) * visits)
        return found, self._law_error(found, (1 - self.discount) * initial, times)

    def left_solve(self, right: Array, guess: Array, tolerance: float) -> Array:
        """x [S] with x (I - gamma P) = right, which sums to 0, as precise as rounding allows."""
        return bicgstab(self._transposed, right, guess, tolerance, DETOUR, self._left_multigrid)

    def _law_error(self, law: Array, source: Array, times: Array) -> float:
        """A bound on the sum of |law - x| over all states, for the x with x (I - gamma P) = source.

        With T(s) the mean steps from s to some state z, or until they are discounted, and
        q = law (I - gamma P) - source, it is 2 |q| T: misplaced mass stays misplaced until
        it reaches z. (On the other states, law - x = q G - c x_z: G the visits before z, G e = T,
        x_z a law, and c = q G e since law and x have the same sum.) times: [S] bounds of T.
        """
        inflow = longest_row(self._transposed)
        wrong = np.abs(self._transposed @ law - source) + rounding(inflow + 4, 2.0) * law
        if self.discount < 1:
            times = np.minimum(times, 1 / (1 - self.discount))
        return 2 * float(wrong @ times)

    def times(self, law: Array) -> Array:
        """Bounds [S] of the mean steps to the likeliest state (gamma = 1); infinite where unknown.

        They are (h - h(z)) / d(z), with h the bias of a chain that pays -1 in that state, z. For
        any h with a mean decrease of f > 0 per step elsewhere, (h - h(z)) / f is an upper bound
        (Foster and Lyapunov), so that this h need not be exact.
        """
        likeliest = int(np.argmax(law))
        paid = -np.eye(1, self.size, likeliest)[0]
        values, _ = self.solve(paid, None, ROUGHLY * float(law[likeliest]))
        values = values - values[likeliest]
        falls = self.matrix @ values - rounding(
            longest_row(self.matrix) + 4, 2 * float(np.abs(values).max())
        )
        least = float(np.delete(falls, likeliest).min(initial=np.inf))
        return np.asarray(values / least if least > 0 else np.full(self.size, np.inf))

    @cached_property
    def _transposed(self) -> Matrix:
        return sparse.csr_array(self.matrix.T)

    @cached_property
    def _left_multigrid(self) -> Multigrid:
        return Multigrid(self._transposed, dtype=np.float64)

    @property
    def mergers(self) -> Mergers:
        """Which states are merged; can be reused for a chain that differs little."""
        return self._multigrid.mergers

    @cached_property
    def _multigrid(self) -> Multigrid:
        return Multigrid(self.matrix, self.given_mergers)

    @cached_property
    def _careful_multigrid(self) -> Multigrid:
        return Multigrid(self.matrix, self.mergers, np.float64)


class Multigrid:
    """An approximate inverse of a matrix [S, S]: one cycle over chains of merged states.

    A cycle solves the merged chain first, then smooths by Gauss-Seidel, forward and backward, since
    customers arrive in one direction and leave in the other. Single precision suffices for the
    directions of conjugate residuals, which evaluate each one. BiCGSTAB assumes that a cycle is one
    fixed linear map, and stagnates at the precision to which that holds.
    """

    def __init__(
        self, matrix: Matrix, mergers: Mergers | None = None, dtype: type[np.floating] = np.float32
    ) -> None:
        if mergers is None:
            levels = pyamg.pairwise_solver(sparse.csr_matrix(matrix), max_coarse=COARSEST).levels
            mergers = [sparse.csr_array(level.P.astype(np.float32)) for level in levels[:-1]]
        self.mergers = mergers
        self.splitters = [sparse.csr_array(merger.T) for merger in mergers]
        self.dtype = dtype
        self.matrices = [sparse.csr_array(matrix.astype(dtype))]
        merged = matrix  # in double precision: the rates of a slow chain are differences 1 - p
        for merger, splitter in zip(self.mergers, self.splitters, strict=True):
            merged = splitter @ merged @ merger
            self.matrices.append(sparse.csr_array(merged.astype(dtype)))
        # A matrix of equal entries handles the constants, the (near) null space.
        coarsest = merged.toarray() + 1 / merged.shape[0]
        try:
            inverse = np.linalg.inv(coarsest)
        except np.linalg.LinAlgError:  # so slow that it is numerically reducible
            inverse = np.linalg.pinv(coarsest)
        self.coarsest = inverse.astype(dtype)

    def __matmul__(self, vector: Array) -> Floats:
        """One cycle for a vector [S]; the result has the multigrid's precision."""
        return self._cycle(0, vector.astype(self.dtype))

    def _cycle(self, level: int, right: Floats) -> Floats:
        if level == len(self.mergers):
            return np.asarray(self.coarsest @ right)
        merged = self._cycle(level + 1, self.splitters[level] @ right)
        solution = np.asarray(self.mergers[level] @ merged)
        gauss_seidel(self.matrices[level], solution, right, sweep="symmetric")
        return solution


def _as_law(vector: Array) -> Array:
    """Negative entries from rounding set to 0, then divided by the sum."""
    law = np.maximum(vector, 0)
    return np.asarray(law / law.sum())


PROBES = 10
"""Random vectors of each kind for Kemeny's constant; it takes three times as many solutions."""
ESTIMATED = 1e-6
"""Tolerance of each solution; the standard error of the estimate is far larger."""


def trace_of_deviation(equations: SparseChain, law: Array, seed: int = 0) -> tuple[float, float]:
    """trace D, so that kappa = 1 + trace D, and the half-width of its 95 % interval.

    Hutch++ (Meyer, Musco, Musco and Woodruff 2021): the trace over the directions that D stretches
    most, its slow modes, is computed, and the rest is estimated from random signs. D is only
    applied to vectors, each of which takes the solution of one Poisson equation.
    """
    rng = np.random.default_rng(seed)

    def applied(vector: Array) -> Array:
        """D x: the y with (I - P) y = x - (d x) e and d y = 0."""
        goal = ESTIMATED * float(np.abs(vector).max())
        solution, reached = equations.solve(vector - law @ vector, None, goal)
        if not reached:
            raise NoConvergence(
                f"a Poisson equation of Kemeny's constant was not solved to {goal:.2g}; "
                "the chain is too slow for an estimate"
            )
        return np.asarray(solution - law @ solution)

    def deviation(vectors: Array) -> Array:
        return np.stack([applied(column) for column in vectors.T], axis=1)

    def signs() -> Array:
        return rng.choice([-1.0, 1.0], (len(law), PROBES))

    slow, _ = np.linalg.qr(deviation(signs()))
    known = float(np.einsum("sk,sk->", slow, deviation(slow)))
    rest = signs()
    rest -= slow @ (slow.T @ rest)
    samples = np.einsum("sk,sk->k", rest, deviation(rest))
    return known + float(samples.mean()), float(student_reach(samples))
