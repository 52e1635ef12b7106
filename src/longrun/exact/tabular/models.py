"""Small models from the literature, with parameters."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import sparse

from longrun.base.checks import (
    known,
    require_at_least,
    require_finite,
    require_non_negative,
    require_positive,
    require_probability,
)
from longrun.base.errors import InputError
from longrun.exact.tabular.laws import (
    binomial_laws,
    distinct_numbers,
    stock_after_poisson_demand,
)
from longrun.exact.tabular.mdp import MDP, Successors
from longrun.exact.tabular.room import require_dense_room, require_room

DENSE_STATES = 200
"""Largest number of states for which a garnet is stored densely, which is faster there."""


def garnet(
    states: int = 20, actions: int = 3, branching: int = 3, seed: int = 0, rewards: str = "normal"
) -> MDP:
    """Garnet: a random MDP with a given number of successors.

    Each state and action has `branching` different successors, all sets being equally likely; their
    probabilities are the lengths of the parts into which branching - 1 uniform points cut [0, 1].
    The reward of a state and action is standard normal, or uniform on [0, 1] with
    rewards="uniform". Archibald, McKinnon and Thomas (1995); Bhatnagar, Sutton, Ghavamzadeh and
    Lee (2009). What can be limited: cost, uniform on [0, 1] for each state and action.
    """
    require_at_least(1, states=states, actions=actions, branching=branching)
    require_at_least(0, seed=seed)
    if branching > states:
        raise InputError(f"branching={branching} exceeds states={states}; give {states} or less")
    known("rewards", rewards, ("normal", "uniform"))
    dense = states <= DENSE_STATES
    if dense:
        require_dense_room(f"states={states}", states, actions)
    else:
        require_room(f"states={states}", states, actions * states * branching)
    random = np.random.default_rng(seed)
    pairs = actions * states
    successors = distinct_numbers(random, pairs, branching, states)
    cuts = np.sort(random.random((pairs, branching - 1)), axis=1)
    probabilities = np.diff(cuts, axis=1, prepend=0.0, append=1.0)
    draw = random.standard_normal if rewards == "normal" else random.random
    shape, starts = (actions, states * branching), np.arange(states + 1) * branching
    matrices = [
        sparse.csr_array((p, j, starts), (states, states))
        for p, j in zip(probabilities.reshape(shape), successors.reshape(shape), strict=True)
    ]
    return MDP(
        np.stack([matrix.toarray() for matrix in matrices], axis=1) if dense else matrices,
        draw((states, actions)),
        costs={"cost": random.random((states, actions))},
        name=f"garnet, {branching} successors, seed {seed}",
    )


def riverswim(length: int = 6) -> MDP:
    """RiverSwim: a small reward downstream, a large one upstream against the current.

    States 0 to length - 1, actions left and right. Left always moves one state down; at state 0 it
    stays and earns 0.005. Right moves up, stays or moves down with probabilities 0.35, 0.6, 0.05;
    at state 0 it moves up with 0.6 and stays with 0.4; at the last state it stays with 0.6 and
    moves down with 0.4, and earns 1. Strehl and Littman (2008), rewards as in Osband et al. (2013).
    What can be limited: effort, the share of steps to the right.
    """
    require_at_least(2, length=length)
    require_room(f"length={length}", length, 4 * length)
    last = length - 1

    def successors(state: int, action: str) -> Successors:
        if action == "left":
            return [(1.0, max(state - 1, 0), 0.005 if state == 0 else 0.0)]
        if state == 0:
            return [(0.4, 0, 0.0), (0.6, 1, 0.0)]
        if state == last:
            return [(0.4, last - 1, 1.0), (0.6, last, 1.0)]
        return [(0.05, state - 1, 0.0), (0.6, state, 0.0), (0.35, state + 1, 0.0)]

    return MDP.from_function(
        successors,
        length,
        ("left", "right"),
        initial=np.eye(1, length)[0],
        costs={"effort": np.tile([0.0, 1.0], (length, 1))},
        name=f"RiverSwim, {length} states",
    )


def access_control(
    servers: int = 10,
    free_probability: float = 0.06,
    priorities: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0),
) -> MDP:
    """Access control: who may have a server, when some customers pay more.

    State: (free servers, priority of the customer at the head of the queue). Accepting, possible
    with a free server, earns the priority and takes a server; rejecting earns nothing. Then every
    busy server, one just taken included, becomes free with free_probability, and the next customer
    has each priority with the same probability. Sutton and Barto (2018), example 10.2.
    What can be limited: rejected, customers per step; rejected_1, rejected_2, ..., those of each
    priority, in their order; busy, the mean number of servers taken in a step.
    """
    require_at_least(1, servers=servers)
    require_probability(free_probability=free_probability)
    require_finite(**{f"priorities[{i}]": priority for i, priority in enumerate(priorities)})
    if not priorities:
        raise InputError("priorities=() is empty; give at least one reward")
    kinds = len(priorities)
    require_room(f"servers={servers}", (servers + 1) * kinds, (servers * kinds) ** 2)
    freed = binomial_laws(servers, free_probability)

    def successors(state: tuple[int, int], action: str) -> Successors | None:
        free, kind = state
        if action == "accept" and free == 0:
            return None
        idle = free - (action == "accept")
        reward = priorities[kind] if action == "accept" else 0.0
        return [
            (freed[servers - idle, k] / kinds, (idle + k, head), reward)
            for k in range(servers - idle + 1)
            for head in range(kinds)
        ]

    states = list(np.ndindex(servers + 1, kinds))
    free, kind = np.array(states).T
    rejects, accepts = np.eye(2)
    rejected = {f"rejected_{k + 1}": (kind == k)[:, None] * rejects for k in range(kinds)}
    busy = (servers - free)[:, None] + accepts
    return MDP.from_function(
        successors,
        states,
        ("reject", "accept"),
        initial=(free == servers) / kinds,
        costs={"rejected": np.tile(rejects, (len(free), 1)), **rejected, "busy": busy},
        name=f"access control, {servers} servers",
        shape=(servers + 1, kinds),
        sides=("free servers", "priority"),
    )


def machine_replacement(
    levels: int = 10,
    wear_probability: float = 0.3,
    failure_probability: float = 0.02,
    operating_cost: float = 1.0,
    replacement_cost: float = 10.0,
    failure_cost: float = 10.0,
) -> MDP:
    """Machine replacement: a machine that wears, costs more with wear, and fails.

    States: wear 0 to `levels`, where `levels` is failed. A period with a machine of wear w costs
    operating_cost * w; in it the machine fails with failure_probability, otherwise wears by one
    level with wear_probability (at levels - 1 that is failure too). Replacing costs
    replacement_cost, and the period is that of a new machine. A failed machine has to be replaced,
    at failure_cost more. After Derman (1963). What can be limited: failed and replaced, machines
    per period.
    """
    require_at_least(1, levels=levels)
    require_probability(wear_probability=wear_probability, failure_probability=failure_probability)
    require_room(f"levels={levels}", levels + 1, 6 * levels)
    require_finite(
        operating_cost=operating_cost, replacement_cost=replacement_cost, failure_cost=failure_cost
    )

    def successors(wear: int, action: str) -> Successors | None:
        failed = wear == levels
        if failed and action == "keep":
            return None
        cost = operating_cost * wear
        if action == "replace":
            cost = replacement_cost + failure_cost * failed
            wear = 0
        holds = 1 - failure_probability
        return [
            (failure_probability, levels, -cost),
            (holds * wear_probability, wear + 1, -cost),
            (holds * (1 - wear_probability), wear, -cost),
        ]

    return MDP.from_function(
        successors,
        levels + 1,
        ("keep", "replace"),
        initial=np.eye(1, levels + 1)[0],
        costs={
            "failed": np.eye(1, levels + 1, levels)[0],
            "replaced": np.tile([0.0, 1.0], (levels + 1, 1)),
        },
        name=f"machine replacement, {levels} levels",
        cost=True,
    )


def inventory(
    capacity: int = 20,
    mean_demand: float = 5.0,
    fixed_cost: float = 10.0,
    unit_cost: float = 2.0,
    holding_cost: float = 1.0,
    lost_sale_cost: float = 10.0,
) -> MDP:
    """Inventory: how much to order each period, when unmet demand is lost.

    State: the stock at a period's start, 0 to capacity. Action: the order, delivered at once, which
    may not take the stock y above capacity. Then Poisson demand D is met as far as stock allows,
    and max(y - D, 0) is left. Cost: fixed_cost for any order, unit_cost per unit ordered,
    holding_cost per unit left, lost_sale_cost per unit of demand not met; expectations are exact,
    including the tail of the demand. (s, S) policies are the classic solution (Scarf, 1960).
    What can be limited: orders per period; ordered, left and lost, units per period.
    """
    require_at_least(1, capacity=capacity)
    require_positive(mean_demand=mean_demand)
    require_non_negative(fixed_cost=fixed_cost, unit_cost=unit_cost)
    require_non_negative(holding_cost=holding_cost, lost_sale_cost=lost_sale_cost)
    require_dense_room(f"capacity={capacity}", capacity + 1, capacity + 1)
    laws, lost = stock_after_poisson_demand(capacity, mean_demand)
    stock = np.arange(capacity + 1)
    period = holding_cost * (stock - mean_demand + lost) + lost_sale_cost * lost
    order = fixed_cost * (stock > 0) + unit_cost * stock
    level = stock[:, None] + stock  # [S, A], after delivery
    available = level <= capacity
    level = np.minimum(level, capacity)
    return MDP(
        laws[level] * available[:, :, None],
        -(order + period[level]),
        available=available,
        initial=np.eye(1, capacity + 1)[0],
        costs={
            "orders": np.tile(stock > 0, (capacity + 1, 1)),
            "ordered": np.tile(stock, (capacity + 1, 1)),
            "left": (stock - mean_demand + lost)[level],
            "lost": lost[level],
        },
        name=f"inventory, capacity {capacity}",
        sides=("stock",),
        actions=[f"order {units}" for units in stock],
        cost=True,
    )


def admission(
    arrival_rate: float = 0.8,
    service_rate: float = 1.0,
    reward: float = 5.0,
    holding_cost: float = 1.0,
    size: int = 20,
) -> MDP:
    """Admission: which customers an M/M/1 queue takes in.

    State: customers in the system, 0 to `size`. They arrive at arrival_rate and are served at
    service_rate; under accept an arrival joins and pays `reward`, under reject it is turned away.
    Accept is not available at `size`. Each customer costs holding_cost per unit of time.
    Uniformised at arrival_rate + service_rate, with rewards as rates: the gain is per unit of time.
    A threshold is optimal (Naor, 1969). What can be limited: customers, the mean number; rejected,
    arrivals turned away per unit of time.
    """
    require_positive(arrival_rate=arrival_rate, service_rate=service_rate)
    require_finite(reward=reward, holding_cost=holding_cost)
    require_at_least(1, size=size)
    require_room(f"size={size}", size + 1, 4 * size)
    arrival = arrival_rate / (arrival_rate + service_rate)
    service = 1 - arrival

    def successors(customers: int, action: str) -> Successors | None:
        accept = action == "accept"
        if accept and customers == size:
            return None
        rate = accept * arrival_rate * reward - holding_cost * customers
        return [(arrival, customers + accept, rate), (service, max(customers - 1, 0), rate)]

    rejected = np.tile([arrival_rate, 0.0], (size + 1, 1))
    return MDP.from_function(
        successors,
        size + 1,
        ("reject", "accept"),
        initial=np.eye(1, size + 1)[0],
        costs={"customers": np.arange(size + 1), "rejected": rejected},
        name=f"admission to an M/M/1 queue, up to {size}",
    )


def maintenance(
    levels: int = 5,
    wear_probability: float = 0.05,
    failure_probability: float = 0.004,
    service_time: float = 40.0,
    repair_time: float = 3000.0,
) -> MDP:
    """Maintenance: when to service a machine whose breakdowns take long to repair.

    State: wear 0 to `levels`, where `levels` is worn out; in service; broken. A step of running
    earns 1. In it the machine wears by one level with wear_probability; once worn out it breaks
    with failure_probability instead. Service begins at once. It ends in each step with probability
    1 / service_time, and a repair with 1 / repair_time; after either the machine is as new. During
    both nothing is earned and there is no decision.

    A service costs about service_time steps of running, a breakdown about repair_time. A discount
    limits both to 1 / (1 - discount), so that one of 0.99 hardly distinguishes the two and never
    services the machine. What can be limited: broken, the share of time; serviced, services begun
    per step.
    """
    require_at_least(1, levels=levels)
    require_room(f"levels={levels}", levels + 3, 3 * levels)
    require_probability(wear_probability=wear_probability, failure_probability=failure_probability)
    for name, value in (("service_time", service_time), ("repair_time", repair_time)):
        if not 1 <= value < np.inf:
            raise InputError(f"{name}={value} is less than a step or infinite; give 1 or more")
    away = {"in service": 1 / service_time, "broken": 1 / repair_time}

    def successors(state: int | str, action: str) -> Successors | None:
        if isinstance(state, str):
            back = [(away[state], 0, 0.0), (1 - away[state], state, 0.0)]
            return back if action == "run" else None
        if action == "service":
            return [(1.0, "in service", 0.0)]
        worn = state == levels
        change = failure_probability if worn else wear_probability
        return [(change, "broken" if worn else state + 1, 1.0), (1 - change, state, 1.0)]

    broken, serviced = np.zeros((2, levels + 3, 2))
    broken[-1] = 1
    serviced[: levels + 1, 1] = 1
    return MDP.from_function(
        successors,
        [*range(levels + 1), *away],
        ("run", "service"),
        initial=np.eye(1, levels + 3)[0],
        costs={"broken": broken, "serviced": serviced},
        name=f"maintenance, {levels} levels of wear",
        sides=("wear",),
    )


MODELS: dict[str, Callable[..., MDP]] = {
    "access-control": access_control,
    "admission": admission,
    "garnet": garnet,
    "inventory": inventory,
    "machine-replacement": machine_replacement,
    "maintenance": maintenance,
    "riverswim": riverswim,
}
"""Builders: every parameter has a default; the docstring's first line describes the model."""
