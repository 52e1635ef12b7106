"""Queueing networks as exact tabular models, for solvers and for checking simulators."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Collection, Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from longrun.base.memory import require_memory
from longrun.exact.queueing.events import Outputs, departures, policy_outputs
from longrun.exact.queueing.network import Activity, Decision, Network
from longrun.exact.tabular.mdp import MDP
from longrun.exact.tabular.models.uniformised import Event, queueing_network

Serving = tuple[Activity | None, ...]
"""The activity of each server: a joint action."""


def exact_model(
    network: Network, size: int, idling: bool | Collection[int] = False, masked: bool = True
) -> MDP:
    """The network with up to `size` customers of each class, where servers act jointly.

    Action i is the action row np.unravel_index(i, choices of each decision). Available actions are
    those that the mask of `QueueingEnv` allows, or all without `masked`: a server of a class
    without customers then idles. A move that would leave the box does not happen.
    """
    decisions = network.decisions(idling)
    joint = list(itertools.product(*(decision.choices for decision in decisions)))
    serving = [_servers(network, decisions, chosen) for chosen in joint]
    return queueing_network(
        [*_arrivals(network), *_services(network, serving)],
        costs=network.holding_costs,
        actions=[_described(decisions, chosen) for chosen in joint],
        size=size,
        name=f"{network.name}, up to {size} a queue",
        available=partial(_available, network, decisions) if masked and decisions else None,
    )


def _servers(
    network: Network, decisions: tuple[Decision, ...], chosen: tuple[Activity | None, ...]
) -> Serving:
    serving: list[Activity | None] = [station[0] for station in network.stations]
    for decision, activity in zip(decisions, chosen, strict=True):
        serving[decision.station] = activity
    return tuple(serving)


def _described(decisions: tuple[Decision, ...], chosen: tuple[Activity | None, ...]) -> str:
    """The name of an action; if only one server decides, it is not named."""
    if not decisions:
        return "serve"
    if len(decisions) == 1:
        return f"serve class {chosen[0].queue + 1}" if chosen[0] else "idle"
    return ", ".join(
        f"station {decision.station + 1}: {f'class {each.queue + 1}' if each else 'idle'}"
        for decision, each in zip(decisions, chosen, strict=True)
    )


def _arrivals(network: Network) -> Iterator[Event]:
    for queue, rate in enumerate(network.arrivals):
        if rate:
            yield Event(rate, _move(network, None, queue))


def _services(network: Network, serving: list[Serving]) -> Iterator[Event]:
    """A service needs one more customer for each earlier server of its class, for each action."""
    actions: dict[tuple[int, Activity, int], list[int]] = defaultdict(list)
    for number, servers in enumerate(serving):
        for station, activity in enumerate(servers):
            if activity is not None:
                busy = [each.queue for each in servers[:station] if each is not None]
                least = 1 + busy.count(activity.queue)
                actions[station, activity, least].append(number)
    for (_, (queue, rate), least), numbers in actions.items():
        needs = tuple(least * (k == queue) for k in range(network.num_classes))
        for successor, probability in departures(network, queue):
            move = _move(network, queue, successor)
            yield Event(rate * probability, move, tuple(numbers), needs)


def _move(network: Network, leaves: int | None, enters: int | None) -> tuple[int, ...]:
    return tuple((k == enters) - (k == leaves) for k in range(network.num_classes))


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
