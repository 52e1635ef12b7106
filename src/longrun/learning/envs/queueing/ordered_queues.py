"""Queueing networks that keep the order of arrivals, for first come, first served."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from longrun.exact.tabular.validation import require_at_least
from longrun.learning.envs.native.protocol import Step
from longrun.learning.envs.queueing.environment import QueueingEnv


class Line(NamedTuple):
    """The customers of each class in the order in which they arrived."""

    queues: jax.Array
    """int32 [classes]"""
    stamps: jax.Array
    """int32 [classes, capacity] when each customer entered the class, in a ring"""
    first: jax.Array
    """int32 [classes] position in the ring of the customer who arrived first"""
    clock: jax.Array
    """int32 [] steps so far"""
    overflowed: jax.Array
    """bool [] a queue has been longer than the ring, so that the order is lost"""


@dataclass(frozen=True)
class OrderedQueueingEnv(QueueingEnv):
    """A `QueueingEnv` with the same law, observations and rewards, whose state is a `Line`.

    Once a queue is longer than `capacity`, rewards are NaN, so that no average over them
    can be mistaken for a result.
    """

    capacity: int = 1024

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least(1, capacity=self.capacity)

    @staticmethod
    def of(env: QueueingEnv, capacity: int = 1024) -> OrderedQueueingEnv:
        """The environment `env` with the order of arrivals."""
        return OrderedQueueingEnv(env.network, env.idling, env.name, env.buffer, capacity=capacity)

    def reset(self, key: jax.Array) -> tuple[Any, jax.Array]:
        queues, obs = super().reset(key)
        stamps = jnp.zeros((len(queues), self.capacity), jnp.int32)
        return Line(queues, stamps, queues, jnp.int32(0), jnp.bool(False)), obs

    def step(self, key: jax.Array, state: Any, action: jax.Array) -> Step:
        line = self.after_line(state, action, jax.random.uniform(key))
        reward = jnp.where(state.overflowed, jnp.nan, self.reward(state.queues))
        costs = self.costs(state.queues)
        return Step(line, self.observation(line.queues), reward, False, costs)

    def queues(self, state: Any) -> jax.Array:
        return jnp.asarray(state.queues)

    def after_line(self, line: Line, action: jax.Array, uniform: jax.Array) -> Line:
        """The line after the event that a uniform number in [0, 1) selects."""
        happens = self.happening(line.queues, action, uniform)[:, None]
        left = jnp.sum(happens * self.events.queue, axis=0)
        entered = jnp.sum(happens * self.events.enters, axis=0)
        queues = line.queues + entered - left
        classes, last = np.arange(len(self.network.arrivals)), line.first + line.queues
        place = (classes, last % self.capacity)
        stamps = line.stamps.at[place].set(
            jnp.where(entered > 0, line.clock, line.stamps[place]), unique_indices=True
        )
        return Line(
            queues,
            stamps,
            (line.first + left) % self.capacity,
            line.clock + 1,
            line.overflowed | jnp.any(queues > self.capacity),
        )

    def waiting(self, line: Line) -> jax.Array:
        """[classes] steps since the first customer of each class arrived."""
        return line.clock - line.stamps[np.arange(len(self.network.arrivals)), line.first]
