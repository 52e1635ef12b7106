"""Exact average-reward decision processes: the theory of trust regions, and scalable solvers."""

from longrun.exact.tabular import *  # noqa: F403
from longrun.exact.tabular import __all__ as __all__
