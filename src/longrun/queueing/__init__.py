"""Multiclass queueing networks: described, simulated in JAX, solved exactly, run by known rules."""

from longrun.queueing.environment import QueueingEnv
from longrun.queueing.known_networks import criss_cross, n_model, reentrant, six_class, tandem
from longrun.queueing.network import Activity, Network
from longrun.queueing.policies import (
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
