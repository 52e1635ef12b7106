"""Compare settings: the scores of each on every task and over all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from longrun.base.checks import known
from longrun.base.errors import InputError, warn
from longrun.lab.results.labels import shortened
from longrun.lab.results.metric_names import SCORES
from longrun.lab.results.read import NEARLY, data_frame, read_results
from longrun.lab.results.scores import (
    CostRates,
    cost_rates,
    feasible_first,
    final_evaluations,
    scores_of,
    unsettled_evaluations,
)
from longrun.lab.results.settings import Paths, Setting
from longrun.lab.results.statistics import (
    AGGREGATES,
    SEED,
    ScoreEstimate,
    as_matrix,
    estimates,
    improvement,
    normalised,
)
from longrun.learning.envs.spaces import Array


@dataclass(frozen=True)
class Row:
    """A setting in one metric, on a task or over all tasks."""

    env: str
    """"" over all tasks, where scores are normalised"""
    label: str
    metric: str
    seeds: int
    aggregates: dict[str, ScoreEstimate]
    """iqm, mean and median; none of them where a seed has no score"""
    improvement: ScoreEstimate | None
    """probability to beat the baseline; None for itself and where either has no score"""
    steps: int | None = None
    scores: tuple[float, ...] = ()
    """the score of each seed; empty over all tasks, and where a seed has no score"""
    evaluations: int | None = None
    """evaluations in each seed's final score; None for other scores, and over all tasks"""
    unsettled: int | None = None
    """evaluations in all final scores that had not settled; None for other metrics and scores"""


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

    def scored(self, env: str) -> dict[str, Row]:
        """The rows of a task, or of all (""), with a score in the first metric, by label."""
        kind = env, self.rows[0].metric
        return {r.label: r for r in self.rows if (r.env, r.metric) == kind and r.aggregates}

    def matrix(self, row: Row) -> Array:
        """The scores of a row [seeds, tasks]."""
        return np.array(row.scores)[:, None] if row.env else self.scores[row.metric][row.label]

    def tasks_of(self, metric: str) -> list[str]:
        """The tasks that rows over all tasks are about: those in which every seed has a score."""
        return _complete_tasks([r for r in self.rows if r.metric == metric], self.partial)

    def to_pandas(self) -> Any:
        """A row for each task, setting and metric, with scores, aggregates and intervals.

        Over all tasks `env` is "". A cost is a metric `cost_NAME` with its `limit`, and `kept`, the
        number of seeds that keep it. Needs the extra `pandas`.
        """
        return data_frame(self.records())

    def records(self) -> list[dict[str, Any]]:
        """The rows of `to_pandas`, as the CSV file of `longrun compare` has them, too."""

        def ends(name: str, found: ScoreEstimate | None) -> dict[str, float]:
            names = (name, f"{name}_low", f"{name}_high")
            return dict(zip(names, found or [float("nan")] * 3, strict=True))

        found: list[dict[str, Any]] = []
        for row in self.rows:
            names = ("env", "label", "metric", "seeds", "steps", "evaluations", "scores")
            record = {name.replace("label", "setting"): getattr(row, name) for name in names}
            for name in AGGREGATES:
                record |= ends(name, row.aggregates.get(name))
            record["baseline"] = self.baselines.get(row.env)
            found.append(record | ends("improvement", row.improvement))
        for cost in self.costs:
            about = {"env": cost.env, "setting": cost.label, "metric": f"cost_{cost.cost}"}
            rates = {"seeds": len(cost.rates), "scores": cost.rates, "mean": np.mean(cost.rates)}
            kept = {} if cost.limit is None else {"limit": cost.limit, "kept": sum(cost.kept)}
            found.append(about | rates | kept)
        return found


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
        One or several of `average_reward`, `episode_return`, `episode_average_reward`.
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
    given = [results] if isinstance(results, str | Path) else list(results)
    settings = [each for each in given if isinstance(each, Setting)]
    if paths := [each for each in given if not isinstance(each, Setting)]:
        settings += read_results(paths)
    if not settings:
        raise InputError("there is nothing to compare: no setting has evaluations yet")
    metrics = [metrics] if isinstance(metrics, str) else list(metrics)
    for metric in metrics:
        known("metric", metric, SCORES)
    if at is None:
        _warn_of_lengths(settings)
    baselines, costs = find_baselines(settings, baseline), cost_rates(settings, at)
    settings, costs = feasible_first(settings, costs), feasible_first(costs, costs)
    tasks, every = list(dict.fromkeys(s.env for s in settings)), baselines.get("")
    rows = [
        row
        for env in tasks
        for metric in metrics
        for row in _task_rows(
            [s for s in settings if s.env == env], metric, baselines.get(env), at, best
        )
    ]
    count = Counter(s.label for s in settings)
    partial = [label for label in count if count[label] < len(tasks)]
    scores = {m: _matrices([r for r in rows if r.metric == m], tasks, partial) for m in metrics}
    if len(tasks) > 1:
        rows += [
            Row("", label, metric, int(np.isfinite(own[label]).sum()), *_figures(label, own, every))
            for metric, own in scores.items()
            for label in own
            if len(own) > 1  # one setting alone would be scaled from its own worst to its best
        ]
    return Comparison(rows, scores, baselines, tasks, partial, costs)


def find_baselines(settings: Sequence[Setting], wanted: str | None) -> dict[str, str]:
    """The label of each environment's baseline; "" is for all environments together.

    Options may be chosen for each environment separately: then words that fit one setting on each
    ("APO") name a baseline everywhere, but none that all environments share.
    """
    envs = dict.fromkeys(setting.env for setting in settings)
    labels = {env: [s.label for s in settings if s.env == env] for env in envs}
    if wanted is None:
        first = settings[0].label
        found = {env: first if first in own else own[0] for env, own in labels.items()}
    else:
        fitting = {env: own for env, own in labels.items() if _matching(own, wanted)}
        tried = fitting or {"": [s.label for s in settings]}  # which raises an error that lists all
        found = {env: find_baseline(own, wanted) for env, own in tried.items()}
    shared = set(found.values())
    return found | ({"": shared.pop()} if len(shared) == 1 else {})


def find_baseline(labels: Sequence[str], wanted: str) -> str:
    """The label, given as it is, in its short form, or by words that no other label has."""
    matching = _matching(labels, wanted) or [known("baseline", wanted, shortened(labels)[0])]
    if len(matching) > 1:
        raise InputError(f"baseline='{wanted}' fits several: {'; '.join(matching[:4])}")
    return matching[0]


def _matching(labels: Sequence[str], wanted: str) -> list[str]:
    short, _ = shortened(labels)
    exactly = [label for label in short if wanted in (label, short[label])]
    return exactly or [label for label in short if set(wanted.split()) <= set(label.split())]


def _warn_of_lengths(settings: Sequence[Setting]) -> None:
    """Settings that were trained for different numbers of steps are compared with a warning."""
    for env in dict.fromkeys(s.env for s in settings):
        ends = {int(s.steps[-1]) for s in settings if s.env == env}
        if min(ends) < NEARLY * max(ends):
            warn(
                f"settings on {env} end between {min(ends):,} and {max(ends):,} steps;"
                f" longrun compare --at {min(ends)} compares them at the same step"
            )


def _task_rows(
    settings: Sequence[Setting], metric: str, baseline: str | None, at: int | None, best: bool
) -> list[Row]:
    """A setting in which a seed has no score has no aggregates: the other seeds may be biased."""
    scores = {s.label: scores_of(s, metric, at, best) for s in settings}
    complete = {label: own[:, None] for label, (own, _) in scores.items() if np.isfinite(own).all()}
    final = at is None and not best
    return [
        Row(
            s.env,
            s.label,
            metric,
            len(s.seeds),
            *_figures(s.label, complete, baseline),
            steps=scores[s.label][1],
            scores=tuple(complete[s.label][:, 0].tolist()) if s.label in complete else (),
            evaluations=final_evaluations(s) if final else None,
            unsettled=unsettled_evaluations(s) if final and metric == SCORES[0] else None,
        )
        for s in settings
    ]


def _figures(
    label: str, scores: Mapping[str, Array], baseline: str | None
) -> tuple[dict[str, ScoreEstimate], ScoreEstimate | None]:
    """Aggregates and the improvement over the baseline, as far as there are scores."""
    if label not in scores:
        return {}, None
    aggregates = estimates(scores[label], np.random.default_rng(SEED))
    if baseline is None or label == baseline or baseline not in scores:
        return aggregates, None
    return aggregates, improvement(scores[label], scores[baseline])


def _complete_tasks(rows: Sequence[Row], partial: Sequence[str]) -> list[str]:
    """Tasks on which every seed of the settings that are on all tasks has a score."""
    without = {row.env for row in rows if not row.scores and row.label not in partial}
    return [env for env in dict.fromkeys(row.env for row in rows) if env and env not in without]


def _matrices(
    rows: Sequence[Row], tasks: Sequence[str], partial: Sequence[str]
) -> dict[str, Array]:
    """Scores [seeds, tasks] of each setting: of one task raw, of several normalised."""
    if len(tasks) == 1:
        return {row.label: np.array(row.scores)[:, None] for row in rows if row.scores}
    complete = _complete_tasks(rows, partial)
    own = {(row.env, row.label): np.array(row.scores) for row in rows}
    labels = dict.fromkeys(row.label for row in rows if row.label not in partial)
    if not labels or not complete:
        return {}
    return normalised(
        {label: as_matrix([own[task, label] for task in complete]) for label in labels}
    )
