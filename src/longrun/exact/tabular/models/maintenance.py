"""A machine whose breakdowns last longer than the horizon of a discount factor."""

from __future__ import annotations

import numpy as np

from longrun.base.checks import require_at_least, require_probability
from longrun.base.errors import InputError
from longrun.exact.tabular.mdp import MDP, Successors
from longrun.exact.tabular.room import require_room


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
