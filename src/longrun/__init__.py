"""Reinforcement learning under the long-run average reward.

Everything that the documentation uses is here; names are imported when first used, so that
`import longrun` costs nothing and worker processes never import JAX.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from longrun.algorithms import APO, ATRPO, PPO, TRPO
    from longrun.config import APOConfig, ATRPOConfig, PPOConfig, TRPOConfig
    from longrun.config_options import make_config
    from longrun.envs.native.protocol import Environment, Step
    from longrun.envs.native.to_gymnasium import as_gymnasium
    from longrun.envs.spaces import Spaces
    from longrun.errors import (
        EnvironmentFailure,
        FolderError,
        InputError,
        LongrunError,
        NoConvergence,
        NonFiniteError,
        WorkerError,
    )
    from longrun.policy import Policy, load_policy
    from longrun.queueing import Network, QueueingEnv
    from longrun.results import compare, read_metrics, read_results
    from longrun.sweeps.from_python import sweep
    from longrun.train.evaluation import EvaluationReport
    from longrun.train.progress import Progress

__version__ = "0.2.0"

_HOMES = {
    "longrun.algorithms": ("APO", "ATRPO", "PPO", "TRPO"),
    "longrun.config": ("APOConfig", "ATRPOConfig", "PPOConfig", "TRPOConfig"),
    "longrun.config_options": ("make_config",),
    "longrun.envs.native.protocol": ("Environment", "Step"),
    "longrun.envs.native.to_gymnasium": ("as_gymnasium",),
    "longrun.envs.spaces": ("Spaces",),
    "longrun.errors": (
        "EnvironmentFailure",
        "FolderError",
        "InputError",
        "LongrunError",
        "NoConvergence",
        "NonFiniteError",
        "WorkerError",
    ),
    "longrun.policy": ("Policy", "load_policy"),
    "longrun.queueing": ("Network", "QueueingEnv"),
    "longrun.results": ("compare", "read_metrics", "read_results"),
    "longrun.sweeps.from_python": ("sweep",),
    "longrun.train.evaluation": ("EvaluationReport",),
    "longrun.train.progress": ("Progress",),
}
"""Where each public name is defined."""
_MODULES = ("callbacks", "queueing", "tabular")
"""Packages that are public as a whole."""

_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "APO",
    "ATRPO",
    "PPO",
    "TRPO",
    "APOConfig",
    "ATRPOConfig",
    "Environment",
    "EnvironmentFailure",
    "EvaluationReport",
    "FolderError",
    "InputError",
    "LongrunError",
    "Network",
    "NoConvergence",
    "NonFiniteError",
    "PPOConfig",
    "Policy",
    "Progress",
    "QueueingEnv",
    "Spaces",
    "Step",
    "TRPOConfig",
    "WorkerError",
    "as_gymnasium",
    "compare",
    "load_policy",
    "make_config",
    "read_metrics",
    "read_results",
    "sweep",
]


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(import_module(_HOME_OF[name]), name)
    if name in _MODULES:
        return import_module(f"longrun.{name}")
    raise AttributeError(f"module 'longrun' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES, "__version__"])
