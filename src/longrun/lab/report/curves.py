"""Curves for the page: seeds, their mean and its interval, rounded and thinned."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from longrun.lab.results.metric_names import SCORES, is_drawn
from longrun.lab.results.scores import COST, costs_of
from longrun.lab.results.settings import Setting
from longrun.lab.results.statistics import FEWEST_SEEDS, mean_interval
from longrun.learning.envs.spaces import Array

MOST_POINTS = 200
"""most points of one training curve"""
ALL_POINTS = 150_000
"""most points of all training curves together: a megabyte, however many runs there are"""


def brief(value: float) -> float | None:
    """Five significant digits, which is enough for a curve; None for non-finite values."""
    return float(f"{value:.5g}") if math.isfinite(value) else None


def evaluation_curves(setting: Setting | None) -> dict[str, Any]:
    costs = [] if setting is None else [COST + name for name in costs_of(setting)]
    return _curves(setting, [*SCORES, *costs], most=10_000)


def training_curves(setting: Setting | None, points: int) -> dict[str, Any]:
    names = [] if setting is None else [n for n in setting.values if is_drawn(n)]
    return _curves(setting, names, points)


def points_each(settings: Sequence[Setting | None]) -> int:
    """Number of points that each training curve may have."""
    drawn = [(s, len(s.seeds)) for s in settings if s is not None]
    curves = sum(len(s.values) * (seeds + 3 * (seeds > 1)) for s, seeds in drawn)  # mean, low, high
    return int(min(MOST_POINTS, max(20, ALL_POINTS // max(curves, 1))))


def _curves(setting: Setting | None, metrics: Sequence[str], most: int) -> dict[str, Any]:
    """The means of blocks of rows, at most `most`, of each metric with finite values."""
    if setting is None:
        return {"steps": [], "seeds": [], "curves": {}}
    block = max(1, math.ceil(len(setting.steps) / most))
    starts = range(0, len(setting.steps), block)
    values = {name: setting.values[name] for name in metrics if name in setting.values}
    return {
        "steps": [int(setting.steps[k : k + block][-1]) for k in starts],
        "seeds": list(setting.seeds),
        "curves": {
            name: _curve(np.array([rows[k : k + block].mean(0) for k in starts]))
            for name, rows in values.items()
            if np.isfinite(rows).any()
        },
    }


def _curve(values: Array) -> dict[str, Any]:
    """A curve of values [K, seeds]; a single seed is its own mean, few seeds have no interval."""
    curve: dict[str, Any] = {"seeds": [_list(seed) for seed in values.T]}
    count = values.shape[1]
    names = ("mean", "low", "high") if count >= FEWEST_SEEDS else ("mean",) * (count > 1)
    with np.errstate(invalid="ignore", over="ignore"):  # a run that diverged has infinities
        middle = mean_interval(values)
    return curve | {name: _list(own) for name, own in zip(names, middle, strict=False)}


def _list(values: Array) -> list[float | None]:
    return [brief(value) for value in values.tolist()]
