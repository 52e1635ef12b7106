"""Reinforcement learning under the long-run average reward.

Everything that the documentation uses is here; names are imported when first used, so that
`import longrun` costs nothing and worker processes never import JAX.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from longrun.base.errors import (
        EnvironmentFailure,
        FolderError,
        InputError,
        LongrunError,
        NoConvergence,
        NonFiniteError,
        WorkerError,
    )
    from longrun.exact.queueing.network import Network
    from longrun.lab.results import compare, read_metrics, read_results
    from longrun.lab.sweeps.from_python import sweep
    from longrun.learning.algorithms import APO, ATRPO, PPO, TRPO
    from longrun.learning.envs.native.protocol import Environment, Step
    from longrun.learning.envs.native.to_gymnasium import as_gymnasium
    from longrun.learning.envs.queueing.environment import QueueingEnv
    from longrun.learning.envs.spaces import Spaces
    from longrun.learning.options.config import APOConfig, ATRPOConfig, PPOConfig, TRPOConfig
    from longrun.learning.options.config_options import make_config
    from longrun.learning.policy.policy import Policy, load_policy
    from longrun.learning.runs.evaluation_report import EvaluationReport
    from longrun.learning.train.progress import Progress

__version__ = "0.2.0"

_HOMES = {
    "longrun.learning.algorithms": ("APO", "ATRPO", "PPO", "TRPO"),
    "longrun.learning.options.config": ("APOConfig", "ATRPOConfig", "PPOConfig", "TRPOConfig"),
    "longrun.learning.options.config_options": ("make_config",),
    "longrun.learning.envs.native.protocol": ("Environment", "Step"),
    "longrun.learning.envs.native.to_gymnasium": ("as_gymnasium",),
    "longrun.learning.envs.spaces": ("Spaces",),
    "longrun.base.errors": (
        "EnvironmentFailure",
        "FolderError",
        "InputError",
        "LongrunError",
        "NoConvergence",
        "NonFiniteError",
        "WorkerError",
    ),
    "longrun.learning.policy.policy": ("Policy", "load_policy"),
    "longrun.queueing": ("Network", "QueueingEnv"),
    "longrun.lab.results": ("compare", "read_metrics", "read_results"),
    "longrun.lab.sweeps.from_python": ("sweep",),
    "longrun.learning.runs.evaluation_report": ("EvaluationReport",),
    "longrun.learning.train.progress": ("Progress",),
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
