"""Compare settings: the scores of each on every task and over all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from longrun.base.checks import known
from longrun.base.errors import InputError, warn
from longrun.lab.results.baselines import find_baselines
from longrun.lab.results.data_frames import comparison_frame
from longrun.lab.results.limits import CostRates, cost_rates, feasible_first
from longrun.lab.results.metric_names import SCORES
from longrun.lab.results.read import NEARLY, Setting, read_results
from longrun.lab.results.settings import Paths
from longrun.lab.results.statistics import (
    ScoreEstimate,
    as_matrix,
    estimates,
    final_evaluations,
    improvement,
    normalised,
    scores_of,
    unsettled_evaluations,
)
from longrun.learning.envs.spaces import Array

SEED = 0
"""Seed of every bootstrap: the same runs give the same table, and a row does not depend on the
other rows."""


@dataclass(frozen=True)
class Row:
    """A setting in one metric, on a task or over all tasks."""

    env: str
    """"" over all tasks, where scores are normalised"""
    label: str
    metric: str
    seeds: int
    steps: int | None
    evaluations: int | None
    """evaluations in each seed's final score; None for other scores, and over all tasks"""
    scores: tuple[float, ...]
    """the score of each seed; empty over all tasks, and where a seed has no score"""
    aggregates: dict[str, ScoreEstimate]
    """iqm, mean and median; none of them where a seed has no score"""
    improvement: ScoreEstimate | None
    """probability to beat the baseline; None for itself and where either has no score"""
    unsettled: int | None = None
    """evaluations in the final scores of all seeds that had not settled; None for other scores than
    final ones and other metrics than average_reward, and over all tasks"""


@dataclass(frozen=True)
class Comparison:
    rows: list[Row]
    """one for each task, metric and setting, then those over all tasks"""
    scores: dict[str, dict[str, Array]]
    """the scores [seeds, tasks] of each metric and label, as rliable takes them: raw of a single
    task, normalised of several; only settings that have a score for all of their seeds and tasks"""
    baselines: dict[str, str]
    """the label to beat, for each task, and for all of them ("") if they share it"""
    tasks: list[str]
    """the environments"""
    partial: list[str]
    """labels that have not been run on all tasks, and have rows of single tasks only"""
    costs: list[CostRates]
    """every recorded cost of every setting; where costs have limits, settings that keep them come
    first in `rows` and here"""

    def tasks_of(self, metric: str) -> list[str]:
        """The tasks that rows over all tasks are about: those in which every seed has a score."""
        without = {
            row.env
            for row in self.rows
            if row.metric == metric and row.label not in self.partial and not row.scores
        }
        return [task for task in self.tasks if task not in without]

    def to_pandas(self) -> Any:
        """A row for each task, setting and metric, with scores, aggregates and intervals.

        Over all tasks `env` is "". A cost is a metric `cost_NAME` with its `limit`, and `kept`, the
        number of seeds that keep it. Needs the extra `pandas`.
        """
        return comparison_frame(self)


Scores = dict[str, dict[str, tuple[Array, int]]]
"""The scores [seeds] of each environment and label, and the step at which they were reached."""


def compare(
    results: Paths | Sequence[Setting],
    metrics: str | Sequence[str] = SCORES,
    baseline: str | None = None,
    at: int | None = None,
    best: bool = False,
) -> Comparison:
    """Compare settings by the scores of their seeds, as `longrun compare` does.

    Parameters
    ----------
    results
        What to compare: paths of run and sweep folders, or settings that `read_results` returned.
    metrics
        One or several of `average_reward`, `episode_return` and `episode_average_reward`.
    baseline
        Label of the setting to beat, or words that only one label has. By default the first.
    at
        Compare the last evaluations that are not later than this step, instead of final scores.
    best
        Score a seed by its best evaluation.

    Returns
    -------
    comparison
        Its `rows` have the scores of the seeds, their interquartile mean, mean and median with
        nominal 95 % intervals (with five seeds or more), and the probability of improvement over
        the baseline; `costs` the long-run rates of costs with their limits, by which settings are
        ordered; `to_pandas()` makes a data frame of the rows.
    """
    settings = [setting for setting in _settings(results) if len(setting.steps)]
    if not settings:
        raise InputError("there is nothing to compare: no setting has evaluations yet")
    metrics = [metrics] if isinstance(metrics, str) else list(metrics)
    for metric in metrics:
        known("metric", metric, SCORES)
    if at is None:
        _warn_of_lengths(settings)
    baselines = find_baselines(settings, baseline)
    settings = feasible_first(settings, at)
    is_final = at is None and not best
    final = settings if is_final else []
    counts = {(s.env, s.label): (final_evaluations(s), unsettled_evaluations(s)) for s in final}
    scores = {metric: _scores(settings, metric, at, best) for metric in metrics}
    return _compared(settings, scores, baselines, counts, cost_rates(settings, at))


def _compared(
    settings: Sequence[Setting],
    scores: Mapping[str, Scores],
    baselines: dict[str, str],
    counts: Mapping[tuple[str, str], tuple[int, int]],
    costs: list[CostRates],
) -> Comparison:
    """Compare the scores in each metric.

    `counts` has the evaluations in the final score of a seed of (env, label), and how many of those
    of all seeds had not settled.
    """
    tasks = list(dict.fromkeys(s.env for s in settings))
    rows = [
        _counted(row, *counts.get((env, row.label), (None, None)))
        for env in tasks
        for metric, own in scores.items()
        for row in _task_rows(env, metric, own[env], baselines.get(env))
    ]
    by_label = {metric: _by_label(own) for metric, own in scores.items()}
    if len(tasks) > 1:
        for metric, matrices in by_label.items():
            if len(matrices) == 1:  # from its own worst to its own best seed: that says nothing
                continue
            rows += _overall_rows(metric, matrices, baselines.get(""))
    count = Counter(s.label for s in settings)
    partial = [label for label in count if count[label] < len(tasks)]
    return Comparison(rows, by_label, baselines, tasks, partial, costs)


def _counted(row: Row, evaluations: int | None, unsettled: int | None) -> Row:
    own = unsettled if row.metric == "average_reward" else None
    return replace(row, evaluations=evaluations, unsettled=own)


def _settings(results: Paths | Sequence[Setting]) -> list[Setting]:
    if isinstance(results, str | Path):
        return read_results(results)
    settings = [each for each in results if isinstance(each, Setting)]
    paths = [each for each in results if not isinstance(each, Setting)]
    return settings + (read_results(paths) if paths else [])


def _warn_of_lengths(settings: Sequence[Setting]) -> None:
    """Settings that were trained for different numbers of steps are compared with a warning."""
    for env in dict.fromkeys(s.env for s in settings):
        ends = {int(s.steps[-1]) for s in settings if s.env == env}
        if min(ends) < NEARLY * max(ends):
            warn(
                f"settings on {env} end between {min(ends):,} and {max(ends):,} steps;"
                f" at={min(ends)} (--at {min(ends)}) compares them at the same step"
            )


def _scores(settings: Sequence[Setting], metric: str, at: int | None, best: bool) -> Scores:
    scores: Scores = {}
    for s in settings:
        scores.setdefault(s.env, {})[s.label] = scores_of(s, metric, at, best)
    return scores


def _by_label(scores: Scores) -> dict[str, Array]:
    """Scores [seeds, tasks] of each setting: of one task raw, of several normalised."""
    if len(scores) > 1:
        return _overall_scores(scores)
    (task,) = scores.values()
    return _complete(task)


def _complete(scores: Mapping[str, tuple[Array, int]]) -> dict[str, Array]:
    """Scores [seeds, 1] on one task of the settings whose seeds all have one."""
    return {label: own[:, None] for label, (own, _) in scores.items() if np.isfinite(own).all()}


def _overall_scores(scores: Scores) -> dict[str, Array]:
    """Normalised [seeds, tasks] of settings that are on all tasks, where all seeds have a score."""
    labels = [n for n in next(iter(scores.values())) if all(n in own for own in scores.values())]
    tasks = [
        own for own in scores.values() if all(np.isfinite(own[label][0]).all() for label in labels)
    ]
    if not labels or not tasks:
        return {}
    return normalised({label: as_matrix([own[label][0] for own in tasks]) for label in labels})


def _task_rows(
    env: str, metric: str, scores: Mapping[str, tuple[Array, int]], baseline: str | None
) -> list[Row]:
    """A setting in which a seed has no score has no aggregates: the other seeds may be biased."""
    complete = _complete(scores)
    return [
        Row(
            env=env,
            label=label,
            metric=metric,
            seeds=len(own),
            steps=steps,
            evaluations=None,
            scores=tuple(own.tolist()) if label in complete else (),
            **_figures(label, complete, baseline),
        )
        for label, (own, steps) in scores.items()
    ]


def _overall_rows(metric: str, scores: Mapping[str, Array], baseline: str | None) -> list[Row]:
    return [
        Row(
            env="",
            label=label,
            metric=metric,
            seeds=int(np.isfinite(own).sum()),
            steps=None,
            evaluations=None,
            scores=(),
            **_figures(label, scores, baseline),
        )
        for label, own in scores.items()
    ]


def _figures(label: str, scores: Mapping[str, Array], baseline: str | None) -> dict[str, Any]:
    """Aggregates and the improvement over the baseline, as far as there are scores."""
    if label not in scores:
        return {"aggregates": {}, "improvement": None}
    aggregates = estimates(scores[label], np.random.default_rng(SEED))
    better = None
    if baseline is not None and label != baseline and baseline in scores:
        better = improvement(scores[label], scores[baseline])
    return {"aggregates": aggregates, "improvement": better}
