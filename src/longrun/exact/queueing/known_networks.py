"""Networks from the literature, each described once, and their exact models; no JAX is needed."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from longrun.base.checks import known, require_positive
from longrun.base.errors import InputError
from longrun.exact.queueing.network import Activity, Network, warn_of_overload

if TYPE_CHECKING:
    from longrun.exact.tabular.mdp import MDP

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
SIX_CLASS_TIMES = ((8.0, 2.0, 4.0), (6.0, 7.0, 1.0))
"""Mean service times of the three classes at odd and at even stations."""


def criss_cross(regime: str = "BM") -> Network:
    """Criss-cross network: one server feeds another or serves customers who leave.

    Classes 1 and 3 arrive; server 1 serves both at rate 2; class 1 moves to server 2 as class 2,
    class 3 leaves. Cost: all customers. The regimes and their rates are those of Dai and Gluzman
    (2022), after Martins, Shreve and Soner (1996).
    """
    arrivals, second = REGIMES[known("regime", regime, REGIMES)]
    return Network(
        f"criss-cross {regime}",
        arrivals=(arrivals, 0.0, arrivals),
        stations=((Activity(0, 2.0), Activity(2, 2.0)), (Activity(1, second),)),
        routing=(((1, 1.0),), (), ()),
        holding_costs=(1.0, 1.0, 1.0),
    )


def six_class(stations: int = 2) -> Network:
    """Extended six-class network: two routes through stations of three classes each.

    Classes 3l - 2, 3l - 1 and 3l are at station l. Classes 1 and 3 arrive at rate 9/140 each; class
    k moves to class k + 3 at the next station; at the last one the first class returns to class
    2, the others leave. Every load is 0.9. Cost: all customers. Bertsimas, Gamarnik and Rikun
    (2015); Dai and Gluzman (2022) have 2 to 7 stations.
    """
    if stations not in range(2, 8):
        raise InputError(f"stations={stations} is out of range; choose 2 to 7")
    classes = 3 * stations
    last = [((1, 1.0),), (), ()]
    return Network(
        f"six-class, {stations} stations",
        arrivals=(9 / 140, 0.0, 9 / 140, *[0.0] * (classes - 3)),
        stations=tuple(
            tuple(Activity(3 * s + i, 1 / time) for i, time in enumerate(SIX_CLASS_TIMES[s % 2]))
            for s in range(stations)
        ),
        routing=(*(((k + 3, 1.0),) for k in range(classes - 3)), *last),
        holding_costs=(1.0,) * classes,
    )


def n_model(
    load: float = 0.9,
    arrival_rates: tuple[float, ...] = (1.3, 0.4),
    service_rates: tuple[float, ...] = (1.0, 0.5, 1.0),
    holding_costs: tuple[float, ...] = (3.0, 1.0),
) -> Network:
    """N-model: a server of class 1, and one that helps it or serves class 2.

    Class i arrives at rate load * arrival_rates[i]. service_rates: server 1 on class 1, server 2 on
    class 1, server 2 on class 2. On class 1 server 2 needs a second customer, since server 1 has
    the first. Service is preemptive. Harrison (1998), Bell and Williams (2001); the rates are
    Harrison's, critical at load 1, the costs those of Dai and Gluzman (2022): server 2 should help
    class 1 above a threshold only. A small box underestimates the cost: at load 0.9 the
    optimal cost is 23.40 with 80 customers per queue, 23.53 with 160.
    """
    require_positive(load=load)
    _require_length(2, arrival_rates=arrival_rates, holding_costs=holding_costs)
    _require_length(3, service_rates=service_rates)
    first, helping, second = service_rates
    return Network(
        f"N-model at load {load:g}",
        arrivals=tuple(load * rate for rate in arrival_rates),
        stations=((Activity(0, first),), (Activity(0, helping), Activity(1, second))),
        routing=((), ()),
        holding_costs=holding_costs,
    )


def reentrant(
    arrival_rate: float = 1.0,
    stations: tuple[int, ...] = (1, 2, 1),
    service_times: tuple[float, ...] = (0.4, 0.9, 0.4),
    holding_costs: tuple[float, ...] = (),
) -> Network:
    """Re-entrant line: one route of several steps that comes back to a station.

    Step i, which is class i, is done at stations[i] (counted from 1) and takes service_times[i] on
    average; holding_costs are 1 by default. The default network is the simple re-entrant line:
    steps 1 and 3 at station 1, step 2 at station 2; loads 0.8 and 0.9.
    """
    steps = len(stations)
    require_positive(arrival_rate=arrival_rate)
    _require_length(steps, service_times=service_times)
    costs = holding_costs or (1.0,) * steps
    _require_length(steps, holding_costs=costs)
    if sorted(set(stations)) != list(range(1, max(stations, default=0) + 1)):
        raise InputError(f"stations={stations} must be numbered from 1 without gaps")
    require_positive(**{f"service_times[{i}]": time for i, time in enumerate(service_times)})
    return Network(
        f"re-entrant line of {steps} steps",
        arrivals=(arrival_rate, *[0.0] * (steps - 1)),
        stations=tuple(
            tuple(Activity(i, 1 / service_times[i]) for i in range(steps) if stations[i] == station)
            for station in sorted(set(stations))
        ),
        routing=(*(((i + 1, 1.0),) for i in range(steps - 1)), ()),
        holding_costs=costs,
    )


def tandem(
    arrival_rate: float = 0.6,
    service_rates: tuple[float, ...] = (1.2, 1.0),
    holding_costs: tuple[float, ...] = (1.0, 3.0),
) -> Network:
    """Tandem queue: stations in series, where idling may pay.

    Customers arrive at station 1 at arrival_rate, move from station to station and leave from the
    last. Where waiting costs more at station 2 than at station 1, server 1 should idle when x2 is
    above a switching curve that rises with x1 (Rosberg, Varaiya and Walrand, 1982).
    """
    stations = len(service_rates)
    require_positive(arrival_rate=arrival_rate)
    _require_length(stations, holding_costs=holding_costs)
    return Network(
        f"tandem queue of {stations} stations",
        arrivals=(arrival_rate, *[0.0] * (stations - 1)),
        stations=tuple((Activity(s, rate),) for s, rate in enumerate(service_rates)),
        routing=(*(((s + 1, 1.0),) for s in range(stations - 1)), ()),
        holding_costs=holding_costs,
    )


def _require_length(count: int, **values: tuple[float, ...]) -> None:
    for name, given in values.items():
        if len(given) != count:
            raise InputError(f"{name}={given} has {len(given)} entries; give {count}")


class KnownNetwork(NamedTuple):
    """The description of a network, and what its environment and its exact model add to it."""

    describe: Callable[..., Network]
    size: int
    """default limit on the customers of each class in the exact model"""
    may_idle: tuple[int, ...] = ()
    """stations, from 0, that may idle in the exact model"""
    always_idling: bool = False
    """whether all servers of the environment may idle; otherwise it has a parameter `idling`"""


KNOWN_NETWORKS = {
    "criss-cross": KnownNetwork(criss_cross, size=30, may_idle=(0,)),
    "six-class": KnownNetwork(six_class, size=4),
    "n-model": KnownNetwork(n_model, size=120),
    "reentrant": KnownNetwork(reentrant, size=30),
    "tandem": KnownNetwork(tandem, size=30, may_idle=(0,), always_idling=True),
}
Built = TypeVar("Built")


def derived_builder(
    describe: Callable[..., Network], make: Callable[..., Built], note: str, **added: Any
) -> Callable[..., Built]:
    """A function with the parameters of `describe` and the `added` ones, by their defaults.

    It calls make(network, values of all parameters). Help texts are made from its signature and its
    docstring, which ends with `note`.
    """
    own = inspect.signature(describe, eval_str=True).parameters
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    more = [
        inspect.Parameter(name, kind, default=default, annotation=type(default))
        for name, default in added.items()
    ]
    signature = inspect.Signature([*own.values(), *more])

    def build(*args: Any, **keywords: Any) -> Built:
        bound = signature.bind(*args, **keywords)
        bound.apply_defaults()
        network = describe(**{key: bound.arguments[key] for key in own})
        return make(network, bound.arguments)

    build.__name__ = build.__qualname__ = describe.__name__
    build.__doc__ = f"{inspect.getdoc(describe)}\n\n{note}"
    build.__annotations__ = {key: each.annotation for key, each in signature.parameters.items()}
    build.__signature__ = signature  # type: ignore[attr-defined]
    return build


def _model(entry: KnownNetwork) -> Callable[..., MDP]:

    def make(network: Network, arguments: dict[str, Any]) -> MDP:
        from longrun.exact.queueing.exact_model import exact_model  # needs SciPy

        warn_of_overload(network)
        return exact_model(network, arguments["size"], entry.may_idle, masked=not entry.may_idle)

    idling = " and ".join(f"server {station + 1}" for station in entry.may_idle)
    rule = f"{idling} may idle, the others always work" if idling else "they work if they can"
    note = (
        "State: the customers of each class, up to `size`; a move that would exceed it does not"
        f" happen. Action: the class that each server with a choice serves; {rule}."
    )
    return derived_builder(entry.describe, make, note, size=entry.size)


MODELS = {name: _model(entry) for name, entry in KNOWN_NETWORKS.items()}
"""Builders of exact models: every parameter has a default; the docstring's first line says what."""
