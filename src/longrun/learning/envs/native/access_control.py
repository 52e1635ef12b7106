"""Access control: a simulation of the model in `longrun.exact.tabular`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from longrun.base.checks import require_at_least, require_finite, require_probability
from longrun.base.errors import InputError
from longrun.exact.tabular.laws import binomial_laws
from longrun.learning.envs.env_strings import arguments_of, env_string
from longrun.learning.envs.native.exact import ExactEnvironment
from longrun.learning.envs.native.protocol import Step
from longrun.learning.envs.spaces import Spaces

if TYPE_CHECKING:
    from longrun.exact.tabular.mdp import MDP


@dataclass(frozen=True)
class AccessControl(ExactEnvironment):
    """Access control: who may have a server, when some customers pay more.

    State: int32 [2], the free servers and the kind of the customer at the head of the queue. Action
    0 rejects; 1, allowed with a free server, accepts and earns the customer's priority. Then every
    busy server, one just taken included, becomes free with free_probability, and the next customer
    is of each kind with the same probability. Sutton and Barto (2018), example 10.2.
    """

    servers: int = 10
    free_probability: float = 0.06
    priorities: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0)
    terminates = False

    def __post_init__(self) -> None:
        require_at_least(1, servers=self.servers)
        require_probability(free_probability=self.free_probability)
        require_finite(**{f"priorities[{i}]": each for i, each in enumerate(self.priorities)})
        if not self.priorities:
            raise InputError("priorities=() is empty; give at least one reward")

    @property
    def name(self) -> str:
        return env_string("access-control", AccessControl, **arguments_of(self))

    @property
    def spaces(self) -> Spaces:
        return Spaces(2 + 1 + len(self.priorities), 1, (2,), masked=True)

    def exact(self, size: int = 0) -> MDP:
        from longrun.exact.tabular.models.classic import access_control  # needs SciPy

        mdp = access_control(**arguments_of(self))
        paid = ", ".join(f"{priority:g}" for priority in self.priorities)
        mdp.sides = ("free servers", f"kind of the customer (pays {paid})")
        return mdp

    def states(self, size: int = 0) -> NDArray[np.int32]:
        shape = (self.servers + 1, len(self.priorities))
        return np.indices(shape, np.int32).reshape(2, -1).T

    @cached_property
    def freed_below(self) -> NDArray[np.float64]:
        """[busy, k]: the probability that k or fewer of the busy servers become free."""
        return np.cumsum(binomial_laws(self.servers, self.free_probability), axis=1)

    def reset(self, key: jax.Array) -> tuple[Any, jax.Array]:
        kind = jax.random.randint(key, (), 0, len(self.priorities))
        state = jnp.stack([jnp.int32(self.servers), kind])
        return state, self.observation(state)

    def step(self, key: jax.Array, state: Any, action: jax.Array) -> Step:
        after = self.after(state, action, jax.random.uniform(key, (2,)))
        reward, costs = self.reward(state, action), self.costs(state, action)
        return Step(after, self.observation(after), reward, False, costs)

    def mask(self, state: jax.Array) -> jax.Array:
        """[2] bool: rejecting always, accepting with a free server."""
        return jnp.stack([True, state[0] > 0])

    def accepts(self, state: jax.Array, action: jax.Array) -> jax.Array:
        return (action[0] == 1) & (state[0] > 0)

    def reward(self, state: jax.Array, action: jax.Array) -> jax.Array:
        kinds = np.arange(len(self.priorities))
        earned = jnp.sum(jnp.where(kinds == state[1], np.array(self.priorities), 0.0))
        return jnp.where(self.accepts(state, action), earned, 0.0)

    def costs(self, state: jax.Array, action: jax.Array) -> dict[str, jax.Array]:
        """[] each: rejected customers, of all kinds and of each, and servers that are busy."""
        accepted = self.accepts(state, action)
        of_kind = {
            f"rejected_{k + 1}": (state[1] == k) & ~accepted for k in range(len(self.priorities))
        }
        busy = self.servers - state[0] + accepted
        return {"rejected": ~accepted, **of_kind, "busy": busy}

    def after(self, state: jax.Array, action: jax.Array, uniforms: jax.Array) -> jax.Array:
        """[2] the next state; uniforms [2] decide which servers become free and who is next."""
        idle = state[0] - self.accepts(state, action)
        busy = np.arange(self.servers + 1)[:, None] == self.servers - idle
        passed = uniforms[0] >= np.float32(self.freed_below[:, :-1])  # [busy, k]
        freed = (busy & passed).sum()
        kinds = len(self.priorities)
        head = jnp.minimum((uniforms[1] * kinds).astype(jnp.int32), kinds - 1)
        return jnp.stack([idle + jnp.minimum(freed, self.servers - idle), head])

    def observation(self, state: jax.Array) -> jax.Array:
        """[D] the mask, the share of free servers, and the kind of the customer as one-hot."""
        kind = np.arange(len(self.priorities)) == state[1]
        free = state[:1] / self.servers
        parts = [self.mask(state), free, kind]
        return jnp.concatenate([part.astype(jnp.float32) for part in parts])
