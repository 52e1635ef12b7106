"""Curves for the page: seeds, their mean and its interval, rounded and thinned."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from longrun.lab.results.curves import MOST_POINTS, mean_interval, thinned
from longrun.lab.results.settings import Setting
from longrun.lab.results.statistics import FEWEST_SEEDS
from longrun.learning.envs.spaces import Array

ALL_POINTS = 150_000
"""Most points of all training curves together: a megabyte, however many runs there are."""


def points_each(settings: Sequence[Setting | None]) -> int:
    """Number of points that each training curve may have."""
    drawn = [(s, len(s.seeds)) for s in settings if s is not None]
    curves = sum(len(s.values) * (seeds + 3 * (seeds > 1)) for s, seeds in drawn)  # mean, low, high
    return int(min(MOST_POINTS, max(20, ALL_POINTS // max(curves, 1))))


def curves_of(setting: Setting | None, metrics: Sequence[str], most: int) -> dict[str, Any]:
    """The curves of each metric with finite values, of so many points at most."""
    if setting is None:
        return {"steps": [], "seeds": [], "curves": {}}
    shown = {m: setting.values[m] for m in metrics if np.isfinite(setting.values[m]).any()}
    steps, _ = thinned(setting.steps, setting.steps[:, None], most)
    curves = {name: _curve(thinned(setting.steps, own, most)[1]) for name, own in shown.items()}
    return {"steps": steps.tolist(), "seeds": list(setting.seeds), "curves": curves}


def _curve(values: Array) -> dict[str, Any]:
    """A curve of values [K, seeds]; a single seed is its own mean, few seeds have no interval."""
    count = values.shape[1]
    names = ("mean", "low", "high") if count >= FEWEST_SEEDS else ("mean",) * (count > 1)
    with np.errstate(invalid="ignore", over="ignore"):  # a run that diverged has infinities
        middle = dict(zip(names, mean_interval(values), strict=False))
    seeds = [[*map(brief, seed)] for seed in values.T]
    return {"seeds": seeds} | {name: [*map(brief, own)] for name, own in middle.items()}


def brief(value: float) -> float | None:
    """Five significant digits, which is enough for a curve; None for non-finite values."""
    return float(f"{value:.5g}") if math.isfinite(value) else None
