"""Statistics over seeds: aggregates with intervals, improvement, performance profiles.

The definitions are those of Agarwal et al., *Deep Reinforcement Learning at the Edge of the
Statistical Precipice* (2021), and the tests compare them with its package, rliable. The bootstrap
is vectorised here: rliable's takes seconds where this takes hundredths, draws from NumPy's global
state, and does not import with pandas 3.

Scores are [seeds, tasks], as rliable has them, and a task with fewer seeds than others ends in NaN.
Bootstrap samples are drawn from the seeds of each task by itself (stratified), and the order of
seeds never matters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from longrun.envs.spaces import Array
from longrun.errors import InputError
from longrun.results.read import Setting

FINAL_SHARE = 0.1
"""A final score is the mean of the evaluations in this last part of training."""
FEWEST_EVALUATIONS = 3
"""A final score of fewer depends much on the last of them: tables then say how many there are."""
FEWEST_SEEDS = 5
"""With fewer, bootstrap intervals are far too narrow (a nominal 95 % covers 74 % with 3 seeds, 89 %
with 5, 92 % with 10 in simulations), so that there is none and tables list the seeds."""
REPETITIONS = 2000
"""Of the bootstrap: either end of an interval then has an error of about 1.5 % of its width."""
REPETITIONS_OF_BANDS = 500
"""A band has hundreds of ends, which are drawn and not read."""
TRIMMED = 0.25
"""Share of the scores that the interquartile mean leaves out at either end."""


class ScoreEstimate(NamedTuple):
    """A number and its nominal 95 % bootstrap interval, NaN with fewer than FEWEST_SEEDS seeds."""

    value: float
    low: float
    high: float


def scores_of(
    setting: Setting, metric: str, at: int | None = None, best: bool = False
) -> tuple[Array, int]:
    """Each seed's score [seeds], and the step at which it was reached.

    - Final, the default: the mean of the evaluations in the last 10 % of the steps.
    - `at` a step: the last evaluation that is not later.
    - `best`: the seed's best evaluation (until `at`). Other libraries report it; it is never lower
      than the final score, and grows with the number of evaluations.

    Evaluations in which no episode ended do not count; a seed that has no others scores NaN.
    """
    if not len(setting.steps):
        raise InputError(f"{setting.env} {setting.label} has no evaluations that its seeds share")
    until = setting.steps[-1] if at is None else at
    steps = setting.steps[setting.steps <= until]
    if not len(steps):
        raise InputError(
            f"at={at}: {setting.env} {setting.label} was first evaluated at"
            f" {setting.steps[0]:,} steps; choose that or more"
        )
    values = setting.values[metric][: len(steps)]
    if not best:
        values = values[_is_final(steps) if at is None else steps == steps[-1]]
    counted = np.isfinite(values)
    if best:
        scores = np.where(counted, values, -np.inf).max(0)
    else:
        scores = np.where(counted, values, 0).sum(0) / np.maximum(counted.sum(0), 1)
    return np.where(counted.any(0), scores, np.nan), int(steps[-1])


def final_evaluations(setting: Setting) -> int:
    """How many evaluations the final score of a seed is the mean of."""
    return int(_is_final(setting.steps).sum()) if len(setting.steps) else 0


def _is_final(steps: Array) -> Array:
    """[K] increasing -> [K] bool: the evaluations in the last tenth of training, at least one."""
    final: Array = (steps > (1 - FINAL_SHARE) * steps[-1]) | (steps == steps[-1])
    return final


def as_matrix(scores: list[Array]) -> Array:
    """Scores [seeds] of each task as [seeds, tasks], NaN where a task has fewer seeds."""
    matrix = np.full((max(map(len, scores)), len(scores)), np.nan)
    for task, own in enumerate(scores):
        matrix[: len(own), task] = own
    return matrix


def normalised(scores: Mapping[str, Array]) -> dict[str, Array]:
    """Scores [seeds, tasks] of all settings on one scale; nothing else normalises.

    For each task 0 is the lowest and 1 the highest score of any seed of the settings compared. So
    tasks have equal weights whatever their rewards, scores are bounded, and no reference scores are
    needed. Such numbers are valid within one table, and change when settings are added to it.
    Where all scores are the same they are 0.5.
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
    samples = resampled(scores, rng)
    return {
        name: _estimate(scores, function(scores), function(samples))
        for name, function in AGGREGATES.items()
    }


def improvement(scores: Array, baseline: Array, rng: np.random.Generator) -> ScoreEstimate:
    """Probability that a seed [seeds, tasks] beats one of the baseline [others, tasks].

    Over all pairs of a task, ties count half; then the mean over tasks.
    """
    values, samples = [], []
    for own, other in zip(scores.T, baseline.T, strict=True):
        own, other = np.sort(own[~np.isnan(own)]), np.sort(other[~np.isnan(other)])
        wins = (own[:, None] > other) + 0.5 * (own[:, None] == other)  # [seeds, others]
        values.append(wins.mean())
        drawn, against = (  # how often each seed is in a sample: [repetitions, seeds]
            rng.multinomial(n, np.full(n, 1 / n), REPETITIONS) / n for n in (len(own), len(other))
        )
        samples.append(((drawn @ wins) * against).sum(-1))
    fewest = scores if fewest_seeds(scores) < fewest_seeds(baseline) else baseline
    return _estimate(fewest, np.mean(values), np.mean(samples, axis=0))


def profile(
    scores: Array, thresholds: Array, rng: np.random.Generator
) -> tuple[Array, Array, Array]:
    """Share of seeds and tasks that score above each threshold [T], and its interval: three [T]."""
    samples = resampled(scores, rng)
    count = np.isfinite(scores).sum()
    share = np.array([(scores > t).sum() / count for t in thresholds])
    drawn = np.array([(samples > t).sum((-2, -1)) / count for t in thresholds])
    low, high = np.quantile(drawn, (0.025, 0.975), axis=-1)
    return share, low, high


def curve_estimates(values: Array, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Interquartile mean over the seeds of curves [K, seeds] and its interval: three [K].

    Whole curves are resampled. Where a seed's value is NaN, all three are NaN.
    """
    count = values.shape[-1]
    chosen = rng.integers(count, size=(REPETITIONS_OF_BANDS, count))
    drawn = values[:, chosen]  # [K, repetitions, seeds]
    complete = np.isfinite(values).all(-1)
    value, low, high = np.full((3, len(values)), np.nan)
    value[complete] = interquartile_mean(values[complete][..., None])
    samples = interquartile_mean(drawn[complete][..., None])
    low[complete], high[complete] = np.quantile(samples, (0.025, 0.975), axis=-1)
    return value, low, high


def resampled(scores: Array, rng: np.random.Generator) -> Array:
    """[seeds, tasks] -> [repetitions, seeds, tasks], each task's seeds drawn with replacement."""
    packed = np.sort(scores, axis=0)  # NaN last; and the seeds' order cannot matter
    counts = np.isfinite(packed).sum(0)
    chosen = (rng.random((REPETITIONS, *packed.shape)) * counts).astype(int)
    drawn = packed[chosen, np.arange(packed.shape[1])]
    return np.where(np.isnan(packed), np.nan, drawn)


def _estimate(scores: Array, value: Array, samples: Array) -> ScoreEstimate:
    """With the percentile interval, if all tasks have `FEWEST_SEEDS` scores or more."""
    if fewest_seeds(scores) < FEWEST_SEEDS:
        return ScoreEstimate(float(value), float("nan"), float("nan"))
    low, high = np.quantile(samples, (0.025, 0.975))
    return ScoreEstimate(float(value), float(low), float(high))


def fewest_seeds(scores: Array) -> int:
    """How many seeds have a score on the task where the fewest have one; from [seeds, tasks]."""
    return int(np.isfinite(scores).sum(0).min())
