"""Multiclass queueing networks: descriptions, simulation in JAX, exact models, known policies.

Names are imported when first used: exact models need no JAX, which takes seconds to import.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from longrun.exact.queueing.known_exact_models import MODELS
    from longrun.exact.queueing.network import Activity, Network
    from longrun.learning.envs.queueing.environment import QueueingEnv
    from longrun.learning.envs.queueing.known_environments import (
        criss_cross,
        n_model,
        reentrant,
        six_class,
        tandem,
    )
    from longrun.learning.envs.queueing.policies import (
        average_cost,
        average_reward,
        c_mu,
        fcfs,
        first_buffer_first,
        fixed_priority,
        last_buffer_first,
        max_weight,
    )

__all__ = [
    "MODELS",
    "Activity",
    "Network",
    "QueueingEnv",
    "average_cost",
    "average_reward",
    "c_mu",
    "criss_cross",
    "fcfs",
    "first_buffer_first",
    "fixed_priority",
    "last_buffer_first",
    "max_weight",
    "n_model",
    "reentrant",
    "six_class",
    "tandem",
]

_HOMES = {
    "learning.envs.queueing.environment": ("QueueingEnv",),
    "learning.envs.queueing.known_environments": (
        "criss_cross",
        "n_model",
        "reentrant",
        "six_class",
        "tandem",
    ),
    "exact.queueing.known_exact_models": ("MODELS",),
    "exact.queueing.network": ("Activity", "Network"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
"""The module that defines each name; the others are classical policies."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'longrun.queueing' has no attribute '{name}'")
    home = _HOME_OF.get(name, "learning.envs.queueing.policies")
    return getattr(import_module(f"longrun.{home}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
