"""The known networks as environments, by their names in env strings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from longrun.exact.queueing.derived_builders import derived_builder
from longrun.exact.queueing.known_networks import KNOWN_NETWORKS
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

    full = "A `buffer` above 0 is the most customers of each class; a full queue takes no more."
    added: dict[str, tuple[type, Any]] = {"buffer": (int, 0)}
    if entry.always_idling:
        note = f"All servers may idle. {full}"
    else:
        note = f"With `idling` servers may idle. {full}"
        added = {"idling": (bool, False)} | added
    build = derived_builder(entry.describe, make, note, **added)
    build.__module__ = __name__  # where pickle finds it
    return build


criss_cross = _environment("criss-cross")
six_class = _environment("six-class")
n_model = _environment("n-model")
reentrant = _environment("reentrant")
tandem = _environment("tandem")

ENVIRONMENTS: dict[str, Callable[..., QueueingEnv]] = {
    "criss-cross": criss_cross,
    "six-class": six_class,
    "n-model": n_model,
    "reentrant": reentrant,
    "tandem": tandem,
}
