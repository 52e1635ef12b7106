"""Environments with an exact model: one interface for comparisons with the optimum."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from numpy.typing import NDArray

from longrun.base.errors import InputError
from longrun.learning.envs.native.protocol import Environment

if TYPE_CHECKING:
    from longrun.exact.tabular.mdp import MDP

BLOCK = 2**15
"""States in which a policy acts at a time: not all networks' layers at once."""


class ExactEnvironment(Environment):
    """A JAX-native environment whose states and action rows are those of an exact model."""

    num_queues: int = 0
    """queues of a network, each of which holds up to `size` customers in `exact(size)`"""
    buffer: int = 0
    """the only `size` of a network whose queues are limited"""

    def box(self, size: int = 0) -> int:
        """The largest queue length of `exact(size)`; 0 if there are no queues."""
        if size:
            raise InputError(
                f"size={size} is for queueing networks; '{self.name}' is finite without it"
            )
        return 0

    @abstractmethod
    def exact(self, size: int = 0) -> MDP:
        """The exact model; `size` is for unlimited queues alone."""

    @abstractmethod
    def states(self, size: int = 0) -> NDArray[np.int32]:
        """[S, ...] the states, in the order of `exact(size)`."""

    @abstractmethod
    def observation(self, state: Any) -> jax.Array:
        """[D] float32"""

    def choices(self, policy: Callable[[Any], jax.Array], size: int = 0) -> NDArray[Any]:
        """[S, columns] the action rows of a policy, a function of a state."""
        each = partial(jax.lax.map, policy, batch_size=BLOCK)
        return np.asarray(jax.jit(each)(self.states(size)))

    def exact_policy(self, policy: Callable[[Any], jax.Array], size: int = 0) -> NDArray[np.intp]:
        """[S] the actions in `exact(size)` of a policy of states."""
        rows = self.choices(policy, size)
        return np.asarray(np.ravel_multi_index(tuple(rows.T), self.spaces.categories))
