"""Queueing networks as exact tabular models, for solvers and for checking simulators."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longrun.base import memory
from longrun.base.checks import require_at_least
from longrun.base.memory import require_memory
from longrun.exact.queueing.events import (
    Events,
    Outputs,
    departures,
    network_events,
    policy_outputs,
)
from longrun.exact.queueing.network import Activity, Decision, Network
from longrun.exact.tabular.mdp import MDP, Matrix
from longrun.exact.tabular.precision import rounding

ENTRY = 12
"""Bytes of a transition: its probability and its column. The kernel is copied once."""
PAIR = 48
"""Bytes of a pair of state and action beside its transitions."""


def exact_model(
    network: Network, size: int, idling: bool | Collection[int] = False, masked: bool = True
) -> MDP:
    """The network with up to `size` customers of each class, where servers act jointly.

    It is uniformised: each step is one potential event, chosen with probability rate / (largest sum
    of rates under an action), so that averages per step are averages per unit of time. An event
    that cannot happen, or would leave the box, changes nothing. Action i is the action row
    np.unravel_index(i, choices of each decision). Available actions are those that the mask of
    `QueueingEnv` allows, or all without `masked`: a server of a class without customers then idles.
    What can be limited: customers_1, customers_2, ..., the mean numbers; blocked, arrivals turned
    away per unit of time.
    """
    require_at_least(1, size=size)
    decisions, classes = network.decisions(idling), network.num_classes
    events = network_events(network, decisions)
    rows = np.array([*np.ndindex(*(len(decision.choices) for decision in decisions))], np.intp)
    chosen = rows @ events.column.T == events.choice  # [A, E]; rows are [A, columns]
    masked = masked and bool(decisions)
    _require_room(size, classes, chosen.sum(1) + 1, masked)
    queues = box_states(network, size)
    total = max(events.rate[these].sum() for these in chosen)
    matrices = [_uniformised(events, these, queues, size, total) for these in chosen]
    available = _available(network, decisions, queues) if masked else None
    if available is not None:
        matrices = [matrix * available[:, [a]] for a, matrix in enumerate(matrices)]
    cost = np.asarray(network.holding_costs, float) @ queues
    numbers = {f"customers_{k + 1}": each.astype(float) for k, each in enumerate(queues)}
    blocked = np.array(network.arrivals) @ (queues == size)
    return MDP(
        matrices,
        np.broadcast_to(-cost[:, None], (len(cost), len(rows))),
        available=available,
        initial=np.arange(len(cost)) == 0,
        costs={**numbers, "blocked": blocked},
        name=f"{network.name}, up to {size} a queue",
        shape=(size + 1,) * classes,
        sides=[f"customers of class {k + 1}" for k in range(classes)],
        actions=[_described(decisions, row) for row in rows],
        cost=True,
    )


def _uniformised(
    events: Events, chosen: NDArray[np.bool_], queues: NDArray[np.int32], size: int, total: float
) -> Matrix:
    """Transitions [S, S] of an action under which the `chosen` [E] events are possible."""
    classes, states = queues.shape
    strides = (size + 1) ** np.arange(classes)[::-1]
    needed = (events.least + events.before @ chosen)[:, None] * events.queue  # [E, classes]
    places = np.flatnonzero(chosen)
    width = len(places) + 1  # the last column of each row is the state itself
    index = np.int32 if states * width < 2**31 else np.int64
    columns, rates = np.empty((states, width), index), np.empty((states, width))
    columns[:, -1] = np.arange(states)
    idle = total - events.rate[places].sum()
    # Rates that are summed in another order: a rounding error is not an event.
    stay = np.full(states, idle if idle > rounding(len(places), total) else 0.0)
    for i, event in enumerate(places):
        move = events.enters[event] - events.queue[event]
        after = queues + move[:, None]
        possible = ((after <= size) & (queues >= needed[event][:, None])).all(0)
        rates[:, i] = events.rate[event] * possible
        columns[:, i] = columns[:, -1] + possible * int(strides @ move)
        stay += events.rate[event] * ~possible  # a sum, not a difference, to keep full precision
    rates[:, -1] = stay
    rates /= total
    starts = np.arange(states + 1, dtype=index) * width
    return sparse.csr_array((rates.ravel(), columns.ravel(), starts), (states, states))


def _described(decisions: tuple[Decision, ...], row: NDArray[np.integer]) -> str:
    chosen = [decision.choices[choice] for decision, choice in zip(decisions, row, strict=True)]
    if not chosen:
        return "serve"
    if len(chosen) == 1:
        return f"serve class {chosen[0].queue + 1}" if chosen[0] else "idle"
    return ", ".join(
        f"station {decision.station + 1}: {f'class {each.queue + 1}' if each else 'idle'}"
        for decision, each in zip(decisions, chosen, strict=True)
    )


def _require_room(size: int, queues: int, widths: NDArray[np.integer], masked: bool) -> None:
    """Raise InputError if the model does not fit; `widths` [A] are the lengths of its rows."""
    states = (size + 1) ** queues
    pair = 2 * ENTRY * int(widths.sum()) + PAIR * len(widths)
    costs = 8 * (queues + 1) * len(widths) if masked else 0
    needed = float(states) * (pair + costs + 16 * queues)
    largest = int((size + 1) * (memory.total_memory() / needed) ** (1 / queues)) - 1
    fix = f"give {largest} or less" if largest >= 1 else "take fewer classes"
    require_memory(needed, f"size={size} makes {states:,} states of {queues} classes, which", fix)


def unblocked(
    network: Network, decisions: tuple[Decision, ...], size: int, rows: NDArray[np.integer]
) -> NDArray[np.intp]:
    """[S, decisions] the choices of a policy in the box, without services that the box blocks.

    A service is blocked where its customer can only go to queues that are full. The server then
    takes the first class that it can serve, if there is one. If it waited, queues that wait for
    each other could stay full for ever, which cannot happen in the network itself.
    """
    queues = box_states(network, size)
    result = np.array(rows, np.intp)
    possible = _possible(policy_outputs(network, decisions), queues)
    each_possible = _by_decision(possible, decisions)
    for column, decision, waiting in zip(result.T, decisions, each_possible, strict=True):
        free = np.stack([_has_room(network, each, queues, size) for each in decision.choices], 1)
        works = [each is not None for each in decision.choices]
        other = waiting & free & works
        blocked = ~free[np.arange(len(column)), column] & other.any(1)
        column[blocked] = other[blocked].argmax(1)
    return result


def _available(
    network: Network, decisions: tuple[Decision, ...], queues: NDArray[np.int32]
) -> NDArray[np.bool_]:
    """[S, A]: each decision's own choice must be allowed; `queues` are [classes, S]."""
    outputs = policy_outputs(network, decisions)
    possible = _possible(outputs, queues)
    allowed = possible | (possible.astype(int) @ outputs.together == 0)
    result = np.ones((len(allowed), 1), bool)
    for each in _by_decision(allowed, decisions):  # the last decision's choice changes fastest
        result = (result[:, :, None] & each[:, None, :]).reshape(len(result), -1)
    return result


def _by_decision(
    values: NDArray[np.bool_], decisions: tuple[Decision, ...]
) -> list[NDArray[np.bool_]]:
    """[S, choices] of each decision, from those of all [S, O]."""
    ends = np.cumsum([len(decision.choices) for decision in decisions])
    return np.split(values, ends[:-1], axis=1)


def _possible(outputs: Outputs, queues: NDArray[np.int32]) -> NDArray[np.bool_]:
    """[S, O]: whether there are customers to be served."""
    possible: NDArray[np.bool_] = (outputs.queue @ queues >= outputs.least[:, None]).T
    return possible


def _has_room(
    network: Network, served: Activity | None, queues: NDArray[np.int32], size: int
) -> NDArray[np.bool_]:
    """[S] whether a customer who was served can go somewhere in the box."""
    room = np.full(queues.shape[1], served is None)
    if served is not None:
        for successor, _ in departures(network, served.queue):
            room |= successor in (None, served.queue) or queues[successor] < size
    return room


def box_states(network: Network, size: int) -> NDArray[np.int32]:
    """[classes, S] the queue lengths of each state."""
    classes = network.num_classes
    states = (size + 1) ** classes
    require_memory(4 * classes * states, f"size={size}: {states:,} states of {classes} classes")
    return np.indices((size + 1,) * classes, np.int32).reshape(classes, -1)
