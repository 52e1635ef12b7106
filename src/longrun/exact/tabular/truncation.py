"""The error of truncating queue lengths to a box: solve growing boxes and compare their gains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from longrun.base.errors import InputError
from longrun.exact.tabular.mdp import MDP
from longrun.exact.tabular.solvers import Solution, solve


@dataclass(frozen=True)
class Truncation:
    """Solutions of growing boxes, and an estimate of the distance from the infinite box."""

    sizes: list[int]
    solutions: list[Solution]

    @property
    def gain(self) -> float:
        """Gain of the largest box."""
        return self.solutions[-1].gain

    @property
    def error(self) -> float:
        """Estimate (not a bound) of the distance from the limit, brackets included.

        Gains approach their limit geometrically when tails are geometric: the error of a box of
        size n is proportional to q^n. The last two changes determine q, and the last one then the
        remainder, which is limited to ten times the last change, also where changes do not shrink.
        """
        gains = [solution.gain for solution in self.solutions]
        slack = self.solutions[-1].gain_high - self.solutions[-1].gain_low
        last = abs(gains[-1] - gains[-2])
        if len(gains) < 3 or last == 0:
            return last + slack
        before = abs(gains[-2] - gains[-3])
        steps = self.sizes[-2] - self.sizes[-3], self.sizes[-1] - self.sizes[-2]
        shrink = _shrinkage(last / before if before else np.inf, *steps)
        remainder = last * shrink / (1 - shrink) if shrink < 10 / 11 else 10 * last
        return max(remainder, 0.01 * last) + slack


def _shrinkage(ratio: float, first: int, second: int) -> float:
    """q^second, where changes over these sizes have the ratio (1 - q^second) / (q^-first - 1).

    With equal steps this is the ratio itself.
    """
    if ratio >= second / first:  # q = 1: they do not shrink
        return 1.0
    power = second / first
    low, high = 0.0, 1.0  # of x = q^first
    for _ in range(60):
        x = (low + high) / 2
        low, high = (x, high) if x * (1 - x**power) < ratio * (1 - x) else (low, x)
    return float(low**power)


def grow_box(
    build: Callable[[int], MDP],
    sizes: Sequence[int],
    on_solved: Callable[[int, Solution], None] = lambda size, solution: None,
    **options: Any,
) -> Truncation:
    """Solve `build(size)` for each of the growing sizes; `options` are passed to `solve`."""
    if len(sizes) < 2 or list(sizes) != sorted(set(sizes)):
        raise InputError(f"sizes={list(sizes)} need at least two, growing")
    solutions = []
    for size in sizes:
        solutions.append(solve(build(size), **options))
        on_solved(size, solutions[-1])
    return Truncation(list(sizes), solutions)
