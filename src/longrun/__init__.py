"""Reinforcement learning under the long-run average reward.

Everything that the documentation uses is here; names are imported when first used, so that
`import longrun` costs nothing and worker processes never import JAX.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from longrun.base.errors import EnvironmentFailure as EnvironmentFailure
    from longrun.base.errors import FolderError as FolderError
    from longrun.base.errors import InputError as InputError
    from longrun.base.errors import LongrunError as LongrunError
    from longrun.base.errors import NoConvergence as NoConvergence
    from longrun.base.errors import NonFiniteError as NonFiniteError
    from longrun.base.errors import WorkerError as WorkerError
    from longrun.exact.queueing.network import Network as Network
    from longrun.lab.results import compare as compare
    from longrun.lab.results import read_metrics as read_metrics
    from longrun.lab.results import read_results as read_results
    from longrun.lab.sweeps.from_python import sweep as sweep
    from longrun.learning.algorithms import APO as APO
    from longrun.learning.algorithms import ATRPO as ATRPO
    from longrun.learning.algorithms import PPO as PPO
    from longrun.learning.algorithms import TRPO as TRPO
    from longrun.learning.envs.native.protocol import Environment as Environment
    from longrun.learning.envs.native.protocol import Step as Step
    from longrun.learning.envs.native.to_gymnasium import as_gymnasium as as_gymnasium
    from longrun.learning.envs.queueing.environment import QueueingEnv as QueueingEnv
    from longrun.learning.envs.spaces import Spaces as Spaces
    from longrun.learning.options.config import APOConfig as APOConfig
    from longrun.learning.options.config import ATRPOConfig as ATRPOConfig
    from longrun.learning.options.config import PPOConfig as PPOConfig
    from longrun.learning.options.config import TRPOConfig as TRPOConfig
    from longrun.learning.options.config_options import make_config as make_config
    from longrun.learning.policy.policy import Policy as Policy
    from longrun.learning.policy.policy import load_policy as load_policy
    from longrun.learning.runs.evaluation_report import EvaluationReport as EvaluationReport
    from longrun.learning.train.progress import Progress as Progress

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

__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(import_module(_HOME_OF[name]), name)
    if name in _MODULES:
        return import_module(f"longrun.{name}")
    raise AttributeError(f"module 'longrun' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*_HOME_OF, *_MODULES, "__version__"])
