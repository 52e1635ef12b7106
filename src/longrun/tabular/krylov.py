"""Iterative solvers of the linear systems of large chains, guided by multigrid.

Vectors have their mean taken out: the constants are the (near) null space of I - gamma P, and
everything here is up to a constant.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Protocol

import numpy as np
from scipy.sparse import linalg

from longrun.tabular.mdp import Array, Matrix

MEMORY = 20
"""Directions that a new one is made orthogonal to, before they are forgotten."""
STALLED = 0.99
"""Conjugate residuals give up when MEMORY cycles leave more than this of the residual."""
PATIENCE = 30
"""Steps of BiCGSTAB without a better solution, after which it is started again."""
WORTHWHILE = 0.5
"""A start of BiCGSTAB that leaves more than this of the residual is the last one; before it has
done as much, it is not interrupted."""


class Preconditioner(Protocol):
    def __matmul__(self, vector: Array) -> Any: ...


def conjugate_residuals(
    matrix: Matrix,
    right: Array,
    guess: Array | None,
    tolerance: float,
    effort: int,
    multigrid: Preconditioner,
) -> tuple[Array, int]:
    """Solve matrix x = right until the largest residual is below tolerance, or effort is spent.

    Generalised conjugate residuals (Eisenstat, Elman and Schultz 1983): each direction is a
    multigrid cycle of the residual, taken as far as makes the residual shortest. The residual
    never grows, so that a solution which is stopped early is of use, where BiCGSTAB wanders. In
    single precision it drifts from the truth, which is looked up whenever directions are forgotten.
    Returns the solution and the cycles that are left.
    """
    solution = np.zeros(len(right)) if guess is None else guess.copy()
    # Zeros, since BLAS may look at rows beyond those asked for, and warn of what it finds there.
    directions, images = np.zeros((2, MEMORY, len(right)), np.float32)
    best, least = solution.copy(), np.inf
    while True:
        residual = centred(right - matrix @ solution)
        norm = float(np.linalg.norm(residual))
        if np.abs(residual).max() <= tolerance:
            return solution, effort
        if effort <= 0 or not norm < STALLED * least:
            return solution if norm < least else best, effort
        best[:], least = solution, norm
        for known in range(min(MEMORY, effort)):
            if np.abs(residual).max() <= tolerance:
                break
            effort -= 1
            direction = centred(multigrid @ (residual / np.abs(residual).max()))
            image = centred(matrix @ direction).astype(np.float32)
            overlaps = images[:known] @ image
            direction -= overlaps @ directions[:known]
            image -= overlaps @ images[:known]
            length = float(np.linalg.norm(image))
            if not length > 0:
                break
            directions[known], images[known] = direction / length, image / length
            step = float(images[known] @ residual)
            with np.errstate(all="ignore"):  # beyond all numbers it has stalled, too
                solution += step * directions[known]
                residual -= step * images[known]


def bicgstab(
    matrix: Matrix,
    right: Array,
    guess: Array,
    tolerance: float,
    effort: int,
    multigrid: Preconditioner,
) -> Array:
    """Solve matrix x = right until the largest residual is below tolerance, or as near as it gets.

    BiCGSTAB (van der Vorst 1992), at two cycles a step. Residuals may grow on the way, so that mass
    can travel where minimal residuals get stuck. But rounding makes it forget what its directions
    were orthogonal to, and it may then stand still for good, at any residual: which one, is a
    matter of the last bits. From its best solution it is therefore started again, with the true
    residual, until that gains nothing: so precision is limited by the equation, not by the path.
    """
    best, least = guess, np.inf
    solution = guess
    while True:
        residual = centred(right - matrix @ solution)
        worst = float(np.abs(residual).max())
        if worst < least:
            best = solution
        if effort <= 0 or worst <= tolerance or not worst < WORTHWHILE * least:
            return best
        least = worst
        step, steps = _start(matrix, residual / worst, tolerance / worst, effort // 2, multigrid)
        solution = np.asarray(solution + worst * step)
        effort -= 2 * steps + 1


def _start(
    matrix: Matrix, right: Array, tolerance: float, limit: int, multigrid: Preconditioner
) -> tuple[Array, int]:
    """The best solution of one start of BiCGSTAB from 0, and the steps that it took."""
    watch, shape = _Watch(matrix, right, tolerance), matrix.shape
    with suppress(_Enough), np.errstate(all="ignore"):
        linalg.bicgstab(
            linalg.LinearOperator(shape, lambda x: centred(matrix @ x), dtype=float),
            right,
            rtol=0,
            maxiter=limit,
            M=linalg.LinearOperator(shape, lambda x: _cycled(multigrid, x), dtype=float),
            callback=watch,
        )
    return watch.best, watch.steps


class _Enough(Exception):
    """Ends BiCGSTAB from within its callback."""


class _Watch:
    """Keeps the best of BiCGSTAB's solutions: it wanders, and knows only a residual that drifts."""

    def __init__(self, matrix: Matrix, right: Array, tolerance: float) -> None:
        self.matrix, self.right, self.tolerance = matrix, right, tolerance
        self.best: Array = np.zeros(len(right))
        self.worst = float(np.abs(right).max())
        self.steps = self.found_at = 0

    def __call__(self, solution: Array) -> None:
        self.steps += 1
        worst = float(np.abs(self.right - centred(self.matrix @ solution)).max())
        if worst < self.worst:
            self.best, self.worst, self.found_at = solution.copy(), worst, self.steps
        tired = self.steps - self.found_at >= PATIENCE and self.worst < WORTHWHILE
        if worst <= self.tolerance or tired:
            raise _Enough


def centred(vector: Any) -> Any:
    """The vector with its mean taken out."""
    return vector - vector.mean()


def _cycled(multigrid: Preconditioner, vector: Array) -> Array:
    scale = float(np.abs(vector).max()) or 1.0
    return np.asarray(centred(scale * (multigrid @ (vector / scale)).astype(float)))
