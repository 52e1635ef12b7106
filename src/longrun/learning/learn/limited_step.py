"""The natural-gradient step under limits on costs (Achiam et al. 2017, Agnihotri et al. 2024)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from longrun.learning.learn.trust_region import (
    CG_ITERATIONS,
    DAMPING,
    LINE_SEARCH_STEPS,
    NaturalStep,
    Problem,
    backtrack,
    conjugate_gradient,
    fisher_product,
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
    product = jax.jit(partial(fisher_product, problem.divergence, flat, damping=damping))
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


RIDGE = 1e-5
"""added to matrices of scalar products of unit vectors, so that parallel ones can be solved"""
LEAST_PULL = 1e-4
"""smallest part of the gradient along the limits that is followed; less is rounding"""


class BallStep(NamedTuple):
    """The solution of `ball_step`."""

    step: jax.Array
    """[n], of length 1 at most"""
    price: jax.Array
    """[K] Lagrange multipliers: what a unit of each limit is worth; 0 while recovering"""
    recovering: jax.Array
    """[] bool: no step reaches all limits, and this one ignores the gradient"""


def ball_step(gradient: jax.Array, normals: jax.Array, excess: jax.Array) -> BallStep:
    """Maximise gradient'y subject to |y| <= 1 and excess + normals y <= 0.

    gradient: [n]; normals: [K, n]; excess: [K]. Where that is impossible, the step recovers: it is
    of length 1 towards the nearest point that keeps the limits (for contradictory limits, the point
    of least squared violations).
    """
    size = jnp.linalg.norm(gradient)
    sizes = jnp.linalg.norm(normals, axis=1)
    unit, units = _divided(gradient, size), _divided(normals, sizes[:, None])
    # Beyond -1 a limit cannot bind within the ball.
    distances = jnp.clip(excess / jnp.maximum(sizes, 1e-30), -2.0, 1e6)
    with jax.default_matmul_precision("highest"):  # some devices round products to fewer digits
        with_ridge, inverses = _inverses(units @ units.T)
        back, is_far = _way_back(units, distances, with_ridge)
        best, prices = _best_step(unit, units, distances, inverses)
    step = jnp.where(is_far, _divided(back, jnp.linalg.norm(back)), best)
    prices = jnp.where(is_far, 0.0, _divided(prices * size, sizes))
    return BallStep(step, prices, is_far)


def _divided(x: jax.Array, size: jax.Array) -> jax.Array:
    """x / size, and 0 where the size is 0."""
    return jnp.where(size > 0, x / jnp.where(size > 0, size, 1.0), 0.0)


def _inverses(products: jax.Array) -> tuple[jax.Array, jax.Array]:
    """[2^K, K, K]: of the products' rows and columns in each subset of the limits; 0 elsewhere.

    First those with a ridge, then without it where that is possible, by a step of Newton's method.
    """
    count = products.shape[0]
    chosen = np.array(list(product((0.0, 1.0), repeat=count)), np.float32)  # [2^K, K]
    both = chosen[:, :, None] * chosen[:, None, :]
    eye = np.eye(count, dtype=np.float32)
    systems = both * products + (1 - both) * eye
    inverses = jnp.linalg.inv(systems + RIDGE * eye)
    return both * inverses, both * (inverses @ (2 * eye - systems @ inverses))


def _way_back(
    units: jax.Array, distances: jax.Array, inverses: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """[n] the shortest step that keeps all limits, and whether it is longer than 1.

    It is -units'm, where m >= 0 maximises the dual distances'm - |units'm|^2 / 2, which is half of
    its squared length. Every subset gives an m, and the best of them is the solution. The ridge
    allows limits that contradict each other to be violated, at a price.
    """
    weights = jnp.maximum(inverses @ distances, 0.0)  # [2^K, K]
    steps = -weights @ units
    dual = weights @ distances - (steps**2).sum(1) / 2 - RIDGE * (weights**2).sum(1) / 2
    best = jnp.argmax(dual)
    return steps[best], 2 * dual[best] > 1


def _best_step(
    unit: jax.Array, units: jax.Array, distances: jax.Array, inverses: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """[n] the solution for unit vectors, if it exists, and its multipliers [K].

    If the limits of a subset A bind, the step is the nearest point at which they do, and from there
    the projected gradient to the surface of the ball: y = (g - B_A'm) / s with
    m = (B_A B_A')^-1 (B_A g + s d_A). Each m >= 0 bounds the optimum from above by
    |g - B'm| - d'm (the dual; equation 11 of Achiam et al. for K = 1). The solution has the least
    bound and violates no limit, so it has the least sum of both.
    """
    along, across = inverses @ (units @ unit), inverses @ distances  # [2^K, K] each
    nearest, projected = -across @ units, unit - along @ units  # [2^K, n] each
    room = 1 - (across * distances).sum(1)  # squared, from the nearest point to the surface
    scale = jnp.linalg.norm(projected, axis=1) / jnp.sqrt(jnp.maximum(room, 1e-12))
    scale = jnp.maximum(scale, LEAST_PULL)[:, None]
    prices = jnp.maximum(along + scale * across, 0.0)
    dual = jnp.linalg.norm(unit - prices @ units, axis=1) - prices @ distances
    steps = nearest + projected / scale
    violation = jnp.maximum(steps @ units.T + distances, 0.0).max(1)
    best = jnp.argmin(jnp.where(room > 0, dual + violation, jnp.inf))
    return steps[best], prices[best]
