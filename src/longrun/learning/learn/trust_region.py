"""The natural-gradient step of TRPO: conjugate gradient, Fisher products, backtracking."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

Params = TypeVar("Params")
DAMPING = 0.1
"""Multiple of the identity that is added to the Fisher matrix."""
CG_ITERATIONS = 10
LINE_SEARCH_STEPS = 10
"""Halvings of a step before the line search gives up."""
RESIDUAL = 1e-5
"""Relative residual at which conjugate gradient stops before its last iteration."""


class NaturalStep(NamedTuple):
    """What the line search returns; `fraction` is 0 when no step was accepted."""

    surrogate: jax.Array
    kl: jax.Array
    fraction: jax.Array


class Problem(NamedTuple):
    """Functions of flat parameters [P]."""

    objective: Callable[[jax.Array], jax.Array]
    """[] the surrogate, or [1 + K] surrogates"""
    divergence: Callable[[jax.Array], jax.Array]
    """[] the mean KL divergence"""


def fisher_product(
    mean_kl: Callable[[Any], jax.Array], params: Any, vector: Any, damping: jax.Array | float
) -> Any:
    """(F + damping I) vector, F the Hessian of the KL divergence at `params`, without forming F.

    It is called repeatedly: callers compile it, so that it is traced once.
    """
    _, product = jax.jvp(jax.grad(mean_kl), (params,), (vector,))
    return jax.tree.map(lambda p, v: p + damping * v, product, vector)


class _Iterate(NamedTuple):
    """State of conjugate gradient between iterations."""

    x: jax.Array
    residual: jax.Array
    direction: jax.Array
    squares: jax.Array
    """sum of the residual's squares"""
    done: jax.Array
    """iterations"""


def conjugate_gradient(
    product: Callable[[jax.Array], jax.Array], right: jax.Array, iterations: int
) -> jax.Array:
    """[P] x with product(x) = right, approximately: the conjugate gradient method started at 0.

    `jax.scipy.sparse.linalg.cg` starts with product(0). On CPUs (JAX 0.10.2) the Fisher product of
    these constant zeros was uninitialised memory in some compilations of a device program, and with
    it the whole direction; https://github.com/jax-ml/jax/issues/39120 is of that kind.
    """
    squares = right @ right

    def is_unfinished(state: _Iterate) -> jax.Array:
        return (state.squares > RESIDUAL**2 * squares) & (state.done < iterations)

    def improve(state: _Iterate) -> _Iterate:
        x, residual, direction, before, done = state
        image = product(direction)
        length = before / (direction @ image)
        residual = residual - length * image
        after = residual @ residual
        following = residual + after / before * direction
        return _Iterate(x + length * direction, residual, following, after, done + 1)

    start = _Iterate(jnp.zeros_like(right), right, right, squares, jnp.zeros((), jnp.int32))
    return jax.lax.while_loop(is_unfinished, improve, start).x


def natural_step(
    surrogate: Callable[[Params], jax.Array],
    mean_kl: Callable[[Params], jax.Array],
    params: Params,
    *,
    kl_limit: jax.Array | float,
    damping: jax.Array | float = DAMPING,
    cg_iterations: int = CG_ITERATIONS,
    line_search_steps: int = LINE_SEARCH_STEPS,
) -> tuple[Params, NaturalStep]:
    """Maximise `surrogate` subject to `mean_kl <= kl_limit`, both functions of the parameters.

    The step solves the problem linearised (surrogate) and to second order (KL), then is halved
    until the surrogate actually improves and the actual KL is within the limit. If that never
    happens, the parameters are returned unchanged, to the bit.
    """
    flat, unravel = ravel_pytree(params)
    problem = Problem(lambda x: surrogate(unravel(x)), lambda x: mean_kl(unravel(x)))
    product = jax.jit(partial(fisher_product, problem.divergence, flat, damping=damping))
    start, gradient = jax.value_and_grad(problem.objective)(flat)
    direction = conjugate_gradient(product, gradient, cg_iterations)
    curvature = direction @ product(direction)
    full_step = jnp.sqrt(2 * kl_limit / jnp.maximum(curvature, 1e-20)) * direction

    def is_good(step: NaturalStep) -> jax.Array:
        # Comparisons with NaN are false, so a step to non-finite values is never accepted.
        improved: jax.Array = step.surrogate > start
        return improved & (step.kl <= kl_limit)

    return backtrack(problem, params, full_step, start, is_good, line_search_steps)


def backtrack(
    problem: Problem,
    params: Params,
    full_step: jax.Array,
    start: jax.Array,
    is_good: Callable[[NaturalStep], jax.Array],
    line_search_steps: int,
) -> tuple[Params, NaturalStep]:
    """The first good step among the fractions 1, 1/2, 1/4, ... of a full step [P].

    After `line_search_steps` halvings the search gives up: no step, fraction 0, and the parameters
    unchanged to the bit. start: the surrogate's value, or the surrogates' values, without a step.
    """
    flat, unravel = ravel_pytree(params)

    def at(fraction: jax.Array) -> NaturalStep:
        candidate = flat + fraction * full_step
        return NaturalStep(problem.objective(candidate), problem.divergence(candidate), fraction)

    def search_on(state: tuple[jax.Array, NaturalStep]) -> jax.Array:
        halvings, step = state
        return ~is_good(step) & (halvings < line_search_steps)

    def halve(state: tuple[jax.Array, NaturalStep]) -> tuple[jax.Array, NaturalStep]:
        halvings, step = state
        return halvings + 1, at(step.fraction / 2)

    first = (jnp.zeros((), jnp.int32), at(jnp.ones((), start.dtype)))
    _, last = jax.lax.while_loop(search_on, halve, first)
    zero = jnp.zeros((), start.dtype)
    found = is_good(last)

    none = NaturalStep(start, zero, zero)
    taken = NaturalStep(*(jnp.where(found, x, y) for x, y in zip(last, none, strict=True)))
    moved = unravel(flat + taken.fraction * full_step)
    kept: Params = jax.tree.map(lambda x, y: jnp.where(taken.fraction > 0, x, y), moved, params)
    return kept, taken
