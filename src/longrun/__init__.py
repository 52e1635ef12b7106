"""Reinforcement learning under the long-run average reward."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from longrun.agent import APO, ATRPO, PPO, TRPO
    from longrun.envs.workers import WorkerError
    from longrun.train.evaluation import EvaluationReport
    from longrun.train.health import NonFiniteError
    from longrun.train.watchers import Progress

__version__ = "0.1.0"
__all__ = [
    "APO",
    "ATRPO",
    "PPO",
    "TRPO",
    "EvaluationReport",
    "NonFiniteError",
    "Progress",
    "WorkerError",
]

_HOMES = {
    "EvaluationReport": "longrun.train.evaluation",
    "NonFiniteError": "longrun.train.health",
    "Progress": "longrun.train.watchers",
    "WorkerError": "longrun.envs.workers",
}


def __getattr__(name: str) -> Any:
    """Public names are imported when first used: worker processes must never import JAX."""
    if name in __all__:
        return getattr(import_module(_HOMES.get(name, "longrun.agent")), name)
    raise AttributeError(f"module 'longrun' has no attribute '{name}'")
