"""Queueing networks as lists of events, uniformised and truncated to a box of queue lengths.

A continuous-time network whose events have rates becomes a chain in discrete time: each step is one
potential event, chosen with probability rate / (sum of all rates). An event that cannot happen
changes nothing. The average cost per step is then the average cost per unit of time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longrun.exact.tabular.mdp import MDP, Matrix
from longrun.exact.tabular.precision import rounding


class Event(NamedTuple):
    """Something that happens at a rate and moves customers."""

    rate: float
    move: tuple[int, ...]
    """Change of each queue: (-1, 1, 0) is a customer that leaves queue 0 for queue 1."""
    actions: tuple[int, ...] | None = None
    """The actions under which it happens (default: all)."""
    least: tuple[int, ...] | None = None
    """Minimum queue lengths that it needs (default: 0, or what its move takes away)."""


def queueing_network(
    events: Sequence[Event],
    costs: Sequence[float],
    actions: Sequence[str],
    size: int,
    name: str,
    available: Callable[[NDArray[np.int32]], NDArray[np.bool_]] | None = None,
) -> MDP:
    """The MDP of a network whose queues hold up to `size` customers each.

    A move that would leave the box (arrival to a full queue, service of an empty one, a transfer to
    a full one) does not happen. Holding `costs`, one per queue, are per customer and unit of time.
    All actions are available in all states unless `available`, a function of the queue lengths
    [queues, S], says otherwise [S, A]. What can be limited: customers_1, customers_2, ..., the mean
    numbers; blocked, arrivals turned away per unit of time.
    """
    shape = (size + 1,) * len(costs)
    happening = [
        [event for event in events if event.actions is None or a in event.actions]
        for a in range(len(actions))
    ]
    lengths = np.indices(shape, dtype=np.int32).reshape(len(shape), -1)
    uniformisation = max(sum(event.rate for event in these) for these in happening)
    matrices = [_uniformised(these, lengths, size, uniformisation) for these in happening]
    mask = None if available is None else available(lengths)
    if mask is not None:
        matrices = [matrix * mask[:, [a]] for a, matrix in enumerate(matrices)]
    states = lengths.shape[1]
    cost = np.asarray(costs, float) @ lengths
    rewards = np.broadcast_to(-cost[:, None], (states, len(actions)))
    empty = np.zeros(states)
    empty[0] = 1
    return MDP(
        matrices,
        rewards,
        available=mask,
        initial=empty,
        costs=_named_costs(events, lengths, size),
        name=name,
        shape=shape,
        sides=[f"customers of class {i + 1}" for i in range(len(shape))],
        actions=actions,
        cost=True,
    )


def _named_costs(
    events: Sequence[Event], lengths: NDArray[np.int32], size: int
) -> dict[str, NDArray[np.float64]]:
    """[S] each, rates per unit of time, as the holding costs are; `lengths` are [queues, S]."""
    blocked = np.zeros(lengths.shape[1])
    for event in events:
        if min(event.move) >= 0:  # from outside
            blocked += event.rate * (lengths + np.array(event.move)[:, None] > size).any(0)
    numbers = {f"customers_{k + 1}": each.astype(float) for k, each in enumerate(lengths)}
    return {**numbers, "blocked": blocked}


def _uniformised(
    events: Sequence[Event], lengths: NDArray[np.int32], size: int, uniformisation: float
) -> Matrix:
    """Transitions [S, S] under the events of an action; `lengths` are [queues, S]."""
    queues, states = lengths.shape
    strides = (size + 1) ** np.arange(queues)[::-1]
    width = len(events) + 1  # the last column of each row is the state itself
    index = np.int32 if states * width < 2**31 else np.int64
    columns = np.empty((states, width), index)
    rates = np.empty((states, width))
    columns[:, -1] = np.arange(states)
    idle = uniformisation - sum(event.rate for event in events)
    if idle <= rounding(len(events), uniformisation):
        idle = 0.0  # rates summed in another order: a rounding error is not an event
    stay = np.full(states, idle)
    for i, event in enumerate(events):
        after = lengths + np.array(event.move)[:, None]
        possible = ((after >= 0) & (after <= size)).all(0)
        if event.least is not None:
            possible &= (lengths >= np.array(event.least)[:, None]).all(0)
        rates[:, i] = event.rate * possible
        columns[:, i] = columns[:, -1] + possible * int(strides @ event.move)
        stay += event.rate * ~possible  # a sum, not a difference, to keep full precision
    rates[:, -1] = stay
    rates /= uniformisation
    row_starts = np.arange(states + 1, dtype=index) * width
    return sparse.csr_array((rates.ravel(), columns.ravel(), row_starts), (states, states))
