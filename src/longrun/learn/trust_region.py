"""The natural-gradient step of TRPO: conjugate gradient, Fisher products, backtracking."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jax.scipy.sparse.linalg import cg

Params = TypeVar("Params")


class Step(NamedTuple):
    """What the line search settled on; `fraction` is 0 when no step was good enough."""

    surrogate: jax.Array
    kl: jax.Array
    fraction: jax.Array


def fisher_product(
    mean_kl: Callable[[Any], jax.Array], params: Any, vector: Any, damping: jax.Array | float
) -> Any:
    """(F + damping I) vector, F the Hessian of the KL divergence at `params`; no matrix formed."""
    _, product = jax.jvp(jax.grad(mean_kl), (params,), (vector,))
    return jax.tree.map(lambda p, v: p + damping * v, product, vector)


def natural_step(
    surrogate: Callable[[Params], jax.Array],
    mean_kl: Callable[[Params], jax.Array],
    params: Params,
    *,
    kl_limit: jax.Array | float,
    damping: jax.Array | float,
    cg_iterations: int,
    line_search_steps: int,
) -> tuple[Params, Step]:
    """Maximise `surrogate` subject to `mean_kl <= kl_limit`, both functions of the parameters.

    The step solves the problem linearised (surrogate) and to second order (KL), then is halved
    until the surrogate really improves and the real KL keeps the limit. Where that never happens
    the very same parameters come back, to the bit.
    """
    flat, unravel = ravel_pytree(params)

    def objective(x: jax.Array) -> jax.Array:
        return surrogate(unravel(x))

    def divergence(x: jax.Array) -> jax.Array:
        return mean_kl(unravel(x))

    def product(v: jax.Array) -> jax.Array:
        result: jax.Array = fisher_product(divergence, flat, v, damping)
        return result

    start, gradient = jax.value_and_grad(objective)(flat)
    direction, _ = cg(product, gradient, maxiter=cg_iterations)
    curvature = direction @ product(direction)
    full_step = jnp.sqrt(2 * kl_limit / jnp.maximum(curvature, 1e-20)) * direction
    return _backtrack(
        objective, divergence, params, flat, full_step, start, kl_limit, line_search_steps, unravel
    )


def _backtrack(
    objective: Callable[[jax.Array], jax.Array],
    divergence: Callable[[jax.Array], jax.Array],
    params: Params,
    flat: jax.Array,
    full_step: jax.Array,
    start: jax.Array,
    kl_limit: jax.Array | float,
    line_search_steps: int,
    unravel: Callable[[jax.Array], Params],
) -> tuple[Params, Step]:
    def at(fraction: jax.Array) -> Step:
        candidate = flat + fraction * full_step
        return Step(objective(candidate), divergence(candidate), fraction)

    def good(step: Step) -> jax.Array:
        # Comparisons with NaN are false, so a step into nowhere is never good.
        return (step.surrogate > start) & (step.kl <= kl_limit)

    def search_on(state: tuple[jax.Array, Step]) -> jax.Array:
        tried, step = state
        return ~good(step) & (tried < line_search_steps)

    def halve(state: tuple[jax.Array, Step]) -> tuple[jax.Array, Step]:
        tried, step = state
        return tried + 1, at(step.fraction / 2)

    one = jnp.ones((), flat.dtype)
    _, step = jax.lax.while_loop(search_on, halve, (jnp.zeros((), jnp.int32), at(one)))
    found = good(step)
    moved = unravel(flat + step.fraction * full_step)
    kept = jax.tree.map(lambda new, old: jnp.where(found, new, old), moved, params)
    zero = jnp.zeros_like(one)
    taken = Step(
        jnp.where(found, step.surrogate, start),
        jnp.where(found, step.kl, zero),
        jnp.where(found, step.fraction, zero),
    )
    return kept, taken
