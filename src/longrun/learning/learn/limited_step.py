"""The natural-gradient step under limits on costs (Achiam et al. 2017, Agnihotri et al. 2024)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from longrun.learning.learn.constrained_step import RIDGE, BallStep, ball_step
from longrun.learning.learn.trust_region import (
    CG_ITERATIONS,
    DAMPING,
    LINE_SEARCH_STEPS,
    NaturalStep,
    Problem,
    backtrack,
    conjugate_gradient,
    fisher_products,
)

Params = TypeVar("Params")
ROUNDING = 1e-3
"""Share of what a step can change a cost by: less above a limit counts as kept."""


class LimitedStep(NamedTuple):
    """What the line search returns, and what the linearised problem said."""

    taken: NaturalStep
    """the step taken; its surrogates are [1 + K], of the reward and the costs"""
    price: jax.Array
    """[K] in units of the first surrogate; 0 while recovering"""
    recovering: jax.Array
    """[] bool: the step only reduces the costs"""


def limited_step(
    surrogates: Callable[[Params], jax.Array],
    mean_kl: Callable[[Params], jax.Array],
    params: Params,
    excess: jax.Array,
    *,
    approach: jax.Array | float,
    kl_limit: jax.Array | float,
    damping: jax.Array | float = DAMPING,
    cg_iterations: int = CG_ITERATIONS,
    line_search_steps: int = LINE_SEARCH_STEPS,
) -> tuple[Params, LimitedStep]:
    """Maximise the first surrogate where the KL divergence and the costs keep their limits.

    surrogates: [1 + K], what reward and costs change by, up to constants. excess: [K] how far each
    cost is above its limit at `params`; a step may use up, or must correct, the share `approach` of
    it: estimates of the costs are noisy, and a step that corrected all would follow the noise. The
    step solves the linearised problem, then is halved until the actual surrogates and KL are good
    (`_is_good`). If that never happens, the parameters are returned unchanged, to the bit.
    """
    flat, unravel = ravel_pytree(params)

    problem = Problem(lambda x: surrogates(unravel(x)), lambda x: mean_kl(unravel(x)))
    start, gradients = problem.objective(flat), jax.jacrev(problem.objective)(flat)
    product = fisher_products(problem.divergence, flat, damping)
    directions = jax.vmap(lambda g: conjugate_gradient(product, g, cg_iterations))(gradients)
    products = jax.vmap(product)(directions)
    full_step, solution, reach = _best_of(
        directions, products, gradients, approach * excess, kl_limit
    )

    def is_good(step: NaturalStep) -> jax.Array:
        improved = _is_good(step.surrogate - start, excess, reach, solution.recovering)
        return improved & (step.kl <= kl_limit)

    new, taken = backtrack(problem, params, full_step, start, is_good, line_search_steps)
    return new, LimitedStep(taken, solution.price, solution.recovering)


def _best_of(
    directions: jax.Array,
    products: jax.Array,
    gradients: jax.Array,
    excess: jax.Array,
    kl_limit: jax.Array | float,
) -> tuple[jax.Array, BallStep, jax.Array]:
    """The best step [P] among the combinations of the directions, in the linearised problem.

    directions: [1 + K, P], H^-1 times the gradients [1 + K, P]; products: H times the directions.
    Conjugate gradient is inexact, so that the step is the solution among these combinations: H and
    all gradients are restricted to them, and it keeps the linearised limits as they are. Also
    returned: the solution in these coordinates, and [K] the most that a step changes each cost by.
    """
    with jax.default_matmul_precision("highest"):
        curvature = directions @ products.T  # [1 + K, 1 + K]
        lengths = jnp.sqrt(jnp.maximum(jnp.diag(curvature), 0.0))
        inverse = jnp.where(lengths > 0, 1 / jnp.where(lengths > 0, lengths, 1.0), 0.0)
        angles = (curvature + curvature.T) / 2 * inverse[:, None] * inverse
        root = jnp.linalg.cholesky(angles + 2 * RIDGE * jnp.eye(len(lengths)))
        # x = directions' (inverse * w) with w = root'^-1 y has x'Hx = |y|^2.
        slopes = jax.scipy.linalg.solve_triangular(
            root, inverse[:, None] * (directions @ gradients.T), lower=True
        )  # [1 + K, 1 + K]: a column for each gradient, in coordinates y
        radius = jnp.sqrt(2 * kl_limit)
        solution = ball_step(slopes[:, 0], slopes[:, 1:].T, excess / radius)
        weights = jax.scipy.linalg.solve_triangular(root.T, solution.step, lower=False)
        reach = radius * jnp.linalg.norm(slopes[:, 1:], axis=0)
        return radius * (inverse * weights) @ directions, solution, reach


def _is_good(
    change: jax.Array, excess: jax.Array, reach: jax.Array, recovering: jax.Array
) -> jax.Array:
    """Whether a change [1 + K] of the surrogates is an improvement.

    A cost must be within its limit afterwards or not rise (beyond rounding); while recovering, the
    squared excess of all costs, in units of what a step can do, must fall. The reward must rise if
    all limits were kept before. Comparisons with NaN are false.
    """
    reward, costs = change[0], change[1:]
    are_kept = (costs <= jnp.maximum(-excess, 0.0) + ROUNDING * reach).all()
    before, after = (
        (jnp.maximum(x / jnp.maximum(reach, 1e-30), 0.0) ** 2).sum()
        for x in (excess, excess + costs)
    )
    rises = (reward > 0) | (excess > 0).any()
    return jnp.where(recovering, after < before, are_kept & rises)
