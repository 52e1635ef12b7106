"""Curves of seeds: what is in the middle of them with its interval; smoothed and thinned."""

from __future__ import annotations

import numpy as np

from longrun.base.student import student_reach
from longrun.lab.results.statistics import (
    FEWEST_SEEDS,
    REPETITIONS,
    TRIMMED,
    ends,
    interquartile_mean,
)
from longrun.learning.envs.spaces import Array

MOST_POINTS = 200
"""Most points of a curve that is drawn."""
SEED = 0
"""Seed of the bootstrap: the same runs give the same figure."""
Band = tuple[Array, Array, Array]
"""Middle, low and high of a curve, [K] each."""


def mean_interval(values: Array) -> Band:
    """Mean over the last axis (seeds) and its 95 % Student's interval; [..., n] -> three [...].

    There is no interval of fewer than `FEWEST_SEEDS`: it is NaN.
    """
    mean = values.mean(-1)
    if values.shape[-1] < FEWEST_SEEDS:
        return mean, mean * np.nan, mean * np.nan
    reach = student_reach(values)
    return mean, mean - reach, mean + reach


def iqm_interval(values: Array) -> Band:
    """Interquartile mean over the seeds of curves [K, seeds] and its interval: three [K].

    There is no interval of fewer than `FEWEST_SEEDS`. Where a seed's value is NaN, all are NaN.
    """
    rng = np.random.default_rng(SEED)
    value, low, high = np.full((3, len(values)), np.nan)
    complete = np.isfinite(values).all(-1)
    curves = np.sort(values[complete], axis=-1)
    value[complete] = interquartile_mean(curves[..., None])
    count = values.shape[-1]
    if count >= FEWEST_SEEDS and complete.any():
        cut = int(TRIMMED * count)
        places = np.sort(rng.integers(count, size=(REPETITIONS, count)), axis=-1)
        weights = np.eye(count)[places[:, cut : count - cut]].mean(1)  # of each seed in order
        low[complete], high[complete] = ends(curves @ weights.T, curves[:1].T)
    return value, low, high


def smoothed(values: Array, points: int) -> Array:
    """Each point [K, seeds] as the mean of itself and those before it, `points` in all."""
    if points <= 1:
        return values
    return np.stack([values[max(0, k + 1 - points) : k + 1].mean(0) for k in range(len(values))])


def thinned(steps: Array, values: Array, most: int = MOST_POINTS) -> tuple[Array, Array]:
    """Means of blocks of values [K, seeds], at most so many, each at its last step [K]."""
    size = -(-len(steps) // most)
    if size <= 1:
        return steps, values
    starts = np.arange(0, len(steps), size)
    counts = np.diff([*starts, len(steps)])
    means: Array = np.add.reduceat(values, starts) / counts[:, None]
    return steps[starts + counts - 1], means
