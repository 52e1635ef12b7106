"""A machine to be serviced in time: a simulation of the exact model of the same name."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from longrun.learning.envs.env_strings import arguments_of, env_string
from longrun.learning.envs.native.exact import ExactEnvironment
from longrun.learning.envs.native.protocol import Step
from longrun.learning.envs.spaces import Spaces

if TYPE_CHECKING:
    from longrun.exact.tabular.mdp import MDP


@dataclass(frozen=True)
class Maintenance(ExactEnvironment):
    """Maintenance: when to service a machine whose breakdowns take long to repair.

    State: int32 [], wear 0 to `levels` (worn out), then levels + 1 in service and levels + 2
    broken; it starts as new. Action 0 runs the machine for a step and earns 1; 1, allowed while it
    works, services it. A step of running wears the machine by one level with wear_probability; once
    worn out it breaks with failure_probability instead. A service ends in each step with
    probability 1 / service_time and a repair with 1 / repair_time, and the machine is as new.

    With a discount of 0.99 it is optimal never to service it; in the long run that earns 15 % of
    what a machine earns that is serviced when it is worn out.
    """

    levels: int = 5
    wear_probability: float = 0.05
    failure_probability: float = 0.004
    service_time: float = 40.0
    repair_time: float = 3000.0
    terminates = False

    def __post_init__(self) -> None:
        _ = self.model  # refuses bad arguments

    @cached_property
    def model(self) -> MDP:
        """The exact model, whose transition rows are simulated."""
        from longrun.exact.tabular.models.maintenance import maintenance  # needs SciPy

        return maintenance(**arguments_of(self))

    def exact(self, size: int = 0) -> MDP:
        return self.model

    def states(self, size: int = 0) -> NDArray[np.int32]:
        return np.arange(self.model.num_states, dtype=np.int32)

    @property
    def name(self) -> str:
        return env_string("maintenance", Maintenance, **arguments_of(self))

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
