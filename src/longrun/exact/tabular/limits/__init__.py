"""The best gain among the policies that keep limits on their costs, between certified bounds."""

from longrun.exact.tabular.limits.problem import LimitedProblem, limited_problem
from longrun.exact.tabular.limits.solution import LimitedSolution
from longrun.exact.tabular.limits.solver import solve_limited

__all__ = ["LimitedProblem", "LimitedSolution", "limited_problem", "solve_limited"]
