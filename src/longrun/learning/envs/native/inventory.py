"""Inventory: a simulation of the model in `longrun.exact.tabular`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from longrun.base.checks import require_at_least, require_non_negative, require_positive
from longrun.learning.envs.env_strings import arguments_of, env_string
from longrun.learning.envs.native.exact import ExactEnvironment
from longrun.learning.envs.native.protocol import Step
from longrun.learning.envs.spaces import Spaces

if TYPE_CHECKING:
    from longrun.exact.tabular.mdp import MDP


@dataclass(frozen=True)
class Inventory(ExactEnvironment):
    """Inventory: how much to order each period, when unmet demand is lost.

    State: int32 [], the stock. Action: the order, which may not take the stock above capacity; it
    is reduced if it would. Then Poisson demand is met as far as the stock allows. Reward: minus the
    cost, fixed_cost for any order, unit_cost per unit ordered, holding_cost per unit left and
    lost_sale_cost per unit of demand not met; its mean is the exact model's reward.
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
        return env_string("inventory", Inventory, **arguments_of(self))

    @property
    def spaces(self) -> Spaces:
        return Spaces(self.capacity + 2, 1, (self.capacity + 1,), masked=True)

    def exact(self, size: int = 0) -> MDP:
        from longrun.exact.tabular.models.classic import inventory  # needs SciPy

        return inventory(**arguments_of(self))

    def states(self, size: int = 0) -> NDArray[np.int32]:
        return np.arange(self.capacity + 1, dtype=np.int32)

    @cached_property
    def demand_below(self) -> NDArray[np.float64]:
        """[d]: the probability of a demand of d or less, without entries that are 1 in float32."""
        from scipy import special

        most = math.ceil(self.mean_demand + 7 * math.sqrt(self.mean_demand) + 20)
        below = special.pdtr(np.arange(most), self.mean_demand)
        return np.asarray(below[below < 1 - 2**-25])

    def reset(self, key: jax.Array) -> tuple[Any, jax.Array]:
        stock = jnp.int32(0)
        return stock, self.observation(stock)

    def step(self, key: jax.Array, state: Any, action: jax.Array) -> Step:
        demand = self.demand(jax.random.uniform(key))
        after, reward = self.after(state, action, demand)
        return Step(
            after, self.observation(after), reward, False, self.costs(state, action, demand)
        )

    def mask(self, stock: jax.Array) -> jax.Array:
        """[capacity + 1] bool: the orders for which there is room."""
        return jnp.arange(self.capacity + 1) <= self.capacity - stock

    def demand(self, uniform: jax.Array) -> jax.Array:
        """[] int32: the demand that a uniform number in [0, 1) selects."""
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

    def costs(self, stock: jax.Array, action: jax.Array, demand: jax.Array) -> dict[str, jax.Array]:
        """[] each: orders, and the units that are ordered, left and lost."""
        order = jnp.minimum(action[0], self.capacity - stock)
        left = stock + order - demand
        kept, lost = jnp.maximum(left, 0), jnp.maximum(-left, 0)
        return {"orders": order > 0, "ordered": order, "left": kept, "lost": lost}

    def observation(self, stock: jax.Array) -> jax.Array:
        """[D] the mask, and the stock from -1 to 1."""
        level = 2 * stock / self.capacity - 1
        return jnp.append(self.mask(stock).astype(jnp.float32), level)
