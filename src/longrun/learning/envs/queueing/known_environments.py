"""The known networks as environments, by their names in env strings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from longrun.exact.queueing.known_networks import KNOWN_NETWORKS, derived_builder
from longrun.exact.queueing.network import Network
from longrun.learning.envs.env_strings import env_string
from longrun.learning.envs.queueing.environment import QueueingEnv


def _environment(name: str) -> Callable[..., QueueingEnv]:
    """The builder of a network's environment, which is named by its env string."""
    entry = KNOWN_NETWORKS[name]

    def make(network: Network, arguments: dict[str, Any]) -> QueueingEnv:
        idling = arguments.get("idling", entry.always_idling)
        title = env_string(name, build, **arguments)
        return QueueingEnv(network, idling, title, arguments["buffer"])

    rule = "All servers may idle." if entry.always_idling else "With `idling` servers may idle."
    full = "A `buffer` above 0 is the most customers of each class; a full queue takes no more."
    added: dict[str, Any] = {} if entry.always_idling else {"idling": False}
    build = derived_builder(entry.describe, make, f"{rule} {full}", **added, buffer=0)
    build.__module__ = __name__  # where pickle finds it
    return build


ENVIRONMENTS = {name: _environment(name) for name in KNOWN_NETWORKS}
criss_cross, six_class, n_model, reentrant, tandem = ENVIRONMENTS.values()
