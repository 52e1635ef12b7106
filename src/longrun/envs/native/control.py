"""Access control and inventory: the laws of `longrun.tabular`'s models, simulated."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy import special

from longrun.envs.native.naming import env_string
from longrun.envs.native.protocol import Environment, Step
from longrun.envs.spaces import Spaces
from longrun.errors import InputError
from longrun.tabular.models.laws import binomial_laws
from longrun.tabular.validation import (
    require_at_least,
    require_finite,
    require_non_negative,
    require_positive,
    require_probability,
)


@dataclass(frozen=True)
class AccessControl(Environment):
    """Access control: who may have a server, when some customers pay more.

    State: int32 [2], the free servers and the kind of the customer at the head of the queue. Action
    0 rejects him; 1, allowed with a free server, accepts him and earns his priority. Then every
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
        return env_string("access-control", AccessControl, **vars_of(self))

    @property
    def spaces(self) -> Spaces:
        return Spaces(2 + 1 + len(self.priorities), 1, (2,), masked=True)

    @cached_property
    def freed_below(self) -> NDArray[np.float64]:
        """[busy, k]: the probability that k or fewer of so many busy servers become free."""
        return np.cumsum(binomial_laws(self.servers, self.free_probability), axis=1)

    def reset(self, key: jax.Array) -> tuple[Any, jax.Array]:
        kind = jax.random.randint(key, (), 0, len(self.priorities))
        state = jnp.stack([jnp.int32(self.servers), kind])
        return state, self.observation(state)

    def step(self, key: jax.Array, state: Any, action: jax.Array) -> Step:
        after = self.after(state, action, jax.random.uniform(key, (2,)))
        return Step(after, self.observation(after), self.reward(state, action), False)

    def mask(self, state: jax.Array) -> jax.Array:
        """[2] bool: rejecting always, accepting with a free server."""
        return jnp.stack([True, state[0] > 0])

    def accepts(self, state: jax.Array, action: jax.Array) -> jax.Array:
        return (action[0] == 1) & (state[0] > 0)

    def reward(self, state: jax.Array, action: jax.Array) -> jax.Array:
        kinds = np.arange(len(self.priorities))
        earned = jnp.sum(jnp.where(kinds == state[1], np.array(self.priorities), 0.0))
        return jnp.where(self.accepts(state, action), earned, 0.0)

    def after(self, state: jax.Array, action: jax.Array, uniforms: jax.Array) -> jax.Array:
        """[2] the next state; uniforms [2] decide who becomes free and who comes next."""
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


@dataclass(frozen=True)
class Inventory(Environment):
    """Inventory: how much to order each period, when unmet demand is lost.

    State: int32 [], the stock. Action: the order, which may not take the stock above capacity; one
    that would is cut. Then Poisson demand is met as far as the stock goes. Reward: minus what was
    paid, fixed_cost for any order, unit_cost a unit ordered, holding_cost a unit left and
    lost_sale_cost a unit of demand not met; on average the exact model's reward.
    """

    capacity: int = 20
    mean_demand: float = 5.0
    fixed_cost: float = 10.0
    unit_cost: float = 2.0
    holding_cost: float = 1.0
    lost_sale_cost: float = 10.0
    terminates = False

    def __post_init__(self) -> None:
        require_at_least(1, capacity=self.capacity)
        require_positive(mean_demand=self.mean_demand)
        require_non_negative(fixed_cost=self.fixed_cost, unit_cost=self.unit_cost)
        require_non_negative(holding_cost=self.holding_cost, lost_sale_cost=self.lost_sale_cost)

    @property
    def name(self) -> str:
        return env_string("inventory", Inventory, **vars_of(self))

    @property
    def spaces(self) -> Spaces:
        return Spaces(self.capacity + 2, 1, (self.capacity + 1,), masked=True)

    @cached_property
    def demand_below(self) -> NDArray[np.float64]:
        """[d]: the probability of a demand of d or less, up to where float32 has no more of it."""
        most = math.ceil(self.mean_demand + 7 * math.sqrt(self.mean_demand) + 20)
        below = special.pdtr(np.arange(most), self.mean_demand)
        return np.asarray(below[below < 1 - 2**-25])

    def reset(self, key: jax.Array) -> tuple[Any, jax.Array]:
        stock = jnp.int32(0)
        return stock, self.observation(stock)

    def step(self, key: jax.Array, state: Any, action: jax.Array) -> Step:
        demand = self.demand(jax.random.uniform(key))
        after, reward = self.after(state, action, demand)
        return Step(after, self.observation(after), reward, False)

    def mask(self, stock: jax.Array) -> jax.Array:
        """[capacity + 1] bool: the orders for which there is room."""
        return jnp.arange(self.capacity + 1) <= self.capacity - stock

    def demand(self, uniform: jax.Array) -> jax.Array:
        """[] int32: how many demands have less probability below them than the number says."""
        return (uniform >= np.float32(self.demand_below)).sum()

    def after(
        self, stock: jax.Array, action: jax.Array, demand: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """[] the stock after a period, and [] its reward."""
        order = jnp.minimum(action[0], self.capacity - stock)
        left = stock + order - demand
        paid = self.fixed_cost * (order > 0) + self.unit_cost * order
        missed = self.lost_sale_cost * jnp.maximum(-left, 0)
        kept = jnp.maximum(left, 0)
        return kept, -jnp.float32(paid + missed + self.holding_cost * kept)

    def observation(self, stock: jax.Array) -> jax.Array:
        """[D] the mask, and the stock from -1 to 1."""
        level = 2 * stock / self.capacity - 1
        return jnp.append(self.mask(stock).astype(jnp.float32), level)


def vars_of(env: AccessControl | Inventory) -> dict[str, Any]:
    """The arguments that it was made with."""
    return {field: getattr(env, field) for field in env.__dataclass_fields__}
