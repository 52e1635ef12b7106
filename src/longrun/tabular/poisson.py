"""Linear systems of large sparse chains, without ever forming an inverse.

The Poisson equation of a chain, (I - gamma P) h = r - g e, is solved by a Krylov method, guided by
algebraic multigrid: states are merged in pairs of strongly connected neighbours, level by level, so
that slow, far-reaching modes are seen on small chains (PyAMG's pairwise aggregation). For gamma = 1
the matrix is singular, its null space being the constants, and for gamma close to 1 nearly so. The
equation is therefore solved with every vector's mean taken out; the gain is what is left over.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import pyamg
from numpy.typing import NDArray
from pyamg.relaxation.relaxation import gauss_seidel
from scipy import sparse

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
ACCEPTABLE = 1e-10
"""Largest residual of a stationary law that is returned."""
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

    @property
    def mergers(self) -> Mergers:
        """Which states are merged; a chain that differs little can be given the same ones."""
        return self._multigrid.mergers

    @cached_property
    def _multigrid(self) -> Multigrid:
        return Multigrid(self.matrix, self.given_mergers)

    @cached_property
    def _transposed_multigrid(self) -> Multigrid:
        return Multigrid(sparse.csr_array(self.matrix.T))


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
        self.coarsest = np.linalg.inv(coarsest + 1 / len(coarsest)).astype(np.float32)

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
    never grows, so that a solution which is stopped early is of use, where BiCGSTAB wanders.
    """
    solution = np.zeros(len(right)) if guess is None else guess.copy()
    directions, images = np.empty((2, MEMORY, len(right)), np.float32)
    while effort > 0:
        residual = _centred(right - matrix @ solution)
        before = float(np.linalg.norm(residual))
        for known in range(min(MEMORY, effort)):
            if np.abs(residual).max() <= tolerance:
                return solution, True
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
        effort -= MEMORY
        if not np.linalg.norm(residual) < STALLED * before:
            break
    residual = _centred(right - matrix @ solution)
    return solution, bool(np.abs(residual).max() <= tolerance)


def _centred(vector: Any) -> Any:
    return vector - vector.mean()
