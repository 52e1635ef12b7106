"""Curves as the page draws them: seeds, their mean and its interval, in few digits and points."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from longrun.envs.spaces import Array
from longrun.results.read import Setting, mean_interval

EVALUATION = {
    "average_reward": "average reward per step",
    "episode_return": "episode return",
    "episode_average_reward": "reward per step in episodes",
}
TRAINING = {
    "reward": "reward per step while training",
    "gain": "gain (learned average reward)",
    "value_mean": "mean of the values",
    "explained_variance": "explained variance",
    "kl": "KL divergence of a policy step",
    "entropy": "entropy of the policy",
    "clip_fraction": "fraction of clipped ratios",
    "value_loss": "value loss",
}
MOST_POINTS = 200
"""of one training curve"""
ALL_POINTS = 150_000
"""of all training curves together: a megabyte, however many runs there are"""


def brief(value: float) -> float | None:
    """Five digits, as many as anyone reads from a curve; None for what JSON has no number for."""
    return float(f"{value:.5g}") if math.isfinite(value) else None


def evaluation_curves(setting: Setting | None) -> dict[str, Any]:
    return _curves(setting, EVALUATION, most=10_000)


def training_curves(setting: Setting | None, points: int) -> dict[str, Any]:
    return _curves(setting, TRAINING, points)


def points_each(settings: Sequence[Setting | None]) -> int:
    """Points that a training curve may have."""
    drawn = [(s, len(s.seeds)) for s in settings if s is not None]
    curves = sum(len(s.values) * (seeds + 3 * (seeds > 1)) for s, seeds in drawn)  # mean and ends
    return int(min(MOST_POINTS, max(20, ALL_POINTS // max(curves, 1))))


def _curves(setting: Setting | None, metrics: Mapping[str, str], most: int) -> dict[str, Any]:
    """Of each metric that has a number anywhere, means of blocks of rows, `most` of them."""
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
    """From [K, seeds]; the mean of a single seed is the seed."""
    curve: dict[str, Any] = {"seeds": [_list(seed) for seed in values.T]}
    if values.shape[1] > 1:
        names = ("mean", "low", "high")
        with np.errstate(invalid="ignore", over="ignore"):  # a run that diverged has infinities
            curve |= {n: _list(v) for n, v in zip(names, mean_interval(values), strict=True)}
    return curve


def _list(values: Array) -> list[float | None]:
    return [brief(value) for value in values.tolist()]
