"""Queueing networks as environments: preemptive, and uniformised like their exact models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from longrun.base.checks import require_at_least
from longrun.base.errors import InputError
from longrun.exact.queueing.events import Events, Outputs, network_events, policy_outputs
from longrun.exact.queueing.known_networks import KNOWN_NETWORKS, derived_builder
from longrun.exact.queueing.network import Decision, Network, warn_of_overload
from longrun.learning.envs.env_strings import env_string
from longrun.learning.envs.native.protocol import ExactEnvironment, Step
from longrun.learning.envs.spaces import Spaces

if TYPE_CHECKING:
    from longrun.exact.tabular.mdp import MDP


@dataclass(frozen=True)
class QueueingEnv(ExactEnvironment):
    """A network where the action chooses, before each event, the class that each server serves.

    State: int32 [classes], the customers of each class; it starts empty. One step is one potential
    event. Reward: minus the holding costs of the customers before it, so that the average reward
    per step is minus the average cost per unit of time. Action: a choice for each server that has
    one. Without `idling` those are the servers of two classes or more, and the others always work.

    The mask forbids serving a class without customers, or whose customers are all served by earlier
    servers without a choice. Without `idling` servers therefore work whenever they can (except two
    that may choose the same last customer). Where no choice is possible all are allowed, and
    nothing happens.
    """

    network: Network
    idling: bool = False
    """whether a server may idle while one of its customers waits"""
    name: str = ""
    """the name in tables and run folders; the network's by default"""
    buffer: int = 0
    """most customers of each class; 0 for no limit. An arrival at a full queue is turned away, and
    a service whose customer would enter one does not happen"""
    terminates = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or self.network.name)
        require_at_least(0, buffer=self.buffer)
        if not self.decisions:
            raise InputError(
                f"network '{self.network.name}' leaves no server a choice; set idling=True"
            )
        if not self.buffer:
            warn_of_overload(self.network)

    @property
    def num_queues(self) -> int:  # type: ignore[override]
        return self.network.num_classes

    @cached_property
    def decisions(self) -> tuple[Decision, ...]:
        return self.network.decisions(self.idling)

    @cached_property
    def events(self) -> Events:
        return network_events(self.network, self.decisions)

    @cached_property
    def outputs(self) -> Outputs:
        return policy_outputs(self.network, self.decisions)

    @cached_property
    def spaces(self) -> Spaces:
        choices = tuple(len(decision.choices) for decision in self.decisions)
        size = sum(choices) + 2 * self.network.num_classes
        return Spaces(size, len(choices), choices, masked=True)

    def reset(self, key: jax.Array) -> tuple[Any, jax.Array]:
        queues = jnp.zeros(self.network.num_classes, jnp.int32)
        return queues, self.observation(queues)

    def step(self, key: jax.Array, state: Any, action: jax.Array) -> Step:
        after = self.after(state, action, jax.random.uniform(key))
        return Step(after, self.observation(after), self.reward(state), False, self.costs(state))

    def reward(self, queues: jax.Array) -> jax.Array:
        return -jnp.sum(np.array(self.network.holding_costs, np.float32) * queues)

    def costs(self, queues: jax.Array) -> dict[str, jax.Array]:
        """[] each: the customers of each class; with a buffer also `blocked`, the arrivals that
        are turned away per unit of time."""
        numbers = {f"customers_{k + 1}": queues[k] for k in range(self.network.num_classes)}
        if not self.buffer:
            return numbers
        arrivals = np.array(self.network.arrivals, np.float32)
        return numbers | {"blocked": jnp.sum(arrivals * (queues >= self.buffer))}

    def observation(self, queues: jax.Array) -> jax.Array:
        """[D] the mask, then the features."""
        return jnp.concatenate([self.mask(queues).astype(jnp.float32), scaled(queues)])

    def mask(self, queues: jax.Array) -> jax.Array:
        """[O] bool: the choices that are allowed."""
        outputs = self.outputs
        possible = _at(outputs.queue, queues) >= outputs.least
        return possible | (_at(outputs.together, possible) == 0)

    def after(self, queues: jax.Array, action: jax.Array, uniform: jax.Array) -> jax.Array:
        """[classes] the queues after the event that a uniform number in [0, 1) selects.

        Sums over constants instead of matrix products or gathers: XLA fuses them into one loop.
        """
        events = self.events
        drawn = (uniform >= np.float32(events.start)) & (uniform < np.float32(events.end))
        chosen = _at(events.column, action) == events.choice
        taken = _at(events.before, chosen) if events.before.any() else 0  # few networks need it
        possible = drawn & chosen & (_at(events.queue, queues) >= events.least + taken)
        moves = events.enters - events.queue
        if self.buffer:  # its own queue always has room
            possible &= _at(np.maximum(moves, 0), queues) < self.buffer
        return queues + jnp.sum(possible[:, None] * moves, axis=0)

    def exact(self, size: int = 0) -> MDP:
        """The tabular model with up to `size` customers of each class (default: the buffer)."""
        from longrun.exact.queueing.exact_model import exact_model  # needs SciPy

        return exact_model(self.network, self.box(size), self.idling)

    def box(self, size: int = 0) -> int:
        """The largest queue length of `exact(size)`; a buffer has no other than its own."""
        if not (size or self.buffer):
            raise InputError("size=0 makes no model: queues are unlimited; give 1 or more")
        if self.buffer and size not in (0, self.buffer):
            raise InputError(
                f"size={size} is not the buffer of '{self.name}', {self.buffer}; leave it out"
            )
        return size or self.buffer

    def states(self, size: int = 0) -> NDArray[np.int32]:
        from longrun.exact.queueing.exact_model import box_states

        return box_states(self.network, self.box(size)).T

    def choices(self, policy: Callable[[Any], jax.Array], size: int = 0) -> NDArray[Any]:
        """[S, columns] the action rows of a policy of queue lengths.

        Where a box around unlimited queues blocks the service that the policy chooses, its server
        serves another class.
        """
        from longrun.exact.queueing.exact_model import unblocked

        rows = super().choices(policy, size)
        return rows if self.buffer else unblocked(self.network, self.decisions, size, rows)


def _at(places: NDArray[Any], values: jax.Array) -> jax.Array:
    """[rows] the sum of the values [n] at the positions [rows, n] that are 1."""
    return jnp.sum(places * values, axis=1)


def scaled(queues: jax.Array) -> jax.Array:
    """[2 * classes] features of unbounded queue lengths.

    Logarithms separate 0, 1 and 2 customers, where switching curves start; values, which are
    about quadratic in long queues, need the linear ones.
    """
    lengths = queues.astype(jnp.float32)
    return jnp.concatenate([jnp.log1p(lengths), lengths / 20])


def _environment(name: str) -> Callable[..., QueueingEnv]:
    entry = KNOWN_NETWORKS[name]

    def make(network: Network, arguments: dict[str, Any]) -> QueueingEnv:
        idling = arguments.get("idling", entry.always_idling)
        title = env_string(name, build, **arguments)
        return QueueingEnv(network, idling, title, arguments["buffer"])

    rule = "All servers may idle." if entry.always_idling else "With `idling` servers may idle."
    full = "A `buffer` above 0 is the most customers of each class; a full queue takes no more."
    added: dict[str, Any] = {} if entry.always_idling else {"idling": False}
    build = derived_builder(entry.describe, make, f"{rule} {full}", **added, buffer=0)
    build.__module__ = __name__  # where pickle finds it
    return build


ENVIRONMENTS = {name: _environment(name) for name in KNOWN_NETWORKS}
criss_cross, six_class, n_model, reentrant, tandem = ENVIRONMENTS.values()
