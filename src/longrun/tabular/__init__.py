"""Exact average-reward decision processes: the theory of trust regions, and scalable solvers."""

from longrun.errors import InfeasibleLimits
from longrun.tabular.bounds import ImprovementBounds, improvement_bounds
from longrun.tabular.evaluation import Evaluation, evaluate
from longrun.tabular.gymnasium_tables import from_gymnasium, to_gymnasium, transition_table
from longrun.tabular.mdp import MDP
from longrun.tabular.models import MODELS
from longrun.tabular.precision import PrecisionWarning
from longrun.tabular.solvers import LimitedSolution, NoConvergence, Solution, solve
from longrun.tabular.structure import chain_structure, reachable, structure
from longrun.tabular.truncation import grow_box
from longrun.tabular.trust_region import trust_region_policy_iteration

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
