"""What the report is about: the settings of a folder with their curves, and what went wrong."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from longrun.base.errors import FolderError
from longrun.base.files import read_json
from longrun.lab.results.comparison import Comparison, compare
from longrun.lab.results.labels import option_texts
from longrun.lab.results.metric_names import is_drawn
from longrun.lab.results.read import EVALUATIONS, METRICS, evaluations_of, measured, training_of
from longrun.lab.results.settings import FoundRun, Scan, Setting, scan
from longrun.learning.runs.run_csv import last_step
from longrun.learning.runs.run_folder import is_finished
from longrun.learning.runs.spec import require_entries


@dataclass(frozen=True)
class ReportedSetting:
    """A setting that has been evaluated, or at least trained for an iteration."""

    found: Setting
    evaluation: Setting | None
    training: Setting | None

    @property
    def choices(self) -> dict[str, str]:
        """All that settings may differ in, as text."""
        about = {"algorithm": self.found.config.algorithm, "preset": self.found.preset}
        options = option_texts(self.found.config)
        return about | {name: text for name, text in options.items() if name != "costs"}


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
    comparison: Comparison | None
    """None if no setting has been evaluated"""
    problems: list[Problem]
    commands: dict[Path, list[Any]]
    """the command of each sweep that has one"""


def read_folder(path: Path) -> Folder:
    """A run, a sweep or a folder of these, with the training metrics that the report draws."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        found = _scan(path)
        trained = _with_rows(found, METRICS)
        drawn = [name for name in measured(trained, METRICS) if is_drawn(name)]
        evaluations = evaluations_of(_with_rows(found, EVALUATIONS))
        training = training_of(trained, drawn)
        comparison = compare(evaluations) if evaluations else None
    notes = dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, UserWarning))
    sources = dict.fromkeys(run.source for run in found.runs) or [path]
    plans = {source: _plan(source) for source in sources if (source / "sweep.json").exists()}
    commands = {source: plan["command"] for source, plan in plans.items() if plan.get("command")}
    evaluated, learned = {s.key: s for s in evaluations}, {s.key: s for s in training}
    places = {s.key: s for s in found.settings}
    settings = [
        ReportedSetting(places[key], evaluated.get(key), learned.get(key))
        for key in evaluated | learned
    ]
    problems = [*_problems(plans, found.runs), *(Problem("", "note", note) for note in notes)]
    return Folder(path, found.runs, settings, comparison, problems, commands)


def _scan(path: Path) -> Scan:
    """Empty for a sweep in which all runs failed: then the report lists the failures."""
    try:
        return scan(path)
    except ValueError:
        if not _failures(path):
            raise
        return Scan([], [])


def _with_rows(found: Scan, file: str) -> Scan:
    """Only runs that have the file: the others are listed, and need no note of the reader."""
    runs = [run for run in found.runs if (run.path / file).exists()]
    paths = {run.path for run in runs}
    settings = [
        replace(each, replicas=tuple(r for r in each.replicas if r.run in paths))
        for each in found.settings
    ]
    return Scan(runs, settings)


def _problems(plans: Mapping[Path, Any], runs: Sequence[FoundRun]) -> list[Problem]:
    """Runs that failed, those of a plan that have not started, and unfinished ones."""
    failures = [(source, failure) for source in plans for failure in _failures(source)]
    failed = {(source, failure.run) for source, failure in failures}
    waiting = [
        Problem(name, "waiting", "not started")
        for source, plan in plans.items()
        for name in plan["runs"]
        if (source, name) not in failed and not (source / "runs" / name / "config.json").exists()
    ]
    others = [_shortcoming(run) for run in runs if (run.source, run.path.name) not in failed]
    return [*(failure for _, failure in failures), *waiting, *filter(None, others)]


def _shortcoming(run: FoundRun) -> Problem | None:
    """What a run that has not failed lacks, if anything."""
    steps = run.spec.steps
    lacking = "" if (run.path / EVALUATIONS).exists() else "no evaluation yet"
    if not is_finished(run.path, steps):
        done = f"{last_step(run.path / METRICS):,} of {steps:,} steps"
        return Problem(run.path.name, "unfinished", ", ".join(filter(None, (done, lacking))))
    return Problem(run.path.name, "finished", lacking) if lacking else None


def _plan(source: Path) -> dict[str, Any]:
    """The content of a sweep.json."""
    file = source / "sweep.json"
    content: dict[str, Any] = read_json(file)
    require_entries(content, {"runs": dict, "command": list | None}, f"'{file}'")
    return content


def _failures(source: Path) -> list[Problem]:
    """The runs in the sweep's failures.json, if there is one."""
    file = source / "failures.json"
    content = read_json(file) if file.exists() else []
    if not isinstance(content, list):
        raise FolderError(f"'{file}' is damaged: it is not a list")
    found = []
    for each in content:
        require_entries(each, {"run": str, "error": str, "attempts": int}, f"'{file}'")
        times = "" if each["attempts"] == 1 else f" ({each['attempts']} attempts)"
        found.append(Problem(each["run"], "failed", each["error"] + times))
    return found
