"""Exact average-reward decision processes: theory, scalable solvers, and tabular learning.

`learn`, `predict` and what belongs to them need JAX, and are imported when first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from longrun.exact import tabular as _tabular
from longrun.exact.tabular import *  # noqa: F403

if TYPE_CHECKING:
    from longrun.exact.tabular.learning import (
        LEARNING_METHODS,
        LearningCurves,
        Prediction,
        learn,
        predict,
    )

__all__ = ["LEARNING_METHODS", "LearningCurves", "Prediction", "learn", "predict"]
__all__ += _tabular.__all__


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'longrun.tabular' has no attribute '{name}'")
    return getattr(import_module("longrun.exact.tabular.learning"), name)
