"""Networks from the literature, by the names that env strings use."""

from __future__ import annotations

from longrun.config import known
from longrun.envs.native.naming import env_string
from longrun.errors import InputError
from longrun.queueing.environment import QueueingEnv
from longrun.queueing.network import Activity, Network
from longrun.tabular.models.uniformised import REGIMES

SIX_CLASS_TIMES = ((8.0, 2.0, 4.0), (6.0, 7.0, 1.0))
"""Mean service times of the three classes at odd and at even stations."""


def criss_cross(regime: str = "BM", idling: bool = False) -> QueueingEnv:
    """Criss-cross network: one server feeds another or serves customers who leave.

    Classes 1 and 3 arrive; server 1 serves both at rate 2; class 1 goes on to server 2 as class 2,
    class 3 leaves. Cost: all customers. The regimes are those of `longrun.tabular`'s criss-cross.
    """
    name = env_string("criss-cross", criss_cross, **locals())  # nothing but the arguments yet
    arrivals, second = REGIMES[known("regime", regime, REGIMES)]
    network = Network(
        f"criss-cross {regime}",
        arrivals=(arrivals, 0.0, arrivals),
        stations=((Activity(0, 2.0), Activity(2, 2.0)), (Activity(1, second),)),
        routing=(((1, 1.0),), (), ()),
        holding_costs=(1.0, 1.0, 1.0),
    )
    return QueueingEnv(network, idling, name)


def six_class(stations: int = 2, idling: bool = False) -> QueueingEnv:
    """Extended six-class network: two routes through stations of three classes each.

    Classes 3l - 2, 3l - 1 and 3l are at station l. Classes 1 and 3 arrive at rate 9/140 each; class
    k goes on to class k + 3 at the next station; at the last one the first class goes back to class
    2, the others leave. Every load is 0.9. Cost: all customers. Bertsimas, Gamarnik and Rikun
    (2015); Dai and Gluzman (2022) have 2 to 7 stations.
    """
    name = env_string("six-class", six_class, **locals())  # nothing but the arguments yet
    if stations not in range(2, 8):
        raise InputError(f"stations={stations} is out of range; choose 2 to 7")
    classes = 3 * stations
    last = [((1, 1.0),), (), ()]
    network = Network(
        f"six-class, {stations} stations",
        arrivals=(9 / 140, 0.0, 9 / 140, *[0.0] * (classes - 3)),
        stations=tuple(
            tuple(Activity(3 * s + i, 1 / time) for i, time in enumerate(SIX_CLASS_TIMES[s % 2]))
            for s in range(stations)
        ),
        routing=(*(((k + 3, 1.0),) for k in range(classes - 3)), *last),
        holding_costs=(1.0,) * classes,
    )
    return QueueingEnv(network, idling, name)


def n_model(
    load: float = 0.9,
    arrival_rates: tuple[float, ...] = (1.3, 0.4),
    service_rates: tuple[float, ...] = (1.0, 0.5, 1.0),
    holding_costs: tuple[float, ...] = (3.0, 1.0),
    idling: bool = False,
) -> QueueingEnv:
    """N-model: a server of class 1, and one that helps it or serves class 2.

    Parameters and law are those of `longrun.tabular`'s n-model: class i arrives at rate load *
    arrival_rates[i]; service_rates: server 1 on class 1, server 2 on class 1, server 2 on class 2.
    """
    name = env_string("n-model", n_model, **locals())  # nothing but the arguments yet
    _require_length(2, arrival_rates=arrival_rates, holding_costs=holding_costs)
    _require_length(3, service_rates=service_rates)
    first, helping, second = service_rates
    network = Network(
        f"N-model at load {load:g}",
        arrivals=tuple(load * rate for rate in arrival_rates),
        stations=((Activity(0, first),), (Activity(0, helping), Activity(1, second))),
        routing=((), ()),
        holding_costs=holding_costs,
    )
    return QueueingEnv(network, idling, name)


def reentrant(
    arrival_rate: float = 1.0,
    stations: tuple[int, ...] = (1, 2, 1),
    service_times: tuple[float, ...] = (0.4, 0.9, 0.4),
    holding_costs: tuple[float, ...] = (),
    idling: bool = False,
) -> QueueingEnv:
    """Re-entrant line: one route of several steps that comes back to a station.

    Step i, which is class i, is done at stations[i] (counted from 1) and takes service_times[i] on
    average; holding_costs are 1 where none are given. The default is the simple re-entrant line:
    steps 1 and 3 at station 1, step 2 at station 2; loads 0.8 and 0.9.
    """
    name = env_string("reentrant", reentrant, **locals())  # nothing but the arguments yet
    steps = len(stations)
    _require_length(steps, service_times=service_times)
    costs = holding_costs or (1.0,) * steps
    _require_length(steps, holding_costs=costs)
    if sorted(set(stations)) != list(range(1, max(stations, default=0) + 1)):
        raise InputError(f"stations={stations} must be numbered from 1 without gaps")
    for i, time in enumerate(service_times):
        if not time > 0:
            raise InputError(f"service_times[{i}]={time} is not positive; give a number above 0")
    network = Network(
        f"re-entrant line of {steps} steps",
        arrivals=(arrival_rate, *[0.0] * (steps - 1)),
        stations=tuple(
            tuple(Activity(i, 1 / service_times[i]) for i in range(steps) if stations[i] == station)
            for station in sorted(set(stations))
        ),
        routing=(*(((i + 1, 1.0),) for i in range(steps - 1)), ()),
        holding_costs=costs,
    )
    return QueueingEnv(network, idling, name)


def tandem(
    arrival_rate: float = 0.6,
    service_rates: tuple[float, ...] = (1.2, 1.0),
    holding_costs: tuple[float, ...] = (1.0, 3.0),
) -> QueueingEnv:
    """Tandem queue: stations in series, whose servers may idle.

    Customers come to station 1 at arrival_rate, go on from station to station and leave from the
    last. Where waiting costs more later on, earlier servers are to idle now and then.
    """
    name = env_string("tandem", tandem, **locals())  # nothing but the arguments yet
    stations = len(service_rates)
    _require_length(stations, holding_costs=holding_costs)
    network = Network(
        f"tandem queue of {stations} stations",
        arrivals=(arrival_rate, *[0.0] * (stations - 1)),
        stations=tuple((Activity(s, rate),) for s, rate in enumerate(service_rates)),
        routing=(*(((s + 1, 1.0),) for s in range(stations - 1)), ()),
        holding_costs=holding_costs,
    )
    return QueueingEnv(network, idling=True, name=name)


def _require_length(count: int, **values: tuple[float, ...]) -> None:
    for name, given in values.items():
        if len(given) != count:
            raise InputError(f"{name}={given} has {len(given)} entries; give {count}")
