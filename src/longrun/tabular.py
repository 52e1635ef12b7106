"""Exact average-reward decision processes: theory, scalable solvers, and tabular learning.

`learn`, `predict` and what belongs to them need JAX, and are imported when first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from longrun.base.errors import InfeasibleLimits
from longrun.exact.tabular import bounds
from longrun.exact.tabular.bounds import ImprovementBounds, improvement_bounds
from longrun.exact.tabular.evaluation import Evaluation, evaluate
from longrun.exact.tabular.gymnasium_tables import from_gymnasium, to_gymnasium, transition_table
from longrun.exact.tabular.mdp import MDP
from longrun.exact.tabular.models import MODELS
from longrun.exact.tabular.precision import PrecisionWarning
from longrun.exact.tabular.solvers import NoConvergence, Solution, grow_box, solve
from longrun.exact.tabular.structure import chain_structure, reachable, structure
from longrun.exact.tabular.trust_region import trust_region_policy_iteration

if TYPE_CHECKING:
    from longrun.exact.tabular.learning import (
        LEARNING_METHODS,
        LearningCurves,
        Prediction,
        learn,
        predict,
    )

__all__ = [
    "LEARNING_METHODS",
    "MDP",
    "MODELS",
    "Evaluation",
    "ImprovementBounds",
    "InfeasibleLimits",
    "LearningCurves",
    "NoConvergence",
    "PrecisionWarning",
    "Prediction",
    "Solution",
    "bounds",
    "chain_structure",
    "evaluate",
    "from_gymnasium",
    "grow_box",
    "improvement_bounds",
    "learn",
    "predict",
    "reachable",
    "solve",
    "structure",
    "to_gymnasium",
    "transition_table",
    "trust_region_policy_iteration",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'longrun.tabular' has no attribute '{name}'")
    return getattr(import_module("longrun.exact.tabular.learning"), name)
