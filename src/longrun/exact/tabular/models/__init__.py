"""Models with known structure, by their names on the command line.

Those of queueing networks are in `longrun.queueing`.
"""

from __future__ import annotations

from collections.abc import Callable

from longrun.exact.tabular.mdp import MDP
from longrun.exact.tabular.models import classic
from longrun.exact.tabular.models.maintenance import maintenance

MODELS: dict[str, Callable[..., MDP]] = {
    "access-control": classic.access_control,
    "admission": classic.admission,
    "garnet": classic.garnet,
    "inventory": classic.inventory,
    "machine-replacement": classic.machine_replacement,
    "maintenance": maintenance,
    "riverswim": classic.riverswim,
}
"""Builders: every parameter has a default; the docstring's first line describes the model."""
