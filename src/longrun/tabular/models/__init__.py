"""Models with known structure, by the names that the command line uses.

Those of queueing networks are in `longrun.queueing.known_models`.
"""

from __future__ import annotations

from collections.abc import Callable

from longrun.tabular.mdp import MDP
from longrun.tabular.models.classic import (
    access_control,
    admission,
    garnet,
    inventory,
    machine_replacement,
    riverswim,
)
from longrun.tabular.models.maintenance import maintenance

MODELS: dict[str, Callable[..., MDP]] = {
    "access-control": access_control,
    "admission": admission,
    "garnet": garnet,
    "inventory": inventory,
    "machine-replacement": machine_replacement,
    "maintenance": maintenance,
    "riverswim": riverswim,
}
"""Builders: every parameter has a default; the first line of the docstring says what it is."""
