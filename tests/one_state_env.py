"""An environment in JAX with one state and two choices, for tests of costs."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from longrun.learning.envs.native import Environment
from longrun.learning.envs.spaces import Spaces


class OneState(Environment):
    """It never ends; subclasses have the step."""

    terminates = False

    @property
    def name(self) -> str:
        return type(self).__name__.lower()

    @property
    def spaces(self) -> Spaces:
        return Spaces(1, 1, (2,))

    def reset(self, key: jax.Array) -> tuple[Any, jax.Array]:
        return jnp.zeros(()), jnp.ones(1)
