"""Models with known structure, by their names on the command line.

Those of queueing networks are in `longrun.queueing`.
"""

from __future__ import annotations

from collections.abc import Callable

from longrun.exact.tabular.mdp import MDP
from longrun.exact.tabular.models.classic import (
    access_control,
    admission,
    garnet,
    inventory,
    machine_replacement,
    riverswim,
)
from longrun.exact.tabular.models.maintenance import maintenance

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
