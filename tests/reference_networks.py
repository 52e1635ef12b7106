"""Queueing networks written out as lists of events, independently of `longrun.queueing`.

The `MODELS` of `longrun.queueing` are compared with these, and tests of `longrun.tabular` use them
as examples. Parameters are not checked here.
"""

from __future__ import annotations

from event_lists import Event, queueing_network
from longrun.exact.tabular.mdp import MDP

CRISS_CROSS_RATES = {
    "IL": (0.3, 1.5),
    "BL": (0.3, 1.0),
    "IM": (0.6, 1.5),
    "BM": (0.6, 1.0),
    "IH": (0.9, 1.5),
    "BH": (0.9, 1.0),
}
"""Arrival rate of each stream and service rate of the second server (Dai and Gluzman, 2022)."""


def criss_cross(regime: str = "BM", size: int = 30) -> MDP:
    """State (x1, x2, x3); the action is what server 1 does; server 2 always works."""
    arrivals, second = CRISS_CROSS_RATES[regime]
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
    """State (x1, x2); the action is the class that server 2 serves; server 1 always works."""
    events = [
        Event(load * arrival_rates[0], (1, 0)),
        Event(load * arrival_rates[1], (0, 1)),
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
    """State (x1, x2); the action is whether server 1 serves; server 2 always works."""
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
        name=f"tandem queue, up to {size} a queue",
    )
