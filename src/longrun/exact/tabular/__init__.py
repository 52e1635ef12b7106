"""Exact average-reward decision processes: the theory of trust regions, and scalable solvers."""

from longrun.base.errors import InfeasibleLimits
from longrun.exact.tabular import bounds
from longrun.exact.tabular.bounds import ImprovementBounds, improvement_bounds
from longrun.exact.tabular.evaluation import Evaluation, evaluate
from longrun.exact.tabular.gymnasium_tables import from_gymnasium, to_gymnasium, transition_table
from longrun.exact.tabular.mdp import MDP
from longrun.exact.tabular.models import MODELS
from longrun.exact.tabular.precision import PrecisionWarning
from longrun.exact.tabular.solvers import LimitedSolution, NoConvergence, Solution, solve
from longrun.exact.tabular.structure import chain_structure, reachable, structure
from longrun.exact.tabular.truncation import grow_box
from longrun.exact.tabular.trust_region import trust_region_policy_iteration

__all__ = [
    "MDP",
    "MODELS",
    "Evaluation",
    "ImprovementBounds",
    "InfeasibleLimits",
    "LimitedSolution",
    "NoConvergence",
    "PrecisionWarning",
    "Solution",
    "bounds",
    "chain_structure",
    "evaluate",
    "from_gymnasium",
    "grow_box",
    "improvement_bounds",
    "reachable",
    "solve",
    "structure",
    "to_gymnasium",
    "transition_table",
    "trust_region_policy_iteration",
]
