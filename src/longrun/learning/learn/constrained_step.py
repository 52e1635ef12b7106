"""The linearised policy step under limits on costs: a linear program within a ball.

Constrained policy optimisation (Achiam et al. 2017, equation 10; Agnihotri et al. 2024 under the
average criterion) replaces the problem of an iteration by

    maximise g'x  subject to  x'Hx / 2 <= kl_limit  and  c_k + b_k'x <= 0  for K costs,

with the gradients g and b_k of the surrogates and c_k, how far a cost is above its limit. In units
in which the trust region is the unit ball this is `ball_step`, whose solution is exact for any K:
the limits that bind are found by trying all subsets (2^K systems of K equations at once, with K at
most `config.MOST_LIMITS`). For K = 1 it is the closed form of the paper's theorem 2.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

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
    with jax.default_matmul_precision("highest"):  # some devices round products to fewer digits
        return _ball_step(gradient, normals, excess)


def _ball_step(gradient: jax.Array, normals: jax.Array, excess: jax.Array) -> BallStep:
    size = jnp.linalg.norm(gradient)
    sizes = jnp.linalg.norm(normals, axis=1)
    unit, units = _divided(gradient, size), _divided(normals, sizes[:, None])
    # Beyond -1 a limit cannot bind within the ball.
    distances = jnp.clip(excess / jnp.maximum(sizes, 1e-30), -2.0, 1e6)
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
