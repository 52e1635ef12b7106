"""Access control, inventory and maintenance: simulations of the exact models of these names."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from longrun.base.checks import (
    require_at_least,
    require_finite,
    require_non_negative,
    require_positive,
    require_probability,
)
from longrun.base.errors import InputError
from longrun.exact.tabular.laws import binomial_laws
from longrun.learning.envs.env_strings import arguments_of, env_string
from longrun.learning.envs.native.protocol import ExactEnvironment, Step
from longrun.learning.envs.spaces import Spaces

if TYPE_CHECKING:
    from longrun.exact.tabular.mdp import MDP


class ControlProblem(ExactEnvironment):
    """A dataclass with the parameters, and by them the name, of its exact model."""

    title: ClassVar[str]
    terminates = False

    @property
    def name(self) -> str:
        return env_string(self.title, type(self), **arguments_of(self))

    def exact(self, size: int = 0) -> MDP:
        from longrun.exact.tabular.models import MODELS  # needs SciPy

        return MODELS[self.title](**arguments_of(self))


@dataclass(frozen=True)
class AccessControl(ControlProblem):
    """Access control: who may have a server, when some customers pay more.

    State: int32 [2], the free servers and the kind of the customer at the head of the queue. Action
    0 rejects; 1, allowed with a free server, accepts and earns the customer's priority. Then every
    busy server, one just taken included, becomes free with free_probability, and the next customer
    is of each kind with the same probability. Sutton and Barto (2018), example 10.2.
    """

    title = "access-control"
    servers: int = 10
    free_probability: float = 0.06
    priorities: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0)

    def __post_init__(self) -> None:
        require_at_least(1, servers=self.servers)
        require_probability(free_probability=self.free_probability)
        require_finite(**{f"priorities[{i}]": each for i, each in enumerate(self.priorities)})
        if not self.priorities:
            raise InputError("priorities=() is empty; give at least one reward")

    @property
    def spaces(self) -> Spaces:
        return Spaces(2 + 1 + len(self.priorities), 1, (2,), masked=True)

    def exact(self, size: int = 0) -> MDP:
        mdp = super().exact()
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


@dataclass(frozen=True)
class Inventory(ControlProblem):
    """Inventory: how much to order each period, when unmet demand is lost.

    State: int32 [], the stock. Action: the order, which may not take the stock above capacity; it
    is reduced if it would. Then Poisson demand is met as far as the stock allows. Reward: minus the
    cost, fixed_cost for any order, unit_cost per unit ordered, holding_cost per unit left and
    lost_sale_cost per unit of demand not met; its mean is the exact model's reward.
    """

    title = "inventory"
    capacity: int = 20
    mean_demand: float = 5.0
    fixed_cost: float = 10.0
    unit_cost: float = 2.0
    holding_cost: float = 1.0
    lost_sale_cost: float = 10.0

    def __post_init__(self) -> None:
        require_at_least(1, capacity=self.capacity)
        require_positive(mean_demand=self.mean_demand)
        require_non_negative(fixed_cost=self.fixed_cost, unit_cost=self.unit_cost)
        require_non_negative(holding_cost=self.holding_cost, lost_sale_cost=self.lost_sale_cost)

    @property
    def spaces(self) -> Spaces:
        return Spaces(self.capacity + 2, 1, (self.capacity + 1,), masked=True)

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
        costs = self.costs(stock, action, demand)
        paid = self.fixed_cost * costs["orders"] + self.unit_cost * costs["ordered"]
        missed = self.lost_sale_cost * costs["lost"]
        return costs["left"], -jnp.float32(paid + missed + self.holding_cost * costs["left"])

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


@dataclass(frozen=True)
class Maintenance(ControlProblem):
    """Maintenance: when to service a machine whose breakdowns take long to repair.

    State: int32 [], wear 0 to `levels` (worn out), then levels + 1 in service and levels + 2
    broken; it starts as new. Action 0 runs the machine for a step and earns 1; 1, allowed while it
    works, services it. A step of running wears the machine by one level with wear_probability; once
    worn out it breaks with failure_probability instead. A service ends in each step with
    probability 1 / service_time and a repair with 1 / repair_time, and the machine is as new.

    With a discount of 0.99 it is optimal never to service it; in the long run that earns 15 % of
    what a machine earns that is serviced when it is worn out.
    """

    title = "maintenance"
    levels: int = 5
    wear_probability: float = 0.05
    failure_probability: float = 0.004
    service_time: float = 40.0
    repair_time: float = 3000.0

    def __post_init__(self) -> None:
        _ = self.model  # refuses bad arguments

    @cached_property
    def model(self) -> MDP:
        """The exact model, whose transition rows are simulated."""
        return self.exact()

    def states(self, size: int = 0) -> NDArray[np.int32]:
        return np.arange(self.model.num_states, dtype=np.int32)

    @property
    def spaces(self) -> Spaces:
        return Spaces(2 + self.model.num_states, 1, (2,), masked=True)

    @cached_property
    def below(self) -> NDArray[np.float32]:
        """[S, A, S - 1]: cumulative probabilities of the next state."""
        states = self.model.num_states
        rows = self.model.kernel.toarray().reshape(2, states, states).transpose(1, 0, 2)
        return np.asarray(np.cumsum(rows, axis=2)[:, :, :-1], np.float32)

    def reset(self, key: jax.Array) -> tuple[Any, jax.Array]:
        state = jnp.int32(0)
        return state, self.observation(state)

    def step(self, key: jax.Array, state: Any, action: jax.Array) -> Step:
        after, reward = self.after(state, action, jax.random.uniform(key))
        serviced = (action[0] == 1) & (state <= self.levels)
        costs = {"broken": state == self.levels + 2, "serviced": serviced}
        return Step(after, self.observation(after), reward, False, costs)

    def mask(self, state: jax.Array) -> jax.Array:
        """[2] bool: running (or waiting) always, service while the machine works."""
        return jnp.stack([True, state <= self.levels])

    def after(
        self, state: jax.Array, action: jax.Array, uniform: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """[] the next state, selected by a number in [0, 1), and [] the reward."""
        works = state <= self.levels
        choice = jnp.where(works, action[0], 0)
        after = (uniform >= jnp.asarray(self.below)[state, choice]).sum()
        return after, (works & (choice == 0)).astype(jnp.float32)

    def observation(self, state: jax.Array) -> jax.Array:
        """[D] the mask, and the state as one-hot."""
        place = jnp.arange(self.model.num_states) == state
        return jnp.concatenate([self.mask(state), place]).astype(jnp.float32)
