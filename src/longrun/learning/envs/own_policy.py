"""Acting with a policy network of the user, a function in JAX.

Worker processes import JAX for it, which they do not for longrun's own networks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from longrun.base.errors import NonFiniteError
from longrun.learning.envs.flat_spaces import Array, Spaces


def use_cpu() -> None:
    """Keep worker processes on the CPU: a GPU's memory belongs to the process that learns."""
    jax.config.update("jax_platforms", "cpu")


def _like(network: Any, spaces: Spaces) -> Any:
    """The parameters' structure, without their values."""
    return jax.eval_shape(
        lambda: network[0](jax.random.key(0), spaces.feature_size, spaces.policy_outputs)
    )


def own_shapes(network: Any, spaces: Spaces) -> list[tuple[int, ...]]:
    """Shapes of the parameters, in the order of the flat vector."""
    return [leaf.shape for leaf in jax.tree.leaves(_like(network, spaces))]


def own_network(network: Any, spaces: Spaces, params: list[Array]) -> Callable[[Array], Array]:
    """A function [n, F] -> [n, K] from a user's pair of functions (init, apply)."""
    tree = jax.tree.unflatten(jax.tree.structure(_like(network, spaces)), params)

    def outputs(x: Array) -> Array:
        found = np.array(_apply_rows(network[1], jax.tree.map(jnp.asarray, tree), x))
        odd = ~np.isfinite(found) & np.isfinite(x).all(1, keepdims=True)
        if odd.any():
            i, k = np.argwhere(odd)[0]
            raise NonFiniteError(
                f"your policy_network returned {found[i, k]} (output {k}) for an observation that"
                " is finite; its apply(params, x) must return finite numbers"
            )
        return found

    return outputs


@partial(jax.jit, static_argnums=0)
def _apply_rows(function: Any, params: Any, x: jax.Array) -> jax.Array:
    """[n, F] -> [n, K], row by row: an action does not depend on the rows computed with it."""
    rows: jax.Array = jax.lax.map(lambda row: function(params, row[None])[0], x)
    return rows
