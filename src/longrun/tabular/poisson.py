"""Linear systems of large sparse chains, without ever forming an inverse.

The Poisson equation of a chain, (I - gamma P) h = r - g e, is solved by a Krylov method, guided by
algebraic multigrid: states are merged in pairs of strongly connected neighbours, level by level, so
that slow, far-reaching modes are seen on small chains (PyAMG's pairwise aggregation). For gamma = 1
the matrix is singular, its null space being the constants, and for gamma close to 1 nearly so. The
equation is therefore solved with every vector's mean taken out; the gain is what is left over.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import pyamg
from numpy.typing import NDArray
from pyamg.relaxation.relaxation import gauss_seidel
from scipy import sparse
from scipy.sparse import linalg

from longrun.errors import NoConvergence
from longrun.tabular.mdp import Array, Matrix

Single: TypeAlias = NDArray[np.float32]
Mergers: TypeAlias = list[Matrix]
"""[S of a level, S of the next]: 1 where a state belongs to a merged one."""

MEMORY = 20
"""Directions that a new one is made orthogonal to, before they are forgotten."""
EFFORT = 3000
"""Cycles before the solver gives up."""
STALLED = 0.99
"""It also gives up when MEMORY cycles leave more than this of the residual."""
LAW_STEPS = 200
"""Steps of the chain itself that a stationary law starts with."""
ACCEPTABLE = 1e-8
"""Largest sum of the residuals of a stationary law that is returned."""
COARSEST = 500
"""States of the level at which multigrid solves directly."""


class SparseChain:
    """The equations of one sparse chain P [S, S]; preconditioners are made when first needed."""

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

        `tolerance` is on the largest residual, `effort` the number of multigrid cycles to spend.
        Returns h and whether the tolerance was reached.
        """
        return _krylov(self.matrix, rewards, guess, tolerance, effort, self._multigrid)

    def gain(self, rewards: Array, values: Array) -> float:
        """Middle of r - (I - P) h [S]: whatever h is, the gain of r is between the ends of that."""
        residual = rewards - self.matrix @ values
        return float(residual.min() + residual.max()) / 2

    def stationary(self, guess: Array, tolerance: float = 1e-13) -> Array:
        """d [S] with d (I - P) = 0 and d e = 1 (gamma = 1), from a law [S] to start with."""
        law, forward = guess, sparse.csr_array(sparse.identity(self.size) - self._transposed)
        for _ in range(LAW_STEPS):
            law = 0.1 * law + 0.9 * (forward @ law)
        law = np.maximum(self.left_solve(np.zeros(self.size), law, tolerance), 0)
        law /= law.sum()
        missed = float(np.abs(self._transposed @ law).sum())
        if not missed <= ACCEPTABLE:
            raise NoConvergence(
                f"the stationary law was found to {missed:.2g} only; is the chain nearly reducible?"
            )
        return law

    def left_solve(self, right: Array, guess: Array, tolerance: float) -> Array:
        """x [S] with x (I - gamma P) = right, which sums to 0, as near to `tolerance` as it gets.

        BiCGSTAB: on the way from `guess` residuals have to travel before they can shrink, and a
        method that insists on shrinking them gets stuck.
        """
        matrix, multigrid, size = self._transposed, self._left_multigrid, self.size
        residual = _centred(right - matrix @ guess)
        scale = float(np.abs(residual).max())
        if scale <= tolerance:
            return guess
        best = _Best(matrix, residual / scale, tolerance / scale)
        with suppress(_Reached), np.errstate(all="ignore"):
            linalg.bicgstab(
                linalg.LinearOperator((size, size), lambda x: _centred(matrix @ x), dtype=float),
                best.residual,
                rtol=1e-16,
                maxiter=EFFORT // 10,
                M=linalg.LinearOperator((size, size), lambda x: _cycled(multigrid, x), dtype=float),
                callback=best,
            )
        return np.asarray(guess + scale * best.step)

    @cached_property
    def _transposed(self) -> Matrix:
        return sparse.csr_array(self.matrix.T)

    @cached_property
    def _left_multigrid(self) -> Multigrid:
        return Multigrid(self._transposed)

    @property
    def mergers(self) -> Mergers:
        """Which states are merged; a chain that differs little can be given the same ones."""
        return self._multigrid.mergers

    @cached_property
    def _multigrid(self) -> Multigrid:
        return Multigrid(self.matrix, self.given_mergers)


class Multigrid:
    """An approximate inverse of a matrix [S, S]: one cycle over chains of merged states.

    A cycle solves the merged chain first, then smooths by Gauss-Seidel, forth and back: customers
    leave in one direction and come in the other. Single precision suffices for a direction and
    halves the memory that it moves. (Measured against pre-smoothing, W- and K-cycles, one or
    three mergers a level, Ruge-Stueben coarsening and incomplete LU on criss-cross networks.)
    """

    def __init__(self, matrix: Matrix, mergers: Mergers | None = None) -> None:
        if mergers is None:
            levels = pyamg.pairwise_solver(sparse.csr_matrix(matrix), max_coarse=COARSEST).levels
            mergers = [sparse.csr_array(level.P.astype(np.float32)) for level in levels[:-1]]
        self.mergers = mergers
        self.splitters = [sparse.csr_array(merger.T) for merger in mergers]
        self.matrices = [sparse.csr_array(matrix.astype(np.float32))]
        for merger, splitter in zip(self.mergers, self.splitters, strict=True):
            self.matrices.append(sparse.csr_array(splitter @ self.matrices[-1] @ merger))
        coarsest = self.matrices[-1].toarray().astype(float)
        # A matrix of equal entries takes care of the constants, the (near) null space.
        coarsest += 1 / len(coarsest)
        try:
            inverse = np.linalg.inv(coarsest)
        except np.linalg.LinAlgError:  # in single precision a slow chain may fall apart
            inverse = np.linalg.pinv(coarsest)
        self.coarsest = inverse.astype(np.float32)

    def __matmul__(self, vector: Array) -> Single:
        """A cycle for a vector [S]; the result is in single precision."""
        return self._cycle(0, vector.astype(np.float32))

    def _cycle(self, level: int, right: Single) -> Single:
        if level == len(self.mergers):
            return np.asarray(self.coarsest @ right)
        merged = self._cycle(level + 1, self.splitters[level] @ right)
        solution = np.asarray(self.mergers[level] @ merged)
        gauss_seidel(self.matrices[level], solution, right, sweep="symmetric")
        return solution


def _krylov(
    matrix: Matrix,
    right: Array,
    guess: Array | None,
    tolerance: float,
    effort: int,
    multigrid: Multigrid,
) -> tuple[Array, bool]:
    """Solve matrix x = right until the largest residual is below tolerance, or effort is spent.

    Generalised conjugate residuals (Eisenstat, Elman and Schultz 1983): each direction is a
    multigrid cycle of the residual, taken as far as makes the residual shortest. The residual
    never grows, so that a solution which is stopped early is of use, where BiCGSTAB wanders. In
    single precision it drifts from the truth, which is looked up whenever directions are forgotten.
    """
    solution = np.zeros(len(right)) if guess is None else guess.copy()
    # Zeros, since BLAS may look at rows beyond those asked for, and warn of what it finds there.
    directions, images = np.zeros((2, MEMORY, len(right)), np.float32)
    best, least = solution.copy(), np.inf
    while True:
        residual = _centred(right - matrix @ solution)
        norm = float(np.linalg.norm(residual))
        if np.abs(residual).max() <= tolerance:
            return solution, True
        if effort <= 0 or not norm < STALLED * least:
            return solution if norm < least else best, False
        best[:], least = solution, norm
        for known in range(min(MEMORY, effort)):
            if np.abs(residual).max() <= tolerance:
                break
            effort -= 1
            direction = _centred(multigrid @ (residual / np.abs(residual).max()))
            image = _centred(matrix @ direction).astype(np.float32)
            overlaps = images[:known] @ image
            direction -= overlaps @ directions[:known]
            image -= overlaps @ images[:known]
            length = float(np.linalg.norm(image))
            if not length > 0:
                break
            directions[known], images[known] = direction / length, image / length
            step = float(images[known] @ residual)
            solution += step * directions[known]
            residual -= step * images[known]


def _centred(vector: Any) -> Any:
    return vector - vector.mean()


def _cycled(multigrid: Multigrid, vector: Array) -> Array:
    scale = float(np.abs(vector).max()) or 1.0
    return np.asarray(_centred(scale * (multigrid @ (vector / scale)).astype(float)))


class _Reached(Exception):
    """Ends BiCGSTAB from within its callback."""


class _Best:
    """The best of BiCGSTAB's iterates: it wanders, and knows only a residual that drifts."""

    def __init__(self, matrix: Matrix, residual: Array, tolerance: float) -> None:
        self.matrix, self.residual, self.tolerance = matrix, residual, tolerance
        self.step: Array = np.zeros(len(residual))
        self.worst = float(np.abs(residual).max())

    def __call__(self, step: Array) -> None:
        worst = float(np.abs(self.residual - _centred(self.matrix @ step)).max())
        if worst < self.worst:
            self.step, self.worst = step.copy(), worst
        if worst <= self.tolerance:
            raise _Reached
