"""Scores of seeds: final ones, those at a step, the best; rates of costs beside their limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from longrun.base.errors import InputError
from longrun.lab.results.read import SETTLED
from longrun.lab.results.settings import Setting
from longrun.learning.envs.spaces import Array

FINAL_SHARE = 0.1
"""A final score is the mean of the evaluations in this last part of training."""
COST = "cost_"
"""How columns of costs begin."""


def scores_of(
    setting: Setting, metric: str, at: int | None = None, best: bool = False
) -> tuple[Array, int]:
    """Each seed's score [seeds], and the step at which it was reached.

    - Final, the default: the mean of the evaluations in the last 10 % of the steps.
    - `at` a step: the last evaluation that is not later.
    - `best`: the seed's best evaluation (until `at`). Other libraries report it; it is never lower
      than the final score, and grows with the number of evaluations.

    An evaluation has no return where a first episode did not end. A seed that lacks one of those
    that count scores NaN, since long episodes would be missing; its best is that of the others.
    """
    until = setting.steps[-1] if at is None else at
    steps = setting.steps[setting.steps <= until]
    if not len(steps):
        raise InputError(
            f"at={at}: {setting.env} {setting.label} was first evaluated at"
            f" {setting.steps[0]:,} steps; choose that or more"
        )
    values = setting.values[metric][: len(steps)]
    if best:
        scores = np.where(np.isfinite(values), values, -np.inf).max(0)
    else:
        scores = values[_is_final(steps) if at is None else steps == steps[-1]].mean(0)
    return np.where(np.isfinite(scores), scores, np.nan), int(steps[-1])


def final_evaluations(setting: Setting) -> int:
    """How many evaluations the final score of a seed is the mean of."""
    return int(_is_final(setting.steps).sum())


def unsettled_evaluations(setting: Setting) -> int:
    """How many of the evaluations in the final scores of all seeds had not settled."""
    return int((setting.values[SETTLED][_is_final(setting.steps)] == 0).sum())


def _is_final(steps: Array) -> Array:
    """[K] increasing -> [K] bool: the evaluations in the last tenth of training, at least one."""
    final: Array = (steps > (1 - FINAL_SHARE) * steps[-1]) | (steps == steps[-1])
    return final


def rates_of(setting: Setting, metric: str, at: int | None = None) -> tuple[Array, Array]:
    """Each seed's long-run rate and the lower end of its 95 % interval: two [seeds].

    The interval is that of the mean of independent evaluations.
    """
    rates, _ = scores_of(setting, metric, at)
    reach = rates - scores_of(setting, f"{metric}_low", at)[0]  # the mean of their half widths
    return rates, rates - reach / np.sqrt(final_evaluations(setting) if at is None else 1)


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
    def key(self) -> tuple[str, str]:
        """The key of its setting."""
        return self.env, self.label

    @property
    def kept(self) -> tuple[bool, ...]:
        """Whether each seed keeps the limit: the interval of its rate is not all above it."""
        return tuple(self.limit is None or low <= self.limit for low in self.lows)


def cost_rates(settings: Sequence[Setting], at: int | None = None) -> list[CostRates]:
    """Every recorded cost of every setting; `at`: as in `scores_of`."""
    found = []
    for setting, limits in zip(settings, limits_of(settings), strict=True):
        for cost in costs_of(setting):
            rates, lows = (tuple(each.tolist()) for each in rates_of(setting, COST + cost, at))
            found.append(CostRates(*setting.key, cost, limits.get(cost), rates, lows))
    return found


def costs_of(setting: Setting) -> list[str]:
    """The costs that were recorded in evaluations of each of its seeds."""
    names = [name.removeprefix(COST) for name in setting.values if name.startswith(COST)]
    names = [name for name in names if not name.endswith(("_low", "_high"))]
    return [n for n in names if np.isfinite(setting.values[COST + n]).any(axis=0).all()]


def limits_of(settings: Sequence[Setting]) -> list[dict[str, float]]:
    """The limits that each setting is measured by: its own, else its environment's.

    An environment has the limits on which all of its settings agree that have one. By these a
    setting is measured that was trained for the reward alone.
    """
    found: dict[tuple[str, str], set[float]] = {}
    for setting in settings:
        for name, rate in setting.config.limits:
            found.setdefault((setting.env, name), set()).add(rate)
    agreed = {place: min(rates) for place, rates in found.items() if len(rates) == 1}
    return [
        {name: rate for (env, name), rate in agreed.items() if env == setting.env}
        | dict(setting.config.limits)
        for setting in settings
    ]


def feasible_seeds(costs: Sequence[CostRates]) -> dict[tuple[str, str], list[bool]]:
    """Whether each seed keeps all limits, by the key of each setting that has limits."""
    kept: dict[tuple[str, str], list[tuple[bool, ...]]] = {}
    for each in costs:
        if each.limit is not None:
            kept.setdefault(each.key, []).append(each.kept)
    return {key: [all(seed) for seed in zip(*own, strict=True)] for key, own in kept.items()}


OfSetting = TypeVar("OfSetting", Setting, CostRates)


def feasible_first(found: Sequence[OfSetting], costs: Sequence[CostRates]) -> list[OfSetting]:
    """Settings or their costs by the share of seeds that keep all limits, 1 without limits."""
    shares = {key: float(np.mean(own)) for key, own in feasible_seeds(costs).items()}
    return sorted(found, key=lambda each: -shares.get(each.key, 1.0))
