"""Finished and unfinished runs as numbers: settings, their seeds, curves and intervals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import NamedTuple

import numpy as np

from longrun.config import known
from longrun.envs.spaces import Array
from longrun.errors import InputError
from longrun.results.labels import Choice, labels_of, names_of
from longrun.results.run_files import Rows, Run, columns_of, find_runs, listed, read_columns, warn
from longrun.train.evaluation import student_reach

EVALUATIONS = "evaluations.csv"
METRICS = "metrics.csv"
EVALUATION_COLUMNS = (
    "average_reward",
    "average_reward_low",
    "average_reward_high",
    "episode_return",
    "episode_length",
)
NEARLY = 0.9
"""A seed that is so far on the way belongs to the curve; one that stopped earlier does not."""


@dataclass(frozen=True)
class Setting:
    """Replicas that differ in their seeds alone, of one run or of many."""

    env: str
    label: str
    """algorithm, what differs from its preset, and what differs between the settings shown"""
    seeds: tuple[int, ...]
    steps: Array
    """[K], where all of them have a row"""
    values: dict[str, Array]
    """[K, seeds] for each column"""


class _Curve(NamedTuple):
    """One replica."""

    env: str
    label: str
    seed: int
    run: Run
    steps: Array
    """[K], rising"""
    values: dict[str, Array]
    """[K]"""


def read_run(path: Path) -> list[Setting]:
    """The settings of a run folder, or a ValueError that says what is missing."""
    return read_results([path])


def read_results(paths: Sequence[Path]) -> list[Setting]:
    """Evaluations of runs and sweeps, replicas of a setting together wherever they lie.

    Besides the columns of evaluations.csv there is `episode_average_reward`, the paper's second
    metric: reward per step within episodes, NaN where none ended.

    - A curve ends at the last step that half of its seeds have reached. Seeds that did not get
      within 90 % of it are left out with a warning: they have no final score, and would cut short
      those that have. Beware: if they stopped because they failed, the others look too good.
    - The same setting with the same seed from two places is two settings, which have the place's
      name in their labels: these may be two versions of a program, and are no independent seeds.
    - Runs of a sweep that have not been evaluated yet are left out with a warning.
    """
    settings = _read(paths, EVALUATIONS, EVALUATION_COLUMNS)
    for setting in settings:
        values = setting.values
        with np.errstate(invalid="ignore", divide="ignore"):
            values["episode_average_reward"] = values["episode_return"] / values["episode_length"]
    return settings


def read_metrics(paths: Sequence[Path], columns: Sequence[str]) -> list[Setting]:
    """The same settings as curves of training, such as `value_mean`: a row for each iteration.

    A column that an algorithm does not have is NaN; one that none has is a ValueError.
    """
    names = metric_names(paths)
    for column in columns:
        known("metric", column, names)
    return _read(paths, METRICS, columns)


def metric_names(paths: Sequence[Path]) -> list[str]:
    """All that metrics.csv of these runs tell of."""
    headers = [columns_of(run.path / METRICS) for run in find_runs(paths)]
    names = dict.fromkeys(name for header in headers for name in header)
    return [name for name in names if name not in ("replica", "seed", "step", "")]


def _read(paths: Sequence[Path], file: str, columns: Sequence[str]) -> list[Setting]:
    runs = find_runs(paths)
    rows = {r.path: read_columns(r.path / file, columns, len(r.config["replicas"])) for r in runs}
    missing = [run for run in runs if not len(rows[run.path].step)]
    _tell_of(missing, given=paths, everything=len(missing) == len(runs), file=file)
    places = [(run, index) for run in runs for index in range(len(run.config["replicas"]))]
    labels = labels_of([Choice.of(r.config, r.config["replicas"][i]) for r, i in places])
    curves = [
        _curve(run, index, label, rows[run.path], columns)
        for (run, index), label in zip(places, labels, strict=True)
        if run not in missing
    ]
    groups: dict[tuple[str, str], list[_Curve]] = {}
    for curve in _kept_apart(curves):
        groups.setdefault((curve.env, curve.label), []).append(curve)
    begun = [group for group in groups.values() if any(len(curve.steps) for curve in group)]
    return [_setting(group, columns) for group in begun]


def _curve(run: Run, index: int, label: str, rows: Rows, columns: Sequence[str]) -> _Curve:
    """One replica of a run; of two rows for the same step the later one counts."""
    mine = np.flatnonzero(rows.replica == index)[::-1]
    steps, first = np.unique(rows.step[mine], return_index=True)
    places, nothing = mine[first], np.full(len(steps), np.nan)
    values = {c: rows.values[c][places] if c in rows.values else nothing for c in columns}
    seed = run.config["replicas"][index]["seed"]
    return _Curve(run.config["env"], label, seed, run, steps, values)


def _tell_of(missing: Sequence[Run], given: Sequence[Path], everything: bool, file: str) -> None:
    """A run without rows that was asked for by name is an error, others are not."""
    what = "evaluations" if file == EVALUATIONS else "metrics"
    fix = "train longer or with --eval-every" if file == EVALUATIONS else "train longer"
    for run in missing:
        if everything or run.path in given:
            raise InputError(f"'{run.path}' has no {what} yet; {fix}")
    for source in dict.fromkeys(run.source for run in missing):
        names = [run.path.name for run in missing if run.source == source]
        warn(f"'{source}': without {what} yet, and left out: {listed(names)}")


def _kept_apart(curves: list[_Curve]) -> list[_Curve]:
    """Two curves of the same setting and seed get labels that tell where they come from."""
    for place in ("source", "path"):  # two sweeps, or two runs of a sweep
        counts = Counter((c.env, c.label, c.seed) for c in curves)
        twice = {label for (_, label, _), count in counts.items() if count > 1}
        homes: dict[str, set[Path]] = {label: set() for label in twice}
        for c in curves:
            if c.label in twice:
                homes[c.label].add(getattr(c.run, place))
        apart = {label for label in twice if len(homes[label]) > 1}
        names = names_of({home for label in apart for home in homes[label]})
        curves = [
            c._replace(label=f"{names[getattr(c.run, place)]}: {c.label}")
            if c.label in apart
            else c
            for c in curves
        ]
    return curves


def _setting(curves: list[_Curve], columns: Sequence[str]) -> Setting:
    """Replicas of one setting, by seed, at the steps that they share."""
    by_seed = {c.seed: c for c in sorted(curves, key=lambda c: c.seed)}
    chosen = _far_enough(list(by_seed.values()))
    steps = reduce(np.intersect1d, [c.steps for c in chosen])
    first = chosen[0]
    if not len(steps):
        warn(f"{first.env} {first.label}: its seeds were never evaluated at the same step")
    places = [np.searchsorted(c.steps, steps) for c in chosen]
    values = {
        name: np.stack([c.values[name][at] for c, at in zip(chosen, places, strict=True)], -1)
        for name in columns
    }
    return Setting(first.env, first.label, tuple(c.seed for c in chosen), steps, values)


def _far_enough(curves: list[_Curve]) -> list[_Curve]:
    """Those that got about as far as half of them did; a warning tells of the others."""
    reached = {c.seed: int(c.steps[-1]) if len(c.steps) else 0 for c in curves}
    begun = sorted(filter(None, reached.values()), reverse=True)
    end = begun[(len(begun) - 1) // 2]
    name = f"{curves[0].env} {curves[0].label}"
    behind = [f"{seed} at {last:,}" for seed, last in reached.items() if last < NEARLY * end]
    if behind:
        warn(f"{name}: others are at {end:,} steps; left out is seed {listed(behind)}")
    ahead = [f"{seed} at {last:,}" for seed, last in reached.items() if NEARLY * last > end]
    if ahead:
        warn(
            f"{name}: shown up to {end:,} steps, as far as half of its seeds; seed {listed(ahead)}"
        )
    return [c for c in curves if reached[c.seed] >= NEARLY * end]


def mean_interval(values: Array, confidence: float = 0.95) -> tuple[Array, Array, Array]:
    """Mean over the last axis (seeds) and Student's interval of it; [..., n] -> three [...]."""
    mean = values.mean(-1)
    if values.shape[-1] < 2:
        return mean, mean, mean
    reach = student_reach(values, confidence)
    return mean, mean - reach, mean + reach
