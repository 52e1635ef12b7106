"""Check an environment against the protocol by tracing it: nothing is run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from longrun.base.errors import EnvironmentFailure, InputError
from longrun.learning.envs.native.protocol import Environment, Step

STORABLE = {np.dtype(t) for t in (bool, np.float16, np.float32, np.float64)} | {
    np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)
}
"""What checkpoints can store."""


def require_sound(env: Environment) -> tuple[str, ...]:
    """Names of the costs that a step gives.

    Raises InputError if the protocol is broken, EnvironmentFailure if a method raises.
    """
    try:
        hash(env)
    except TypeError:
        raise InputError(
            f"environment '{env.name}' is not hashable; make it @dataclass(frozen=True)"
        ) from None
    spaces = env.spaces
    kind = jnp.int32 if spaces.categories else jnp.float32
    action = jax.ShapeDtypeStruct((spaces.action_size,), kind)
    key = jax.eval_shape(lambda: jax.random.key(0))
    state, obs = _traced(env, "reset", env.reset, key)
    after = _traced(env, "step", env.step, key, state, action)
    if not isinstance(after, Step):
        raise InputError(f"step of '{env.name}' returns {type(after).__name__}; return a Step")
    row = (spaces.observation_size,)
    for what, found, shape in (
        ("reset's observation", obs, row),
        ("step's obs", after.obs, row),
        ("step's reward", after.reward, ()),
        ("step's terminated", after.terminated, ()),
        *((f"step's cost '{name}'", cost, ()) for name, cost in dict(after.costs).items()),
    ):
        if np.shape(found) != shape:
            raise InputError(
                f"{what} of '{env.name}' has shape {np.shape(found)}; it must have {shape}"
            )
    _require_same_state(env, state, after.state)
    return tuple(dict(after.costs))


def _traced(env: Environment, what: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Shapes of what the method returns. Its own errors become EnvironmentFailure."""
    try:
        return jax.eval_shape(function, *arguments)
    except Exception as error:
        reason = str(error).strip().partition("\n")[0]
        raise EnvironmentFailure(
            f"{what} of '{env.name}' fails: {type(error).__name__}: {reason}"
        ) from error


def _require_same_state(env: Environment, before: Any, after: Any) -> None:
    """Steps follow each other, so a step's state must be of the kind that a reset's is."""
    kept, structure = jax.tree.flatten(before)
    found, after_structure = jax.tree.flatten(after)
    if str(structure) != str(after_structure):
        raise InputError(
            f"a step of '{env.name}' changes its state's structure from {structure} to"
            f" {after_structure}; return the same"
        )
    for leaf, later in zip(kept, found, strict=True):
        if (leaf.shape, leaf.dtype) != (later.shape, later.dtype):
            raise InputError(
                f"a step of '{env.name}' changes a part of its state from {leaf.dtype}{leaf.shape}"
                f" to {later.dtype}{later.shape}; return the same"
            )
        if leaf.dtype not in STORABLE:
            raise InputError(
                f"the state of '{env.name}' holds {leaf.dtype}, which checkpoints cannot; keep"
                " numbers of ordinary types (each step is given a key of its own)"
            )
