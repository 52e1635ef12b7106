"""How much a box of queue lengths cuts off: solve growing boxes and watch the gain settle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from longrun.errors import InputError
from longrun.tabular.mdp import MDP
from longrun.tabular.solvers import Solution, solve


@dataclass(frozen=True)
class Truncation:
    """Solutions of growing boxes, and what their differences say of the box without end."""

    sizes: list[int]
    solutions: list[Solution]

    @property
    def gain(self) -> float:
        """Of the largest box."""
        return self.solutions[-1].gain

    @property
    def error(self) -> float:
        """Estimate of what is still missing (not a bound), brackets included.

        Gains approach their limit geometrically when tails are geometric: what a box of n misses
        is like q^n. The last two changes tell q, and the last one then how much is left; ten times
        the last change at most, which is said too where they do not shrink.
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
    """q^second, where changes over so many sizes have the ratio (1 - q^second) / (q^-first - 1).

    With equal steps that is the ratio itself.
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
    """Solve `build(size)` for each of the growing sizes; `options` go to `solve`."""
    if len(sizes) < 2 or list(sizes) != sorted(set(sizes)):
        raise InputError(f"sizes={list(sizes)} need at least two, growing")
    solutions = []
    for size in sizes:
        solutions.append(solve(build(size), **options))
        on_solved(size, solutions[-1])
    return Truncation(list(sizes), solutions)
