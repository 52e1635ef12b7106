"""The known networks as exact tabular models, by their names on the command line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from longrun.exact.queueing.derived_builders import derived_builder
from longrun.exact.queueing.exact_model import exact_model
from longrun.exact.queueing.known_networks import KNOWN_NETWORKS, KnownNetwork
from longrun.exact.queueing.network import Network, warn_of_overload
from longrun.exact.tabular.mdp import MDP


def _model(entry: KnownNetwork) -> Callable[..., MDP]:
    """The builder of a network's model in a box of `size` customers of each class."""

    def make(network: Network, arguments: dict[str, Any]) -> MDP:
        warn_of_overload(network)
        return exact_model(network, arguments["size"], entry.may_idle, masked=not entry.may_idle)

    return derived_builder(entry.describe, make, _note(entry), size=(int, entry.size))


def _note(entry: KnownNetwork) -> str:
    idling = " and ".join(f"server {station + 1}" for station in entry.may_idle)
    rule = f"{idling} may idle, the others always work" if idling else "they work if they can"
    return (
        "State: the customers of each class, up to `size`; a move that would exceed it does not"
        f" happen. Action: the class that each server with a choice serves; {rule}."
    )


MODELS: dict[str, Callable[..., MDP]] = {
    name: _model(entry) for name, entry in KNOWN_NETWORKS.items()
}
"""Builders: every parameter has a default; the docstring's first line describes the model."""
criss_cross = MODELS["criss-cross"]
n_model = MODELS["n-model"]
reentrant = MODELS["reentrant"]
six_class = MODELS["six-class"]
tandem = MODELS["tandem"]
