"""Linear systems of large sparse chains, without ever forming an inverse.

The Poisson equation of a chain, (I - gamma P) h = r - g e, is solved by BiCGSTAB, preconditioned by
algebraic multigrid: states are merged in pairs of strongly connected neighbours, level by level, so
that slow, far-reaching modes are seen on small chains (PyAMG's pairwise aggregation). For gamma = 1
the matrix is singular, its null space being the constants, and for gamma close to 1 nearly so. The
equation is therefore solved with every vector's mean taken out; the gain is what is left over.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from typing import Any

import numpy as np
import pyamg
from pyamg.relaxation.relaxation import gauss_seidel
from scipy import sparse
from scipy.sparse import linalg

from longrun.tabular.mdp import Array, Matrix

ROUND = 200
"""Iterations of BiCGSTAB before it starts again from the true residual."""
EFFORT = 2000
"""Iterations before it gives up."""
ACCEPTABLE = 1e-10
"""Largest residual of a stationary law that is returned."""
COARSEST = 500
"""States of the level at which multigrid solves directly."""


class SparseChain:
    """The equations of one sparse chain P [S, S]; preconditioners are made when first needed."""

    def __init__(self, transition: Matrix, discount: float = 1.0) -> None:
        self.size = transition.shape[0]
        self.discount = discount
        self.matrix = sparse.csr_array(sparse.identity(self.size) - discount * transition)

    def solve(
        self, rewards: Array, guess: Array | None, tolerance: float, effort: int = EFFORT
    ) -> tuple[Array, bool]:
        """h with (I - gamma P) h = rewards, up to a constant on both sides.

        `tolerance` is on the largest residual, `effort` the number of iterations to spend. Returns
        h and whether the tolerance was reached.
        """
        return _krylov(self.matrix, rewards, guess, tolerance, effort, self._multigrid)

    def stationary(self, tolerance: float = 1e-13) -> Array:
        """d [S] with d (I - P) = 0 and d e = 1 (gamma = 1).

        Residuals of this system sum to 0, so the correction to a first guess is well defined.
        """
        guess = np.full(self.size, 1 / self.size)
        transposed = sparse.csr_array(self.matrix.T)
        zero, multigrid = np.zeros(self.size), self._transposed_multigrid
        law, _ = _krylov(transposed, zero, guess, tolerance, EFFORT, multigrid)
        law = np.maximum(law, 0) / np.maximum(law, 0).sum()
        missed = float(np.abs(transposed @ law).max())
        if not missed <= ACCEPTABLE:
            raise RuntimeError(
                f"the stationary law was found to {missed:.2g} only; is the chain nearly reducible?"
            )
        return np.asarray(law)

    @cached_property
    def _multigrid(self) -> Multigrid:
        return Multigrid(self.matrix)

    @cached_property
    def _transposed_multigrid(self) -> Multigrid:
        return Multigrid(sparse.csr_array(self.matrix.T))


class Multigrid:
    """An approximate inverse of a matrix [S, S]: one cycle over chains of merged states.

    A cycle solves the merged chain first, then smooths by Gauss-Seidel, forth and back: customers
    leave in one direction and come in the other. Single precision suffices for a preconditioner
    and halves the memory that it moves. (Measured against pre-smoothing, W- and K-cycles, one or
    three mergers a level, Ruge-Stueben coarsening and incomplete LU on criss-cross networks.)
    """

    def __init__(self, matrix: Matrix) -> None:
        levels = pyamg.pairwise_solver(sparse.csr_matrix(matrix), max_coarse=COARSEST).levels
        self.matrices = [sparse.csr_array(level.A.astype(np.float32)) for level in levels]
        self.mergers = [sparse.csr_array(level.P.astype(np.float32)) for level in levels[:-1]]
        self.splitters = [sparse.csr_array(level.R.astype(np.float32)) for level in levels[:-1]]
        coarsest = levels[-1].A.toarray()
        # A matrix of equal entries takes care of the constants, the (near) null space.
        self.coarsest = np.linalg.inv(coarsest + 1 / len(coarsest)).astype(np.float32)

    def __matmul__(self, vector: Array) -> Array:
        norm = float(np.linalg.norm(vector)) or 1.0
        return np.asarray(norm * self._cycle(0, (vector / norm).astype(np.float32)).astype(float))

    def _cycle(self, level: int, right: Any) -> Any:
        if level == len(self.mergers):
            return self.coarsest @ right
        merged = self._cycle(level + 1, self.splitters[level] @ right)
        solution = self.mergers[level] @ merged
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
    """Solve matrix x = right by BiCGSTAB until the largest true residual is below tolerance.

    BiCGSTAB wanders, so the best of its iterates is kept. After `effort` iterations, or when a
    round of them has not halved the residual, that best one is returned as it is.
    """
    size = len(right)
    operator = linalg.LinearOperator((size, size), lambda x: _centred(matrix @ x), dtype=float)
    smoother = linalg.LinearOperator((size, size), lambda x: _centred(multigrid @ x), dtype=float)
    solution = np.zeros(size) if guess is None else guess
    residual = _centred(right - matrix @ solution)
    worst = float(np.abs(residual).max())
    while worst > tolerance and effort > 0:
        # Scaled, since SciPy takes inner products below 1e-32 for a breakdown.
        best = _Best(operator, residual / worst, tolerance / worst)
        with suppress(_Reached), np.errstate(all="ignore"):  # breakdowns end a round
            linalg.bicgstab(
                operator,
                best.residual,
                rtol=1e-14,
                maxiter=min(ROUND, effort),
                M=smoother,
                callback=best,
            )
        effort -= ROUND
        if best.step is not None:
            solution = solution + worst * best.step
            residual = _centred(right - matrix @ solution)
            worst = float(np.abs(residual).max())
        if not best.worst < 0.5:
            break
    return solution, worst <= tolerance


def _centred(vector: Array) -> Array:
    return np.asarray(vector - vector.mean())


class _Reached(Exception):
    """Ends BiCGSTAB from within its callback."""


class _Best:
    """Watches BiCGSTAB's iterates: it itself knows only the 2-norm of a residual that drifts."""

    def __init__(self, operator: Any, residual: Array, tolerance: float) -> None:
        self.operator, self.residual, self.tolerance = operator, residual, tolerance
        self.step: Array | None = None
        self.worst = 1.0

    def __call__(self, step: Array) -> None:
        worst = float(np.abs(self.residual - self.operator @ step).max())
        if worst < self.worst:
            self.step, self.worst = step.copy(), worst
        if worst <= self.tolerance:
            raise _Reached
