"""Iterative solvers of the linear systems of large chains, preconditioned by multigrid.

Vectors are centred: the constants are the (near) null space of I - gamma P, and everything here is
up to a constant.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from longrun.exact.tabular.mdp import Array, Matrix

MEMORY = 20
"""Directions that a new one is made orthogonal to; then they are discarded."""
STALLED = 0.99
"""Conjugate residuals give up if MEMORY cycles leave more than this fraction of the residual."""
BREAKDOWN = 1e-32
"""Size of products of vectors below which a run of BiCGSTAB cannot go on."""
PATIENCE = 30
"""Steps of BiCGSTAB without a better solution, after which it is restarted."""
WORTHWHILE = 0.5
"""BiCGSTAB is not restarted if it leaves more than this fraction of the residual; it is not
interrupted before it has reached this fraction."""


def conjugate_residuals(
    matrix: Matrix,
    right: Array,
    guess: Array | None,
    tolerance: float,
    effort: int,
    multigrid: Any,
) -> tuple[Array, int]:
    """Solve matrix x = right until the largest residual is below tolerance, or effort is used up.

    Generalised conjugate residuals (Eisenstat, Elman and Schultz 1983): each direction is a
    multigrid cycle of the residual, with the step size that minimises the residual. It never grows,
    so that a solution is useful even if stopped early. In single precision it drifts from the true
    one, which is recomputed when directions are discarded. Returns the solution and the number of
    cycles that are left.
    """
    solution = np.zeros(len(right)) if guess is None else guess.copy()
    # Zeros, since BLAS may read rows beyond those requested, and warn about their content.
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
            with np.errstate(all="ignore"):  # an overflow counts as stalled
                solution += step * directions[known]
                residual -= step * images[known]


def bicgstab(
    matrix: Matrix,
    right: Array,
    guess: Array,
    tolerance: float,
    effort: int,
    multigrid: Any,
) -> Array:
    """Solve matrix x = right until the largest residual is below tolerance or stops shrinking.

    BiCGSTAB (van der Vorst 1992), with two cycles per step. Intermediate residuals may grow, so
    that mass can move where minimal residuals stagnate. Rounding may make it stagnate at any
    residual; it is therefore restarted from its best solution until that brings no improvement.
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
        step, steps = _run(matrix, residual / worst, tolerance / worst, effort // 2, multigrid)
        solution = np.asarray(solution + worst * step)
        effort -= 2 * steps + 1


def _run(
    matrix: Matrix, right: Array, tolerance: float, limit: int, multigrid: Any
) -> tuple[Array, int]:
    """The best solution of one run of BiCGSTAB from 0, and the number of its steps.

    It is not monotone, and its own residual drifts from the true one.
    """
    best = solution = direction = image = np.zeros(len(right))
    residual, least = right, np.abs(right).max()
    rho: Any = np.float64(1)
    alpha = omega = rho
    found_at = steps = 0
    with np.errstate(all="ignore"):
        while steps < limit:
            before, rho = rho, right @ residual
            if min(abs(rho), abs(omega)) < BREAKDOWN:
                break
            direction = (direction - omega * image) * (rho / before * (alpha / omega)) + residual
            first = _cycled(multigrid, direction)
            image = centred(matrix @ first)
            alpha = rho / (right @ image)
            residual = residual - alpha * image
            second = _cycled(multigrid, residual)
            moved = centred(matrix @ second)
            omega = (moved @ residual) / (moved @ moved)
            solution = solution + alpha * first + omega * second
            residual = residual - omega * moved
            steps += 1
            worst = np.abs(right - centred(matrix @ solution)).max()
            if worst < least:
                best, least, found_at = solution, worst, steps
            tired = steps - found_at >= PATIENCE and least < WORTHWHILE
            if worst <= tolerance or tired or not np.isfinite(alpha):
                break
    return best, steps


def centred(vector: Any) -> Any:
    """The vector minus its mean."""
    return vector - vector.mean()


def _cycled(multigrid: Any, vector: Array) -> Array:
    scale = float(np.abs(vector).max()) or 1.0
    return np.asarray(centred(scale * (multigrid @ (vector / scale)).astype(float)))
