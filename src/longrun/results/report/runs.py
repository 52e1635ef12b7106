"""What a folder holds: its runs as settings, where each seed lies, and what went wrong."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from longrun.files import read_json
from longrun.results.labels import Choice, labels_of
from longrun.results.read import Setting, metric_names, read_metrics, read_results
from longrun.results.run_files import Run, find_runs


class Replica(NamedTuple):
    """One seed: where its policy lies."""

    run: Run
    number: int
    seed: int


@dataclass(frozen=True)
class Group:
    """A setting, evaluated or not, and what it consists of."""

    env: str
    label: str
    choice: Choice
    replicas: list[Replica]
    evaluation: Setting | None
    training: Setting | None

    @property
    def choices(self) -> dict[str, Any]:
        """All that a setting may differ in from another one."""
        algorithm, preset, options = self.choice
        return {"algorithm": algorithm, "preset": preset, **options}


class Problem(NamedTuple):
    """A run that failed or is not done yet, or what a reader of the runs should know."""

    run: str
    state: str
    text: str


@dataclass(frozen=True)
class Folder:
    path: Path
    runs: list[Run]
    groups: list[Group]
    problems: list[Problem]
    sweep: dict[str, Any]
    """what sweep.json says; nothing for a run folder"""


def read_folder(path: Path, metrics: Sequence[str]) -> Folder:
    """A run, a sweep or a folder of these, with those of the training metrics that there are."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", UserWarning)
        runs = _runs(path)
        evaluations = _or_nothing(lambda: read_results([path]))
        trainings = _or_nothing(lambda: read_metrics([path], _known(path, metrics)))
    sources = list(dict.fromkeys(run.source for run in runs)) or [path]
    problems = [problem for source in sources for problem in _failures(source)]
    problems += [problem for source in sources for problem in _waiting(source)]
    problems += [_unfinished(run) for run in runs if not is_finished(run)]
    notes = dict.fromkeys(str(w.message) for w in told if issubclass(w.category, UserWarning))
    problems += [Problem("", "note", note) for note in notes]
    return Folder(path, runs, _groups(runs, evaluations, trainings), problems, _sweep(path))


def _runs(path: Path) -> list[Run]:
    """None where all that a sweep has is failures, of which the page then tells."""
    try:
        return find_runs([path])
    except ValueError:
        if not _failures(path):
            raise
        return []


def _known(path: Path, metrics: Sequence[str]) -> list[str]:
    names = metric_names([path])
    return [name for name in metrics if name in names]


def _or_nothing(read: Callable[[], list[Setting]]) -> list[Setting]:
    """A folder whose runs have only begun makes a page that says so."""
    try:
        return read()
    except ValueError:
        return []


def _groups(
    runs: Sequence[Run], evaluations: Sequence[Setting], trainings: Sequence[Setting]
) -> list[Group]:
    """Evaluations and training of each setting together, with the replicas that they tell of."""
    places = [(run, k) for run in runs for k in range(len(run.config["replicas"]))]
    choices = [Choice.of(run.config, run.config["replicas"][k]) for run, k in places]
    labels = labels_of(choices)
    evaluated = {(s.env, s.label): s for s in evaluations}
    trained = {(s.env, s.label): s for s in trainings}
    groups = []
    for env, label in dict.fromkeys([*evaluated, *trained]):
        mine = [
            i
            for i, (run, _) in enumerate(places)
            if run.config["env"] == env and _is_label(label, labels[i], run)
        ]
        assert mine, f"no replica is '{label}'"
        replicas = [
            Replica(run, k, run.config["replicas"][k]["seed"])
            for run, k in (places[i] for i in mine)
        ]
        found = evaluated.get((env, label)), trained.get((env, label))
        groups.append(Group(env, label, choices[mine[0]], replicas, *found))
    return groups


def _is_label(label: str, own: str, run: Run) -> bool:
    """Whether it is the replica's own, or that with the places where the run lies before it."""
    return label.endswith(own) and label.removesuffix(own) in _places(run.path, run.source)


@cache
def _places(path: Path, source: Path) -> set[str]:
    """What `read_results` may put before labels to tell equal settings apart, or nothing."""
    ends = [
        ["/".join(parts[-n:]) for n in range(1, len(parts) + 1)]
        for parts in (path.resolve().parts, source.resolve().parts)
    ]
    alone = {f"{end}: " for each in ends for end in each}
    return {"", *alone, *(f"{inner}: {outer}: " for inner in ends[0] for outer in ends[1])}


def is_finished(run: Run) -> bool:
    """A run that was given more steps is unfinished again, until it writes a new summary."""
    file = run.path / "summary.json"
    if not file.exists():
        return False
    try:
        return bool(read_json(file)["steps"] >= run.config.get("steps", 0))
    except (ValueError, KeyError, TypeError):  # damaged: what it should tell is not known
        return False


def _unfinished(run: Run) -> Problem:
    last = _last_step(run.path / "metrics.csv")
    text = f"{last:,} of {run.config.get('steps', 0):,} steps"
    if not (run.path / "evaluations.csv").exists():
        text += ", no evaluation yet"
    return Problem(run.path.name, "unfinished", text)


def _last_step(file: Path) -> int:
    """That the last whole line tells of, without reading all the others with care."""
    lines = file.read_text(errors="replace").split("\n")[:-1] if file.exists() else []
    try:
        return int(lines[-1].split(",")[lines[0].split(",").index("step")])
    except (IndexError, ValueError):
        return 0


def _sweep(source: Path) -> dict[str, Any]:
    file = source / "sweep.json"
    content = read_json(file) if file.exists() else {}
    return content if isinstance(content, dict) else {}


def _failures(source: Path) -> list[Problem]:
    """What the sweep wrote down of runs that it gave up."""
    file = source / "failures.json"
    found = []
    for each in read_json(file) if file.exists() else []:
        attempts = each.get("attempts", 1)
        times = "" if attempts == 1 else f" ({attempts} attempts)"
        text = str(each.get("error", "no reason was written down")).strip()
        found.append(Problem(str(each.get("run", "?")), "failed", text + times))
    return found


def _waiting(source: Path) -> list[Problem]:
    """Runs of the sweep's plan that have not begun."""
    planned = _sweep(source).get("runs", [])
    names = [run["name"] for run in planned if isinstance(run, dict) and "name" in run]
    failed = {problem.run for problem in _failures(source)}
    return [
        Problem(name, "waiting", "not begun")
        for name in names
        if name not in failed and not (source / "runs" / name / "config.json").exists()
    ]
