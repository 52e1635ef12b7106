"""Costs in results: the final rates of each seed, and whether they keep their limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from longrun.lab.results.read import Setting
from longrun.lab.results.statistics import final_evaluations, scores_of

COST = "cost_"
"""How columns of costs begin."""


@dataclass(frozen=True)
class CostRates:
    """One cost of a setting: its long-run average under the final policy of each seed."""

    env: str
    label: str
    cost: str
    limit: float | None
    """None if there is none"""
    rates: tuple[float, ...]
    """the average of each seed"""
    lows: tuple[float, ...]
    """lower ends of their 95 % intervals"""

    @property
    def kept(self) -> tuple[bool, ...]:
        """Whether each seed keeps the limit: the interval of its rate is not all above it."""
        return tuple(self.limit is None or low <= self.limit for low in self.lows)


def feasible_seeds(costs: Sequence[CostRates]) -> int:
    """How many seeds of a setting keep all limits on its costs."""
    return sum(all(seed) for seed in zip(*(each.kept for each in costs), strict=True))


def own_limits(setting: Setting) -> dict[str, float]:
    """The limits that a setting was trained with, by the name of the cost."""
    return {str(name): float(rate) for name, rate in setting.choice.options.get("limits") or ()}


def costs_of(setting: Setting) -> list[str]:
    """The costs that were recorded in evaluations of each of its seeds."""
    names = [name.removeprefix(COST) for name in setting.values if name.startswith(COST)]
    names = [name for name in names if not name.endswith(("_low", "_high"))]
    return [n for n in names if np.isfinite(setting.values[COST + n]).any(axis=0).all()]


def limits_of(settings: Sequence[Setting]) -> list[dict[str, float]]:
    """The limits that each setting is measured by: its own, else its environment's."""
    shared = {env: _shared_limits(env, settings) for env in {s.env for s in settings}}
    return [shared[setting.env] | own_limits(setting) for setting in settings]


def _shared_limits(env: str, settings: Sequence[Setting]) -> dict[str, float]:
    """Limits of an environment on which all settings agree that have one.

    A setting without a limit, such as one that was trained for the reward alone, is measured by it.
    """
    found: dict[str, set[float]] = {}
    for setting in (s for s in settings if s.env == env):
        for name, rate in own_limits(setting).items():
            found.setdefault(name, set()).add(rate)
    return {name: min(rates) for name, rates in found.items() if len(rates) == 1}


def cost_rates(settings: Sequence[Setting], at: int | None = None) -> list[CostRates]:
    """Every recorded cost of every setting; `at`: as in `scores_of`."""
    return [
        _rates(setting, cost, limits.get(cost), at)
        for setting, limits in zip(settings, limits_of(settings), strict=True)
        for cost in costs_of(setting)
    ]


def feasible_shares(
    settings: Sequence[Setting], at: int | None = None
) -> dict[tuple[str, str], float]:
    """The share of each setting's seeds that keep all limits, by (env, label); 1 without limits."""
    rates = [each for each in cost_rates(settings, at) if each.limit is not None]
    shares = {}
    for setting in settings:
        name = setting.env, setting.label
        own = [each for each in rates if (each.env, each.label) == name]
        shares[name] = feasible_seeds(own) / len(setting.seeds) if own else 1.0
    return shares


def feasible_first(settings: Sequence[Setting], at: int | None = None) -> list[Setting]:
    """The settings by the share of seeds that keep all limits, otherwise in the order given."""
    shares = feasible_shares(settings, at)
    return sorted(settings, key=lambda setting: -shares[setting.env, setting.label])


def _rates(setting: Setting, cost: str, limit: float | None, at: int | None) -> CostRates:
    """The interval is that of the mean of independent evaluations."""
    rates, _ = scores_of(setting, COST + cost, at)
    count = final_evaluations(setting) if at is None else 1
    reach = rates - scores_of(setting, f"{COST}{cost}_low", at)[0]  # the mean of their half widths
    lows = rates - reach / np.sqrt(max(count, 1))
    return CostRates(
        setting.env, setting.label, cost, limit, tuple(rates.tolist()), tuple(lows.tolist())
    )
