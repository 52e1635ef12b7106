"""Linear systems of large sparse chains, without ever forming an inverse.

The Poisson equation of a chain, (I - gamma P) h = r - g e, is solved by BiCGSTAB, preconditioned by
algebraic multigrid: states are merged in pairs of strongly connected neighbours, level by level, so
that slow, far-reaching modes are seen on small chains (PyAMG's pairwise aggregation). For gamma = 1
the matrix is singular, its null space being the constants; the equation is then solved with every
vector's mean taken out, and the gain is what is left over.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import pyamg
from pyamg.relaxation.relaxation import gauss_seidel
from scipy import sparse
from scipy.sparse import linalg

from longrun.tabular.mdp import Array, Matrix

SHIFT = 1e-8
"""Added to the diagonal of I - P in the preconditioner alone, which a singular matrix would break."""
ROUND = 200
"""Iterations of BiCGSTAB before it starts again; it gives up when a round does not halve the residual."""
COARSEST = 500
"""States of the level at which multigrid solves directly."""


class SparseChain:
    """The equations of one sparse chain P [S, S]; the preconditioners are made when first needed."""

    def __init__(self, transition: Matrix, discount: float = 1.0) -> None:
        self.size = transition.shape[0]
        self.discount = discount
        self.matrix = sparse.csr_array(sparse.identity(self.size) - discount * transition)

    def solve(self, rewards: Array, guess: Array | None, tolerance: float) -> tuple[Array, bool]:
        """h with (I - gamma P) h = rewards, for gamma = 1 up to a constant on both sides.

        `tolerance` is on the largest residual. Returns h and whether it was reached.
        """
        return _krylov(self.matrix, rewards, guess, tolerance, self._multigrid, self.discount == 1)

    def stationary(self, tolerance: float = 1e-13) -> Array:
        """d [S] with d (I - P) = 0 and d e = 1 (gamma = 1).

        Residuals of this system sum to 0, so the correction to a first guess is well defined.
        """
        guess = np.full(self.size, 1 / self.size)
        transposed = sparse.csr_array(self.matrix.T)
        law, _ = _krylov(
            transposed, np.zeros(self.size), guess, tolerance, self._transposed_multigrid, True
        )
        law = np.maximum(law, 0)
        return np.asarray(law / law.sum())

    def discounted_stationary(self, initial: Array, tolerance: float = 1e-13) -> Array:
        """d_gamma [S] = (1 - gamma) d_0 (I - gamma P)^-1."""
        transposed = sparse.csr_array(self.matrix.T)
        start = (1 - self.discount) * initial
        law, _ = _krylov(transposed, start, None, tolerance, self._transposed_multigrid, False)
        law = np.maximum(law, 0)
        return np.asarray(law / law.sum())

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
        shifted = sparse.csr_matrix(matrix + SHIFT * sparse.identity(matrix.shape[0]))
        levels = pyamg.pairwise_solver(shifted, max_coarse=COARSEST).levels
        self.matrices = [sparse.csr_array(level.A.astype(np.float32)) for level in levels]
        self.mergers = [sparse.csr_array(level.P.astype(np.float32)) for level in levels[:-1]]
        self.splitters = [sparse.csr_array(level.R.astype(np.float32)) for level in levels[:-1]]
        # The constants, which the shift alone keeps from being a null space, are left out.
        self.coarsest = np.linalg.pinv(levels[-1].A.toarray(), rcond=1e-6).astype(np.float32)

    def __matmul__(self, vector: Array) -> Array:
        norm = float(np.linalg.norm(vector)) or 1.0
        return norm * self._cycle(0, (vector / norm).astype(np.float32)).astype(float)

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
    multigrid: Multigrid,
    singular: bool,
) -> tuple[Array, bool]:
    """Solve matrix x = right by BiCGSTAB until the largest true residual is below tolerance."""
    size = len(right)

    def centred(vector: Array) -> Array:
        return vector - vector.mean() if singular else vector

    def watch(step: Array) -> None:
        # BiCGSTAB knows the 2-norm of a residual that drifts from the true one.
        if np.abs(residual - centred(matrix @ step)).max() <= tolerance:
            raise _Reached(step)

    operator = linalg.LinearOperator((size, size), lambda x: centred(matrix @ x), dtype=float)
    smoother = linalg.LinearOperator((size, size), lambda x: centred(multigrid @ x), dtype=float)
    solution = np.zeros(size) if guess is None else guess
    residual = centred(right - matrix @ solution)
    worst = np.abs(residual).max()
    while worst > tolerance:
        try:
            step, _ = linalg.bicgstab(
                operator, residual, rtol=1e-14, maxiter=ROUND, M=smoother, callback=watch
            )
        except _Reached as reached:
            return solution + reached.step, True
        residual = centred(right - matrix @ (solution + step))
        if not np.abs(residual).max() < 0.5 * worst:
            return solution, False
        solution, worst = solution + step, np.abs(residual).max()
    return solution, True


class _Reached(Exception):
    """Ends BiCGSTAB from within its callback."""

    def __init__(self, step: Array) -> None:
        self.step = step.copy()
