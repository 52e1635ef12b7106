"""The events of a network as constant arrays, so that a simulated step is plain arithmetic.

Uniformisation: the rates of the arrivals and the largest rate of each server are laid end to end
and scaled to [0, 1). The position of a uniform number decides which event is possible. A server
that works at less than its largest rate leaves a part of its interval in which nothing happens.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from longrun.exact.queueing.network import Decision, Network

Array = NDArray[Any]


class Events(NamedTuple):
    """An entry for each arrival, and one for each service and destination of the customer."""

    start: Array
    end: Array
    """[E] the event is possible where the uniform number is in [start, end)"""
    rate: Array
    """[E] per unit of time"""
    column: Array
    choice: Array
    """[E, columns] one-hot and [E]: required choice in that column; 0 and 0 without a decision"""
    queue: Array
    least: Array
    """[E, classes] one-hot and [E]: required number of customers of that class"""
    before: Array
    """[E, E] 1 at services of its class by earlier servers: each takes one customer"""
    enters: Array
    """[E, classes] one-hot: the class that a customer enters; it leaves that of `queue`"""


class Outputs(NamedTuple):
    """Every choice of every decision, in the order of a policy's outputs."""

    queue: Array
    least: Array
    """[O, classes] one-hot and [O]: required number of customers; 0 and 0 for idling"""
    together: Array
    """[O, O] 1 at the choices of the same decision"""


class _Potential(NamedTuple):
    start: float
    rate: float
    enters: int | None
    queue: int | None = None
    station: int | None = None
    choice: int = 0


def network_events(network: Network, decisions: tuple[Decision, ...]) -> Events:
    found = list(_potential_events(network))
    deciding = [decision.station for decision in decisions]
    starts, rates = (np.array(values) for values in zip(*(each[:2] for each in found), strict=True))
    total = (starts + rates).max()
    decided = [event.choice if event.station in deciding else 0 for event in found]
    return Events(
        start=starts / total,
        end=(starts + rates) / total,
        rate=rates,
        column=_one_hot([event.station for event in found], deciding),
        choice=np.array(decided, np.int32),
        queue=_one_hot([event.queue for event in found], range(network.num_classes)),
        least=np.array([event.queue is not None for event in found], np.int32),
        before=_earlier_servers(found),
        enters=_one_hot([event.enters for event in found], range(network.num_classes)),
    )


def policy_outputs(network: Network, decisions: tuple[Decision, ...]) -> Outputs:
    """Servers without a decision always work: later ones need one more customer of their class."""
    deciding = {decision.station for decision in decisions}
    queues: list[int | None] = []
    least, places = [], []
    for place, (station, choices) in enumerate(decisions):
        busy = [network.stations[s][0].queue for s in range(station) if s not in deciding]
        for activity in choices:
            queues.append(None if activity is None else activity.queue)
            least.append(0 if activity is None else 1 + busy.count(activity.queue))
            places.append(place)
    together = np.equal.outer(places, places).astype(np.int32)
    queue = _one_hot(queues, range(network.num_classes))
    return Outputs(queue, np.array(least, np.int32), together)


def departures(network: Network, queue: int) -> Iterator[tuple[int | None, float]]:
    """Destinations of a class after service, with probabilities; None is out of the network."""
    yield from network.routing[queue]
    out = 1 - sum(probability for _, probability in network.routing[queue])
    if out > 1e-9:  # not a rounding error
        yield None, out


def _potential_events(network: Network) -> Iterator[_Potential]:
    place = 0.0
    for queue, rate in enumerate(network.arrivals):
        if rate:
            yield _Potential(place, rate, enters=queue)
        place += rate
    for station, activities in enumerate(network.stations):
        for choice, (queue, rate) in enumerate(activities):
            start = place
            for successor, probability in departures(network, queue):
                yield _Potential(start, rate * probability, successor, queue, station, choice)
                start += rate * probability
        place += max(rate for _, rate in activities)


def _earlier_servers(found: list[_Potential]) -> Array:
    """[E, E]; the first entry of a service with several destinations stands for all of them."""
    seen: set[tuple[int | None, int]] = set()
    before = np.zeros((len(found), len(found)), np.int32)
    for i, event in enumerate(found):
        if event.station is None or (event.station, event.choice) in seen:
            continue
        seen.add((event.station, event.choice))
        for j, later in enumerate(found):
            if later.station is not None and later.queue == event.queue:
                before[j, i] = later.station > event.station
    return before


def _one_hot(values: list[int | None], places: range | list[int]) -> Array:
    """[values, places]"""
    return np.array([[value == place for place in places] for value in values], np.int32)
