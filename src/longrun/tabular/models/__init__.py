"""Models with known structure, by the names that the command line uses."""

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
from longrun.tabular.models.uniformised import criss_cross, n_model, tandem

MODELS: dict[str, Callable[..., MDP]] = {
    "access-control": access_control,
    "admission": admission,
    "criss-cross": criss_cross,
    "garnet": garnet,
    "inventory": inventory,
    "machine-replacement": machine_replacement,
    "n-model": n_model,
    "riverswim": riverswim,
    "tandem": tandem,
}
"""Builders: every parameter has a default; the first line of the docstring says what it is."""
