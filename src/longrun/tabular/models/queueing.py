"""Queueing networks, uniformised and truncated to a box of queue lengths.

A continuous-time network whose events have rates becomes a chain in discrete time: each step is one
potential event, chosen with probability rate / (sum of all rates). An event that cannot happen
changes nothing. The average cost per step is then the average cost per unit of time.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longrun.tabular.mdp import MDP, Matrix
from longrun.tabular.precision import rounding
from longrun.tabular.validation import (
    require_at_least,
    require_non_negative,
    require_positive,
)


class Event(NamedTuple):
    """Something that happens at a rate and moves customers."""

    rate: float
    move: tuple[int, ...]
    """Change of each queue: (-1, 1, 0) is a customer that leaves queue 0 for queue 1."""
    actions: tuple[int, ...] | None = None
    """The actions under which it happens (default: all)."""
    least: tuple[int, ...] | None = None
    """The queue lengths that it needs at least (default: 0, and what its move takes away)."""


REGIMES = {
    "IL": (0.3, 1.5),
    "BL": (0.3, 1.0),
    "IM": (0.6, 1.5),
    "BM": (0.6, 1.0),
    "IH": (0.9, 1.5),
    "BH": (0.9, 1.0),
}
"""Criss-cross: arrival rate of each stream and service rate of the second server. I and B:
imbalanced and balanced load; L, M, H: light, medium, heavy traffic."""


def queueing_network(
    events: Sequence[Event],
    costs: Sequence[float],
    actions: Sequence[str],
    size: int,
    name: str,
) -> MDP:
    """The MDP of a network whose queues hold up to `size` customers each.

    A move that would leave the box (arrival to a full queue, service of an empty one, a transfer to
    a full one) does not happen. Holding `costs`, one a queue, are per customer and unit of time.
    """
    require_at_least(1, size=size)
    shape = (size + 1,) * len(costs)
    lengths = np.indices(shape, dtype=np.int32).reshape(len(shape), -1)
    happening = [
        [event for event in events if event.actions is None or a in event.actions]
        for a in range(len(actions))
    ]
    uniformisation = max(sum(event.rate for event in these) for these in happening)
    matrices = [_uniformised(these, lengths, size, uniformisation) for these in happening]
    states = lengths.shape[1]
    cost = np.asarray(costs, float) @ lengths
    rewards = np.broadcast_to(-cost[:, None], (states, len(actions)))
    empty = np.zeros(states)
    empty[0] = 1
    return MDP(
        matrices,
        rewards,
        initial=empty,
        name=name,
        shape=shape,
        sides=[f"customers in queue {i + 1}" for i in range(len(shape))],
        actions=actions,
        cost=True,
    )


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
        idle = 0.0  # rates that were added up in another order: rounding is no event
    stay = np.full(states, idle)
    for i, event in enumerate(events):
        after = lengths + np.array(event.move)[:, None]
        possible = ((after >= 0) & (after <= size)).all(0)
        if event.least is not None:
            possible &= (lengths >= np.array(event.least)[:, None]).all(0)
        rates[:, i] = event.rate * possible
        columns[:, i] = columns[:, -1] + possible * int(strides @ event.move)
        stay += event.rate * ~possible  # and never minus: what is left keeps all its digits
    rates[:, -1] = stay
    rates /= uniformisation
    row_starts = np.arange(states + 1, dtype=index) * width
    return sparse.csr_array((rates.ravel(), columns.ravel(), row_starts), (states, states))


def _warn_of_load(station: str, load: float, remedy: str) -> None:
    if load >= 1:
        warnings.warn(
            f"{station} has load {load:.4g}, not below 1: without the truncation its queue would "
            f"grow for ever; {remedy}",
            stacklevel=3,
        )


def criss_cross(regime: str = "BM", size: int = 30) -> MDP:
    """Criss-cross network: one server feeds another or serves customers who leave.

    State: (x1, x2, x3), the customers of each class. Server 1 serves class 1, which goes on to
    server 2 as class 2, or class 3, which leaves, or idles: that is the action; both at rate 2.
    Server 2 always works, since idling it never helps. Cost: x1 + x2 + x3. The regimes and their
    rates are those of Dai and Gluzman (2022), after Martins, Shreve and Soner (1996).
    """
    if regime not in REGIMES:
        raise ValueError(f"regime='{regime}' is unknown; valid: {', '.join(REGIMES)}")
    arrivals, second = REGIMES[regime]
    events = [
        Event(arrivals, (1, 0, 0)),
        Event(arrivals, (0, 0, 1)),
        Event(2.0, (-1, 1, 0), actions=(1,)),
        Event(2.0, (0, 0, -1), actions=(2,)),
        Event(second, (0, -1, 0)),
    ]
    return queueing_network(
        events,
        costs=(1, 1, 1),
        actions=("idle", "serve class 1", "serve class 3"),
        size=size,
        name=f"criss-cross {regime}, up to {size} a queue",
    )


def n_model(
    load: float = 0.9,
    arrival_rates: tuple[float, ...] = (1.3, 0.4),
    service_rates: tuple[float, ...] = (1.0, 0.5, 1.0),
    holding_costs: tuple[float, ...] = (3.0, 1.0),
    size: int = 120,
) -> MDP:
    """N-model: a server of class 1, and one that helps it or serves class 2.

    State: (x1, x2), the customers of each class. Class i arrives at rate load * arrival_rates[i].
    service_rates: server 1 on class 1, server 2 on class 1, server 2 on class 2. The action is the
    class that server 2 serves; on class 1 it needs a second customer there, since server 1 has the
    first. Service is preemptive. Cost: holding_costs of x1 and x2. Harrison (1998), Bell and
    Williams (2001); the rates are Harrison's, critical at load 1, the costs those of Dai and
    Gluzman (2022): server 2 is to help class 1 above a threshold only. A small `size` flatters: the
    optimal cost at load 0.9 is 23.40 with 80 a queue, 23.53 with 160.
    """
    _require_entries(2, "arrival_rates", arrival_rates)
    _require_entries(3, "service_rates", service_rates)
    _require_entries(2, "holding_costs", holding_costs)
    require_positive(load=load)
    arrivals = [load * rate for rate in arrival_rates]
    left_over = max(arrivals[0] - service_rates[0], 0)
    busy = left_over / service_rates[1] + arrivals[1] / service_rates[2]
    _warn_of_load("server 2", busy, "lower load or arrival_rates, or raise service_rates")
    events = [
        Event(arrivals[0], (1, 0)),
        Event(arrivals[1], (0, 1)),
        Event(service_rates[0], (-1, 0)),
        Event(service_rates[1], (-1, 0), actions=(0,), least=(2, 0)),
        Event(service_rates[2], (0, -1), actions=(1,)),
    ]
    return queueing_network(
        events,
        costs=holding_costs,
        actions=("server 2 to class 1", "server 2 to class 2"),
        size=size,
        name=f"N-model at load {load:g}, up to {size} a queue",
    )


def tandem(
    arrival_rate: float = 0.6,
    service_rates: tuple[float, ...] = (1.2, 1.0),
    holding_costs: tuple[float, ...] = (1.0, 3.0),
    size: int = 30,
) -> MDP:
    """Tandem queue: two stations in series, where the first may idle.

    State: (x1, x2), the customers at each station. Customers come to station 1 at arrival_rate, go
    on to station 2 and leave from there; the action is whether server 1 idles or serves; server 2
    always works. Cost: holding_costs of x1 and x2. Where waiting at station 2 costs more, server 1
    is to idle when x2 is above a switching curve that rises with x1 (Rosberg, Varaiya and Walrand,
    1982); otherwise idling never helps.
    """
    require_positive(arrival_rate=arrival_rate)
    _require_entries(2, "service_rates", service_rates)
    _require_entries(2, "holding_costs", holding_costs)
    for station, rate in enumerate(service_rates, start=1):
        remedy = "lower arrival_rate or raise service_rates"
        _warn_of_load(f"station {station}", arrival_rate / rate, remedy)
    events = [
        Event(arrival_rate, (1, 0)),
        Event(service_rates[0], (-1, 1), actions=(1,)),
        Event(service_rates[1], (0, -1)),
    ]
    return queueing_network(
        events,
        costs=holding_costs,
        actions=("idle", "serve"),
        size=size,
        name=f"tandem queue, up to {size} a station",
    )


def _require_entries(count: int, name: str, values: tuple[float, ...]) -> None:
    """That there are so many rates above 0, or costs of at least 0."""
    if len(values) != count:
        raise ValueError(f"{name}={values} has {len(values)} entries; give {count}")
    check = require_non_negative if name.endswith("costs") else require_positive
    for i, value in enumerate(values):
        check(**{f"{name}[{i}]": value})
