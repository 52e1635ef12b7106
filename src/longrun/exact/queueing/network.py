"""Multiclass queueing networks as data: arrivals, service and routing.

Classes and stations are numbered from 0 here and from 1 in names, as in the literature.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from longrun.base.checks import require_non_negative, require_positive
from longrun.base.errors import InputError, users_level

Array = NDArray[np.float64]


class Activity(NamedTuple):
    """What a server may do: serve the customers of a class at a rate."""

    queue: int
    """the class, from 0"""
    rate: float
    """services per unit of time"""


class Decision(NamedTuple):
    """One column of an action row: what the server of a station does next."""

    station: int
    choices: tuple[Activity | None, ...]
    """None is to idle"""


@dataclass(frozen=True)
class Network:
    """A network of single-server stations; all times are exponential.

    Lists become tuples, so that a network is hashable and can shape a compiled program.
    """

    name: str
    arrivals: tuple[float, ...]
    """[classes] rates of arrival from outside; 0 for none"""
    stations: tuple[tuple[Activity, ...], ...]
    """the activities of each server; a class may be served by several servers"""
    routing: tuple[tuple[tuple[int, float], ...], ...]
    """[classes] pairs (next class, probability) after a service; with the remaining probability a
    customer leaves the network"""
    holding_costs: tuple[float, ...]
    """[classes] per customer and unit of time"""

    def __post_init__(self) -> None:
        stations = tuple(tuple(Activity(*each) for each in station) for station in self.stations)
        object.__setattr__(self, "stations", stations)
        for field in ("arrivals", "routing", "holding_costs"):
            object.__setattr__(self, field, _as_tuples(getattr(self, field)))
        _require_entries(self)
        _require_numbers(self)
        _require_ways_out(self)

    @property
    def num_classes(self) -> int:
        return len(self.arrivals)

    def routing_matrix(self) -> Array:
        """P [classes, classes]: probability that a customer goes from one to the other."""
        matrix = np.zeros((self.num_classes, self.num_classes))
        for queue, successors in enumerate(self.routing):
            for successor, probability in successors:
                matrix[queue, successor] += probability
        return matrix

    def flows(self) -> Array:
        """[classes] customers per unit of time; the traffic equations, flow = arrivals + flow P."""
        system = np.eye(self.num_classes) - self.routing_matrix().T
        return np.asarray(np.linalg.solve(system, np.array(self.arrivals, float)))

    def loads(self) -> Array:
        """[stations] smallest fraction of time that each server must work.

        Where servers share a class, the work is divided such that the largest load is as small as
        possible: the static planning problem, a linear program (Harrison, 2000).
        """
        activities = [(s, *each) for s, station in enumerate(self.stations) for each in station]
        servers = np.array([s for s, _, _ in activities])
        queues = np.array([queue for _, queue, _ in activities])
        rates = np.array([rate for _, _, rate in activities])
        if len(set(queues)) == len(queues):
            shares = self.flows()[queues] / rates
        else:
            shares = _planned(servers, queues, rates, self.flows())
        return np.bincount(servers, shares, len(self.stations)).astype(float)

    def decisions(self, idling: bool | Collection[int] = False) -> tuple[Decision, ...]:
        """The columns of an action row: the stations whose server has a choice.

        With `idling` every server also has the choice to idle, as its last one; or only the servers
        of the given stations.
        """
        if isinstance(idling, bool):
            idling = range(len(self.stations)) if idling else ()
        choices = [
            (*station, None) if s in idling else station for s, station in enumerate(self.stations)
        ]
        return tuple(Decision(s, each) for s, each in enumerate(choices) if len(each) > 1)


def warn_of_overload(network: Network) -> None:
    """Warn of each station whose load is not below 1, at the caller's line outside longrun."""
    level = users_level()
    for station, load in enumerate(network.loads()):
        if load > 1 - 1e-9:  # allows for rounding of a load of 1
            warnings.warn(
                f"station {station + 1} (stations[{station}]) of '{network.name}' has load"
                f" {load:.4g}, not below 1: its queue grows without bound; lower arrivals or raise"
                " service rates",
                stacklevel=level,
            )


def _planned(servers: Any, queues: Any, rates: Array, flows: Array) -> Array:
    """[activities] fractions of time that carry the flows and minimise the largest load."""
    from scipy import optimize  # few networks need it

    count = len(rates)
    served = (queues == np.arange(len(flows))[:, None]) * rates  # [classes, activities]
    used = 1.0 * (servers == np.arange(servers.max() + 1)[:, None])  # [stations, activities]
    reached = served.any(1)  # the others have no customers: `_require_ways_out`
    found = optimize.linprog(
        np.append(np.zeros(count), 1),
        A_ub=np.column_stack([used, -np.ones(len(used))]),
        b_ub=np.zeros(len(used)),
        A_eq=np.column_stack([served, np.zeros(len(flows))])[reached],
        b_eq=flows[reached],
    )
    return np.asarray(found.x[:-1])


def _as_tuples(values: Any) -> Any:
    return tuple(map(_as_tuples, values)) if isinstance(values, list | tuple) else values


def _require_entries(network: Network) -> None:
    classes = len(network.arrivals)
    if not classes:
        raise InputError("arrivals=() is empty; give the rate of each class")
    for field in ("routing", "holding_costs"):
        given = len(getattr(network, field))
        if given != classes:
            raise InputError(
                f"{field} has {given} entries and arrivals {classes}; give one for each class"
            )
    named = {
        **{f"stations[{s}]": station for s, station in enumerate(network.stations)},
        **{f"routing[{k}]": successors for k, successors in enumerate(network.routing)},
    }
    for field, pairs in named.items():
        for queue, _ in pairs:
            if queue not in range(classes):
                raise InputError(f"{field} names class {queue}; classes are 0 to {classes - 1}")
    for s, station in enumerate(network.stations):
        queues = [each.queue for each in station]
        if not queues:
            raise InputError(f"stations[{s}]=() has no activity; give it one or leave it out")
        if len(set(queues)) < len(queues):
            raise InputError(f"stations[{s}] serves a class twice: {queues}; name each class once")


def _require_numbers(network: Network) -> None:
    for field in ("arrivals", "holding_costs"):
        numbers = enumerate(getattr(network, field))
        require_non_negative(**{f"{field}[{k}]": value for k, value in numbers})
    if not any(network.arrivals):
        raise InputError(f"arrivals={network.arrivals} are all 0; give a rate above 0")
    for s, station in enumerate(network.stations):
        require_positive(**{f"rate of stations[{s}] for class {k}": rate for k, rate in station})
    for k, successors in enumerate(network.routing):
        probabilities = [probability for _, probability in successors]
        if not all(0 <= p <= 1 for p in probabilities) or sum(probabilities) > 1 + 1e-9:
            raise InputError(
                f"routing[{k}]={successors} is not a distribution; give probabilities with sum 1 or"
                " less"
            )


def _require_ways_out(network: Network) -> None:
    """Every customer is served and leaves."""
    matrix = network.routing_matrix()
    leaves = matrix.sum(1) < 1 - 1e-9
    for _ in range(network.num_classes):
        leaves |= (matrix * leaves).any(1)
    if not leaves.all():
        raise InputError(
            f"routing lets customers of class {int(np.argmin(leaves))} never leave the network;"
            " lower a probability"
        )
    served = {queue for station in network.stations for queue, _ in station}
    for k, flow in enumerate(network.flows()):
        if flow > 0 and k not in served:
            raise InputError(f"stations do not serve class {k}, which customers reach; add it")
