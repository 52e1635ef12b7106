"""The curves of settings: evaluations and training metrics, at the steps that seeds share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from longrun.base.checks import known
from longrun.base.errors import InputError, listed, warn
from longrun.lab.results.settings import Paths, Scan, Setting, SettingReplica, scan
from longrun.learning.envs.spaces import Array
from longrun.learning.options.config import Discounted
from longrun.learning.options.config_options import value_text
from longrun.learning.runs.run_csv import Rows, columns_of, read_rows

EVALUATIONS = "evaluations.csv"
METRICS = "metrics.csv"
GAIN = "gain"
SETTLED = "settled"
"""Column of evaluations.csv: 0 where the steps cannot tell the long-run average reward."""
NEARLY = 0.9
"""A seed that has reached this share of the others' steps belongs to the curve."""


class Results(list[Setting]):
    """Settings, in a list that can become a data frame."""

    def to_pandas(self) -> Any:
        """A row for each step of each seed of each setting.

        Columns: env, setting (its label), algorithm, preset, the options in which the settings
        differ (None where an algorithm lacks one), seed, step, and what was measured. Needs the
        extra `pandas`.
        """
        names = dict.fromkeys(name for setting in self for name in vars(setting.config))
        differing = [n for n in names if len({vars(s.config).get(n) for s in self}) > 1]
        rows = []
        for s in self:
            about: dict[str, Any] = {"env": s.env, "setting": s.label}
            about |= {"algorithm": s.config.algorithm, "preset": s.preset}
            options = {name: vars(s.config).get(name) for name in differing}
            for name, value in options.items():
                about[name] = value_text(value) if isinstance(value, tuple) else value
            rows += [
                {**about, "seed": seed, "step": int(step)}
                | {name: float(values[i, k]) for name, values in s.values.items()}
                for k, seed in enumerate(s.seeds)
                for i, step in enumerate(s.steps)
            ]
        return data_frame(rows)


def data_frame(rows: Sequence[dict[str, Any]]) -> Any:
    """A data frame of pandas, which is imported when one is asked for."""
    try:
        import pandas
    except ImportError:
        raise InputError("to_pandas needs a package; pip install pandas") from None
    return pandas.DataFrame(rows)


def read_results(paths: Paths) -> Results:
    """Evaluations of runs and sweeps, replicas of a setting together wherever they are.

    Parameters
    ----------
    paths
        One or several run folders, sweep folders, or folders of these.

    Returns
    -------
    settings
        Besides the columns of evaluations.csv (`cost_NAME` for each recorded cost among them) there
        is `episode_average_reward`, the paper's second metric: reward per step within episodes, NaN
        where none ended. `.to_pandas()` makes a data frame of them.

    Notes
    -----
    - A curve ends at the last step that half of its seeds have reached. Seeds that did not get
      within 90 % of it are left out with a warning: they have no final score, and would shorten the
      curves of the others. If they stopped because they failed, the mean of the others is too high.
    - The same setting with the same seed from two places is two settings, which have the place's
      name in their labels: these may be two versions of a program, and are no independent seeds.
    - Runs that have not been evaluated yet are left out with a warning, as are settings whose seeds
      were never evaluated at the same step.
    """
    return Results(evaluations_of(scan(paths)))


def read_metrics(paths: Paths, columns: Sequence[str]) -> Results:
    """The same settings as curves of training, such as `value_mean`: a row for each iteration.

    A column that an algorithm does not have is NaN, as is the gain of a discounted one, which
    learns none; one that none has is an InputError.
    """
    return Results(training_of(scan(paths), columns))


def evaluations_of(found: Scan) -> list[Setting]:
    """What `read_results` returns."""
    settings = _read(found, EVALUATIONS, measured(found, EVALUATIONS))
    for setting in settings:
        values = setting.values
        with np.errstate(invalid="ignore", divide="ignore"):
            values["episode_average_reward"] = values["episode_return"] / values["episode_length"]
    return settings


def training_of(found: Scan, columns: Sequence[str]) -> list[Setting]:
    """What `read_metrics` returns."""
    names = measured(found, METRICS)
    for column in columns:
        known("metric", column, names)
    settings = _read(found, METRICS, columns)
    for setting in settings:
        if GAIN in columns and isinstance(setting.config, Discounted):  # the file has zeros
            setting.values[GAIN] = np.full_like(setting.values[GAIN], np.nan)
    return settings


def measured(found: Scan, file: str) -> list[str]:
    """All measured columns of metrics.csv or evaluations.csv of these runs."""
    headers = [columns_of(run.path / file) for run in found.runs]
    return list(dict.fromkeys(name for header in headers for name in header))


class _Curve(NamedTuple):
    """One replica at rising steps [K], with values [K] of each column."""

    replica: SettingReplica
    steps: Array
    values: dict[str, Array]

    @property
    def last(self) -> int:
        return int(self.steps[-1]) if len(self.steps) else 0


def _read(found: Scan, file: str, columns: Sequence[str]) -> list[Setting]:
    rows = {
        run.path: read_rows(run.path / file, columns, len(run.spec.seeds)) for run in found.runs
    }
    missing = [run.path for run in found.runs if not len(rows[run.path].step)]
    _report_missing(missing, found, file)
    settings = []
    for each in found.settings:
        replicas = [replica for replica in each.replicas if replica.run not in missing]
        curves = [_curve(replica, rows[replica.run], columns) for replica in replicas]
        if any(curve.last for curve in curves):
            settings += _with_curves(each, curves, columns)
    return settings


def _curve(replica: SettingReplica, rows: Rows, columns: Sequence[str]) -> _Curve:
    """One replica of a run; of two rows for the same step the later one counts."""
    mine = np.flatnonzero(rows.replica == replica.index)[::-1]
    steps, first = np.unique(rows.step[mine], return_index=True)
    places, nothing = mine[first], np.full(len(steps), np.nan)
    values = {c: rows.values[c][places] if c in rows.values else nothing for c in columns}
    return _Curve(replica, steps, values)


def _report_missing(missing: Sequence[Path], found: Scan, file: str) -> None:
    """Runs without rows are left out with a warning; it is an error if no others remain."""
    what = "evaluations" if file == EVALUATIONS else "metrics"
    fix = "train longer or with --eval-every" if file == EVALUATIONS else "train longer"
    if missing and len(missing) == len(found.runs):
        raise InputError(f"'{missing[0]}' has no {what} yet; {fix}")
    if missing:
        they = "they have" if len(missing) > 1 else "it has"
        names = listed(f"'{path}'" for path in missing)
        warn(f"{names}: left out because {they} no {what} yet; {fix}")


def _with_curves(found: Setting, curves: Sequence[_Curve], columns: Sequence[str]) -> list[Setting]:
    """The setting with its replicas at the steps that they share; none if they share no step."""
    name = f"{found.env} {found.label}"
    chosen = _far_enough(name, curves)
    steps = reduce(np.intersect1d, [curve.steps for curve in chosen])
    if not len(steps):
        warn(f"{name}: left out because its seeds were never evaluated at the same step")
        return []
    places = [np.searchsorted(curve.steps, steps) for curve in chosen]
    values = {
        column: np.stack([c.values[column][at] for c, at in zip(chosen, places, strict=True)], -1)
        for column in columns
    }
    replicas = tuple(curve.replica for curve in chosen)
    return [replace(found, replicas=replicas, steps=steps, values=values)]


def _far_enough(name: str, curves: Sequence[_Curve]) -> list[_Curve]:
    """The curves that got about as far as half of them did; a warning names the others."""
    reached = {curve.replica.seed: curve.last for curve in curves}
    started = sorted(filter(None, reached.values()), reverse=True)
    end = started[(len(started) - 1) // 2]
    behind = [f"{seed} at {last:,}" for seed, last in reached.items() if last < NEARLY * end]
    if behind:
        warn(f"{name}: others are at {end:,} steps; left out is seed {listed(behind)}")
    ahead = [f"{seed} at {last:,}" for seed, last in reached.items() if NEARLY * last > end]
    if ahead:
        warn(
            f"{name}: shown up to {end:,} steps, as far as half of its seeds; seed {listed(ahead)}"
        )
    return [curve for curve in curves if curve.last >= NEARLY * end]
