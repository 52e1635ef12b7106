"""Statistics over seeds: aggregates with intervals, improvement, profiles, bands of curves.

The definitions are those of Agarwal et al., *Deep Reinforcement Learning at the Edge of the
Statistical Precipice* (2021), and the tests compare them with its package, rliable. Its percentile
intervals cover 82 to 91 % for interquartile means of five seeds of one task. Here:

- Aggregates and curves have the expanded percentile interval of the bootstrap (Hesterberg, *What
  Teachers Should Know About the Bootstrap*, 2015).
- Probabilities of improvement have Newcombe's pseudo-score interval (*Confidence intervals for an
  effect size measure based on the Mann-Whitney statistic*, part 2, 2006, method 5).
- Shares in a profile have Wilson's.

What they cover was measured by `benchmarks/interval_coverage.py`; results/interval-coverage.md has
the tables.

Scores are [seeds, tasks], as rliable has them, and a task with fewer seeds than others ends in NaN.
Bootstrap samples are drawn from the seeds of each task by itself (stratified), and the order of
seeds never matters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from longrun.base.student import student_quantile, student_reach
from longrun.learning.envs.spaces import Array

FEWEST_SEEDS = 5
"""Fewest seeds for an interval; tables list the seeds if there are fewer.

No interval within the range of the seeds covers a median by more than 1 - 2 / 2^n: 75 % of 3 seeds,
87.5 % of 4, 93.8 % of 5.
"""
COVERED = {"mean": "81 to 95 %", "iqm": "88 to 96 %", "improvement": "92 to 100 %"}
"""What nominal 95 % intervals of five seeds cover, by results/interval-coverage.csv.

Of normal, skewed and bimodal scores on one task and on six; the mean's is Student's, on one task.
"""
REPETITIONS = 10_000
"""Samples of a bootstrap. Each end of an interval has an error of about 1.5 % of its width."""
NORMAL_95 = 1.959964
"""How many standard errors a two-sided 95 % interval of the normal law reaches."""
HALVINGS = 50
"""Steps of a bisection within [0, 1]: to the last digit."""
TRIMMED = 0.25
"""Share of the scores that the interquartile mean leaves out at either end."""
SEED = 0
"""Seed of every bootstrap: the same runs give the same table and the same figure."""
MOST_POINTS = 200
"""Most points of a curve that is drawn."""
Band = tuple[Array, Array, Array]
"""Middle, low and high of a curve, [K] each."""


class ScoreEstimate(NamedTuple):
    """A number and its nominal 95 % interval, NaN with fewer than FEWEST_SEEDS seeds."""

    value: float
    low: float
    high: float


def as_matrix(scores: list[Array]) -> Array:
    """Scores [seeds] of each task as [seeds, tasks], NaN where a task has fewer seeds."""
    matrix = np.full((max(map(len, scores)), len(scores)), np.nan)
    for task, own in enumerate(scores):
        matrix[: len(own), task] = own
    return matrix


def normalised(scores: Mapping[str, Array]) -> dict[str, Array]:
    """Scores [seeds, tasks] of all settings on one scale; nothing else normalises.

    For each task 0 is the lowest and 1 the highest score of any seed of the settings compared, so
    tasks have equal weights whatever their rewards. Such numbers are valid within one table, and
    change when settings are added to it. Where all scores are the same they are 0.5.
    """
    everything = np.concatenate(list(scores.values()))
    low, high = np.nanmin(everything, 0), np.nanmax(everything, 0)
    same = high == low
    width = np.where(same, 1.0, high - low)
    return {
        name: np.where(same & ~np.isnan(own), 0.5, (own - low) / width)
        for name, own in scores.items()
    }


def interquartile_mean(scores: Array) -> Array:
    """Mean of the middle half of all seeds and tasks: [..., seeds, tasks] -> [...]."""
    pooled = np.sort(scores.reshape(*scores.shape[:-2], -1), -1)  # NaN come last
    count = int(np.isfinite(pooled).sum(-1).max(initial=0))  # the same for all samples
    cut = int(TRIMMED * count)
    middle: Array = pooled[..., cut : count - cut].mean(-1)
    return middle


def mean(scores: Array) -> Array:
    """Mean over tasks of the mean over seeds: [..., seeds, tasks] -> [...]."""
    tasks: Array = _task_means(scores).mean(-1)
    return tasks


def median(scores: Array) -> Array:
    """Median over tasks of the mean over seeds; of a single task the median over seeds."""
    if scores.shape[-1] == 1:
        return np.nanmedian(scores, axis=(-2, -1))
    return np.median(_task_means(scores), axis=-1)


AGGREGATES = {"iqm": interquartile_mean, "mean": mean, "median": median}


def _task_means(scores: Array) -> Array:
    """[..., seeds, tasks] -> [..., tasks]"""
    counted = np.isfinite(scores)
    means: Array = np.where(counted, scores, 0).sum(-2) / counted.sum(-2)
    return means


def estimates(scores: Array, rng: np.random.Generator) -> dict[str, ScoreEstimate]:
    """Interquartile mean, mean and median of scores [seeds, tasks] with their intervals."""
    values = {name: float(function(scores)) for name, function in AGGREGATES.items()}
    if fewest_seeds(scores) < FEWEST_SEEDS:
        return {name: ScoreEstimate(value, np.nan, np.nan) for name, value in values.items()}
    samples = resampled(scores, rng)
    return {
        name: ScoreEstimate(value, *ends(AGGREGATES[name](samples), scores).tolist())
        for name, value in values.items()
    }


def ends(samples: Array, scores: Array) -> Array:
    """Both ends of the interval that bootstrap samples [..., repetitions] give: [2, ...].

    The samples were drawn from the columns of `scores` [seeds, groups], each by itself.
    """
    outside = tail(scores)
    low_and_high: Array = np.quantile(samples, (outside, 1 - outside), axis=-1)
    return low_and_high


def tail(scores: Array) -> float:
    """Share of bootstrap samples beyond either end of a 95 % interval; from [seeds, groups].

    The percentiles 2.5 and 97.5 are too close for two reasons. Samples from n seeds have a variance
    that is (n - 1) / n of what it estimates. And the variance of few seeds is uncertain, for which
    Student's law makes up. Degrees of freedom are n - 1 of one group, Satterthwaite's of several.
    """
    from scipy.special import ndtr

    counts = np.isfinite(scores).sum(0)
    largest = np.nanmax(np.abs(scores)) or 1.0  # squares of diverged scores would overflow
    variances = np.nanvar(scores / largest, axis=0, ddof=1) / counts  # of each group's mean
    if not variances.any():
        variances = 1 / counts
    whole = variances.sum()
    freedom = whole**2 / (variances**2 / (counts - 1)).sum()
    widened = np.sqrt(whole / (variances * (counts - 1) / counts).sum())
    return float(ndtr(-widened * student_quantile(freedom, 0.95)))


def improvement(scores: Array, baseline: Array) -> ScoreEstimate:
    """Probability that a seed [seeds, tasks] beats one of the baseline [others, tasks].

    Over all pairs of a task, ties count half; then the mean over tasks.
    """
    wins = []
    for own, other in zip(scores.T, baseline.T, strict=True):
        own, other = own[~np.isnan(own), None], other[~np.isnan(other)]
        wins.append(((own > other) + 0.5 * (own == other)).mean())
    value = np.mean(wins)
    if min(fewest_seeds(scores), fewest_seeds(baseline)) < FEWEST_SEEDS:
        return ScoreEstimate(float(value), np.nan, np.nan)
    counts = [np.isfinite(each).sum(0) for each in (scores, baseline)]
    return ScoreEstimate(float(value), *pseudo_score_interval(float(value), *counts))


def pseudo_score_interval(value: float, seeds: Array, others: Array) -> tuple[float, float]:
    """Newcombe's interval of a mean probability of improvement.

    `seeds` and `others` are numbers of seeds on each task. It ends where `value` is 1.96 standard
    errors away, with Hanley and McNeil's variance at the end itself. The variance is that of tasks
    that all have the same probability: where they differ, the interval is rather too wide.
    """
    pairs, more = seeds * others, (seeds + others) / 2 - 1

    def excludes(p: float) -> bool:
        shape = (1 - p) / (2 - p) + p / (1 + p)
        variance = (p * (1 - p) * (1 + more * shape) / pairs).sum() / len(pairs) ** 2
        return bool((value - p) ** 2 > NORMAL_95**2 * variance)

    def end(outside: float) -> float:
        inside = value
        for _ in range(HALVINGS):
            middle = (inside + outside) / 2
            inside, outside = (inside, middle) if excludes(middle) else (middle, outside)
        return outside

    return end(0.0), end(1.0)


def profile(scores: Array, thresholds: Array) -> tuple[Array, Array, Array]:
    """Share of seeds and tasks that score above each threshold [T], and its interval: three [T].

    The interval is Wilson's, of all runs as if they were of one task: where tasks differ, it is
    rather too wide.
    """
    count = int(np.isfinite(scores).sum())
    share = np.array([(scores > t).sum() / count for t in thresholds])
    square = NORMAL_95**2 / count
    middle = (share + square / 2) / (1 + square)
    reach = np.sqrt(square * (share * (1 - share) + square / 4)) / (1 + square)
    return share, middle - reach, middle + reach


def resampled(scores: Array, rng: np.random.Generator) -> Array:
    """[seeds, tasks] -> [repetitions, seeds, tasks], each task's seeds drawn with replacement."""
    packed = np.sort(scores, axis=0)  # NaN last; and the seeds' order cannot matter
    counts = np.isfinite(packed).sum(0)
    chosen = (rng.random((REPETITIONS, *packed.shape)) * counts).astype(int)
    drawn = packed[chosen, np.arange(packed.shape[1])]
    return np.where(np.isnan(packed), np.nan, drawn)


def fewest_seeds(scores: Array) -> int:
    """How many seeds have a score on the task where the fewest have one; from [seeds, tasks]."""
    return int(np.isfinite(scores).sum(0).min())


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
