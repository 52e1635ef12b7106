"""What the report is about: the settings of a folder with their curves, and what went wrong."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from longrun.base.files import read_json
from longrun.lab.results.metric_names import is_drawn
from longrun.lab.results.read import (
    EVALUATIONS,
    METRICS,
    Setting,
    evaluations_of,
    training_metrics,
    training_of,
)
from longrun.lab.results.run_files import FoundRun
from longrun.lab.results.settings import FoundSetting, Scan, scan
from longrun.learning.runs.run_csv import last_step, read_rows
from longrun.learning.runs.run_folder import is_finished


@dataclass(frozen=True)
class ReportedSetting:
    """A setting that has been evaluated, or at least trained for an iteration."""

    found: FoundSetting
    evaluation: Setting | None
    training: Setting | None

    @property
    def env(self) -> str:
        return self.found.env

    @property
    def label(self) -> str:
        return self.found.label

    @property
    def choices(self) -> dict[str, Any]:
        """All that settings may differ in."""
        algorithm, preset, options = self.found.choice
        return {"algorithm": algorithm, "preset": preset, **options}


class Problem(NamedTuple):
    """A run that failed or is not finished, or a warning of the reader of the runs."""

    run: str
    state: str
    text: str


@dataclass(frozen=True)
class Folder:
    path: Path
    runs: list[FoundRun]
    settings: list[ReportedSetting]
    problems: list[Problem]
    sweeps: dict[Path, dict[str, Any]]
    """the content of each sweep.json, by the sweep's folder"""


def read_folder(path: Path) -> Folder:
    """A run, a sweep or a folder of these, with the training metrics that the report draws."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        found = _scan(path)
        evaluated, trained = _with_rows(found, EVALUATIONS), _with_rows(found, METRICS)
        known = [name for name in training_metrics(trained) if is_drawn(name)]
        evaluations = _or_empty(lambda: evaluations_of(evaluated))
        training = _or_empty(lambda: training_of(trained, known))
    sources = list(dict.fromkeys(run.source for run in found.runs)) or [path]
    failures = [(source, problem) for source in sources for problem in _failures(source)]
    failed = {(source, problem.run) for source, problem in failures}
    problems = [problem for _, problem in failures]
    problems += [problem for source in sources for problem in _waiting(source)]
    left = [run for run in found.runs if (run.source, run.path.name) not in failed]
    problems += [_unfinished(run) for run in left if not _is_finished(run)]
    notes = dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, UserWarning))
    problems += [Problem("", "note", note) for note in notes]
    settings = _settings(found, evaluations, training)
    sweeps = {source: content for source in sources if (content := _sweep(source))}
    return Folder(path, found.runs, settings, problems, sweeps)


def _scan(path: Path) -> Scan:
    """Empty for a sweep in which all runs failed: then the report lists the failures."""
    try:
        return scan(path)
    except ValueError:
        if not _failures(path):
            raise
        return Scan([], [])


def _with_rows(found: Scan, file: str) -> Scan:
    """Drop unfinished runs that have no row: they are listed and need no note of the reader."""
    empty = {run.path for run in found.runs if not _is_finished(run) and not _has_rows(run, file)}
    settings = [
        replace(each, replicas=tuple(r for r in each.replicas if r.run not in empty))
        for each in found.settings
    ]
    return Scan([run for run in found.runs if run.path not in empty], settings)


def _has_rows(run: FoundRun, file: str) -> bool:
    path = run.path / file
    if last_step(path):
        return True  # the last line tells, unless it is damaged
    return bool(len(read_rows(path, [], len(run.config["replicas"])).step))


def _or_empty(read: Callable[[], list[Setting]]) -> list[Setting]:
    """Runs without any row yet, which is an error for other commands, have a report."""
    try:
        return read()
    except ValueError:
        return []


def _settings(
    found: Scan, evaluations: Sequence[Setting], training: Sequence[Setting]
) -> list[ReportedSetting]:
    """Evaluations and training of each setting together, evaluated ones first."""
    evaluated = {(s.env, s.label): s for s in evaluations}
    trained = {(s.env, s.label): s for s in training}
    places = {(s.env, s.label): s for s in found.settings}
    return [
        ReportedSetting(places[key], evaluated.get(key), trained.get(key))
        for key in dict.fromkeys([*evaluated, *trained])
    ]


def _is_finished(run: FoundRun) -> bool:
    return is_finished(run.path, run.config.get("steps", 0))


def _unfinished(run: FoundRun) -> Problem:
    done = last_step(run.path / "metrics.csv")
    text = f"{done:,} of {run.config.get('steps', 0):,} steps"
    if not (run.path / "evaluations.csv").exists():
        text += ", no evaluation yet"
    return Problem(run.path.name, "unfinished", text)


def _sweep(source: Path) -> dict[str, Any]:
    file = source / "sweep.json"
    content = read_json(file) if file.exists() else {}
    return content if isinstance(content, dict) else {}


def _failures(source: Path) -> list[Problem]:
    """The runs in the sweep's failures.json."""
    file = source / "failures.json"
    found = []
    content = read_json(file) if file.exists() else []
    for each in content if isinstance(content, list) else []:
        if not isinstance(each, dict):
            continue
        attempts = each.get("attempts", 1)
        times = "" if attempts == 1 else f" ({attempts} attempts)"
        text = str(each.get("error", "no reason was recorded")).strip()
        found.append(Problem(str(each.get("run", "?")), "failed", text + times))
    return found


def _waiting(source: Path) -> list[Problem]:
    """Runs of the sweep's plan that have not started."""
    planned = _sweep(source).get("runs")
    runs = [run for run in planned if isinstance(run, dict)] if isinstance(planned, list) else []
    names = [run["name"] for run in runs if isinstance(run.get("name"), str)]
    failed = {problem.run for problem in _failures(source)}
    return [
        Problem(name, "waiting", "not started")
        for name in names
        if name not in failed and not (source / "runs" / name / "config.json").exists()
    ]
