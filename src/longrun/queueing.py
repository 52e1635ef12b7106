"""Multiclass queueing networks: descriptions, simulation in JAX, exact models, known policies.

What needs JAX, which takes seconds to import, is imported when first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from longrun.exact.queueing.known_networks import MODELS
from longrun.exact.queueing.network import Activity, Network

if TYPE_CHECKING:
    from longrun.learning.envs.queueing.environment import (
        QueueingEnv,
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
    "first_buffer_first",
    "fixed_priority",
    "last_buffer_first",
    "max_weight",
    "n_model",
    "reentrant",
    "six_class",
    "tandem",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'longrun.queueing' has no attribute '{name}'")
    homes = ("environment", "policies")  # both have QueueingEnv, too
    modules = (import_module(f"longrun.learning.envs.queueing.{home}") for home in homes)
    return next(vars(module)[name] for module in modules if name in vars(module))


def __dir__() -> list[str]:
    return sorted(__all__)
