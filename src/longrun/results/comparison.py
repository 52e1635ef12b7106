"""Settings side by side: what each scores on every task and over all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from longrun.config import known
from longrun.envs.spaces import Array
from longrun.errors import InputError
from longrun.results.labels import shortened
from longrun.results.read import Setting
from longrun.results.statistics import (
    Estimate,
    as_matrix,
    estimates,
    improvement,
    normalised,
    scores_of,
)
from longrun.results.tables import TextTable, estimate_text, number_text

METRICS = {
    "average_reward": "average reward",
    "episode_return": "episode return",
    "episode_average_reward": "reward per step in episodes",
}
SEED = 0
"""Of every bootstrap, so that the same runs give the same table and a row does not depend on which
others there are."""


@dataclass(frozen=True)
class Row:
    """A setting in one metric, on a task or over all tasks."""

    env: str
    """"" over all tasks, where scores are normalised"""
    label: str
    metric: str
    seeds: int
    steps: int | None
    aggregates: dict[str, Estimate]
    """iqm, mean and median; none of them where a seed has no score"""
    improvement: Estimate | None
    """probability to beat the baseline; None for itself and where either has no score"""


@dataclass(frozen=True)
class Comparison:
    rows: list[Row]
    baselines: dict[str, str]
    """the label to beat, for each task, and for all of them ("") if they share it"""
    tasks: list[str]
    """those that the rows over all tasks are about"""
    partial: list[str]
    """labels that have not been run on all of them, and are only in the tasks' own tables"""


Scores = dict[str, dict[str, tuple[Array, int]]]
"""For each environment and label the scores [seeds] and the step that they are of."""


def compare(
    settings: Sequence[Setting],
    metrics: Sequence[str] = tuple(METRICS),
    baseline: str | None = None,
    at: int | None = None,
    best: bool = False,
) -> Comparison:
    """Everything that the tables say; baselines are the first settings unless named."""
    if not settings:
        raise InputError("there is nothing to compare: no setting has evaluations yet")
    chosen = find_baselines(settings, baseline)
    tasks = list(dict.fromkeys(s.env for s in settings))
    scores = {metric: _scores(settings, metric, at, best) for metric in metrics}
    rows = [
        row
        for env in tasks
        for m in metrics
        for row in _task_rows(env, m, scores[m][env], chosen.get(env))
    ]
    if len(tasks) > 1:
        for metric in metrics:
            rows += _overall_rows(metric, _overall(scores[metric]), chosen.get(""))
    on = Counter(s.label for s in settings)
    return Comparison(rows, chosen, tasks, [n for n, count in on.items() if count < len(tasks)])


def scores_by_label(
    settings: Sequence[Setting], metric: str, at: int | None = None, best: bool = False
) -> dict[str, Array]:
    """Scores [seeds, tasks] of each setting, as rliable takes them: of one task raw, of several
    normalised."""
    scores = _scores(settings, metric, at, best)
    if len(scores) > 1:
        found = _overall(scores)
    else:
        (task,) = scores.values()
        found = {label: own[:, None] for label, (own, _) in task.items() if np.isfinite(own).all()}
    if not found:
        raise InputError(f"no setting has a score in {metric} for all of its seeds and tasks")
    return found


def _scores(settings: Sequence[Setting], metric: str, at: int | None, best: bool) -> Scores:
    scores: Scores = {}
    for s in settings:
        scores.setdefault(s.env, {})[s.label] = scores_of(s, metric, at, best)
    return scores


def find_baselines(settings: Sequence[Setting], wanted: str | None) -> dict[str, str]:
    """For each environment the label that is meant there; "" stands for all of them together.

    Options may be chosen for each environment by itself: then the words that fit one setting on
    each ("APO") name a baseline everywhere, but none that all environments share.
    """
    labels: dict[str, list[str]] = {}
    for setting in settings:
        labels.setdefault(setting.env, []).append(setting.label)
    first = settings[0].label
    found = {
        env: (first if first in own else own[0]) if wanted is None else find_baseline(own, wanted)
        for env, own in labels.items()
        if wanted is None or _meant(own, wanted)
    }
    if not found:
        find_baseline([setting.label for setting in settings], wanted)  # which says why
    shared = set(found.values())
    return found | ({"": shared.pop()} if len(shared) == 1 else {})


def find_baseline(labels: Sequence[str], wanted: str | None) -> str:
    """The label that is meant: itself, its short form, or the only one with all these words."""
    if wanted is None:
        return labels[0]
    meant = _meant(labels, wanted)
    if len(meant) == 1:
        return meant[0]
    if meant:
        raise InputError(f"--baseline '{wanted}' fits several: {'; '.join(meant[:4])}")
    return known("baseline", wanted, shortened(labels)[0])


def _meant(labels: Sequence[str], wanted: str) -> list[str]:
    short, _ = shortened(labels)
    exactly = [label for label in short if wanted in (label, short[label])]
    words = wanted.split()
    return exactly or [label for label in short if all(w in label.split() for w in words)]


def _overall(scores: Scores) -> dict[str, Array]:
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
    """A seed without a score is not left out: the others alone might tell a better story."""
    whole = {label: own[:, None] for label, (own, _) in scores.items() if np.isfinite(own).all()}
    return [
        Row(env, label, metric, len(own), steps, *_figures(label, whole, baseline))
        for label, (own, steps) in scores.items()
    ]


def _overall_rows(metric: str, scores: Mapping[str, Array], baseline: str | None) -> list[Row]:
    return [
        Row(
            "", label, metric, int(np.isfinite(own).sum()), None, *_figures(label, scores, baseline)
        )
        for label, own in scores.items()
    ]


def _figures(
    label: str, scores: Mapping[str, Array], baseline: str | None
) -> tuple[dict[str, Estimate], Estimate | None]:
    """Aggregates and the improvement over the baseline, as far as there are scores."""
    if label not in scores:
        return {}, None
    found = estimates(scores[label], np.random.default_rng(SEED))
    if baseline is None or label == baseline or baseline not in scores:
        return found, None
    return found, improvement(scores[label], scores[baseline], np.random.default_rng(SEED))


def text_tables(found: Comparison) -> list[TextTable]:
    """One table for each task, and one over all of them where there are several."""
    short, shared = shortened(row.label for row in found.rows)
    metrics = list(dict.fromkeys(row.metric for row in found.rows))
    tables = []
    for env in dict.fromkeys(row.env for row in found.rows):
        rows = [row for row in found.rows if row.env == env]
        shown = [m for m in metrics if any(r.aggregates for r in rows if r.metric == m)]
        if shown:
            tables.append(_text_table(rows, shown, short, found, shared))
    return tables


def _text_table(
    rows: Sequence[Row],
    metrics: Sequence[str],
    short: Mapping[str, str],
    found: Comparison,
    shared: str,
) -> TextTable:
    """Interquartile means in all metrics; what follows the first of them is about it alone."""
    over_all, baseline = rows[0].env == "", found.baselines.get(rows[0].env)
    aspects = ("mean", "median") if over_all else ("mean",)
    first, *others = metrics
    header = ["setting", *(["runs"] if over_all else ["seeds", "steps"]), METRICS[first], *aspects]
    header += ["P(better)", *(METRICS[metric] for metric in others)]
    lines = []
    for label in dict.fromkeys(row.label for row in rows):
        of = {row.metric: row for row in rows if row.label == label}
        main = of[first]
        line = [short[label], str(main.seeds), *([] if over_all else [f"{main.steps:,}"])]
        line += [estimate_text(main.aggregates.get("iqm"))]
        line += [
            number_text(main.aggregates[a].value, 4) if main.aggregates else "-" for a in aspects
        ]
        line += ["baseline" if label == baseline else estimate_text(main.improvement)]
        line += [estimate_text(of[metric].aggregates.get("iqm")) for metric in others]
        lines.append(line)
    place = rows[0].env or f"{len(found.tasks)} tasks, each from 0 (worst seed) to 1 (best seed)"
    notes = []
    if baseline is not None:
        beaten = f"than one of {short[baseline]}"
        notes.append(f"P(better): that a seed has more {METRICS[first]} {beaten}")
    notes += [f"all with {shared}"] if shared else []
    if over_all and found.partial:
        notes.append(f"not on all tasks: {', '.join(short[label] for label in found.partial)}")
    title = f"{place}: interquartile mean over seeds [95 % interval]"
    return TextTable(title, header, lines, "; ".join(notes))


def raw_rows(found: Comparison) -> list[dict[str, object]]:
    """For a CSV: a line for each task, setting and metric, all numbers in full."""
    lines = []
    for row in found.rows:
        line: dict[str, object] = {
            "env": row.env or f"{len(found.tasks)} tasks, normalised",
            "setting": row.label,
            "metric": row.metric,
            "seeds": row.seeds,
            "steps": "" if row.steps is None else row.steps,
        }
        for name in ("iqm", "mean", "median"):
            line |= _flat(name, row.aggregates.get(name))
        lines.append(
            line
            | {"baseline": found.baselines.get(row.env, "")}
            | _flat("improvement", row.improvement)
        )
    return lines


def _flat(name: str, found: Estimate | None) -> dict[str, object]:
    numbers = found or Estimate(*[float("nan")] * 3)
    names = (name, f"{name}_low", f"{name}_high")
    return {n: "" if np.isnan(x) else f"{x:.6g}" for n, x in zip(names, numbers, strict=True)}
