"""How much a box of queue lengths cuts off: solve growing boxes and watch the gain settle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

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

        Gains approach their limit geometrically when tails are geometric. With the last two
        changes c1 and c2, the rest of the series is c2 q / (1 - q) with q = c2 / c1; where they do
        not shrink (q >= 1/2) the last change itself, or more, is missing.
        """
        gains = [solution.gain for solution in self.solutions]
        slack = self.solutions[-1].gain_high - self.solutions[-1].gain_low
        last = abs(gains[-1] - gains[-2])
        if len(gains) < 3 or last == 0:
            return last + slack
        ratio = last / abs(gains[-2] - gains[-3]) if gains[-2] != gains[-3] else 1.0
        remainder = last * ratio / (1 - ratio) if ratio < 0.9 else 10 * last
        return max(remainder, 0.01 * last) + slack


def grow_box(
    build: Callable[[int], MDP],
    sizes: Sequence[int],
    on_solved: Callable[[int, Solution], None] = lambda size, solution: None,
    **options: Any,
) -> Truncation:
    """Solve `build(size)` for each of the growing sizes; `options` go to `solve`."""
    if len(sizes) < 2 or list(sizes) != sorted(set(sizes)):
        raise ValueError(f"sizes={list(sizes)} need at least two, growing")
    solutions = []
    for size in sizes:
        solutions.append(solve(build(size), **options))
        on_solved(size, solutions[-1])
    return Truncation(list(sizes), solutions)
