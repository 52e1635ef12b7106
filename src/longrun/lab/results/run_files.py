"""Find run folders: given by path, in a sweep, or in a folder of these."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from longrun.base.checks import known
from longrun.base.errors import FolderError, InputError, warn
from longrun.learning.options.config import ALGORITHMS
from longrun.learning.options.presets import PRESETS
from longrun.learning.runs.run_description import checked_config


class FoundRun(NamedTuple):
    """A run folder that was found."""

    path: Path
    source: Path
    """the sweep that it belongs to, or itself"""
    config: dict[str, Any]


def find_runs(paths: Sequence[Path]) -> list[FoundRun]:
    """The runs of run folders, of sweep folders, or of folders that hold these; each run once.

    A folder that was given and cannot be read is a FolderError. Within a sweep it is a warning: one
    damaged run must not hide the others.
    """
    found: dict[Path, FoundRun] = {}
    for path in paths:
        for source in _sources(path):
            for run in _runs_of(source, given=path):
                found.setdefault(run.path.resolve(), run)
    if not found:
        raise FolderError(f"'{paths[0]}' has no runs yet")
    return list(found.values())


def _sources(path: Path) -> list[Path]:
    """The run and sweep folders at a path: itself or its children."""
    if _is_run(path) or _is_sweep(path):
        return [path]
    children = _in_order(path) if path.is_dir() else []
    sources = [child for child in children if _is_run(child) or _is_sweep(child)]
    if not sources:
        raise FolderError(
            f"'{path}' is not a run folder and not a sweep folder: there is no config.json or"
            " sweep.json in it or in any folder in it"
        )
    return sources


def _runs_of(source: Path, given: Path) -> list[FoundRun]:
    if _is_run(source) and source == given:
        return [FoundRun(source, source, _read_config(source))]
    folder = source / "runs"
    paths = [source] if _is_run(source) else _in_order(folder) if folder.is_dir() else []
    runs = []
    for path in filter(_is_run, paths):
        try:
            runs.append(FoundRun(path, source, _read_config(path)))
        except ValueError as error:
            warn(f"{error}; the run is left out")
    return runs


def _read_config(path: Path) -> dict[str, Any]:
    """The content of a run's config.json. Raises FolderError if there is no label for the run."""
    file = path / "config.json"
    config = checked_config(file)
    try:
        known("algorithm", config["algorithm"], ALGORITHMS)
        known("preset", config["preset"], PRESETS)
    except InputError as error:
        raise FolderError(f"'{file}' cannot be read: {error}") from None
    return config


def _is_run(path: Path) -> bool:
    return (path / "config.json").exists()


def _is_sweep(path: Path) -> bool:
    return (path / "sweep.json").exists()


def _in_order(folder: Path) -> list[Path]:
    """The children of a folder by name, numbers by their value: 2 before 10."""
    pieces = {path: re.split(r"(\d+)", path.name) for path in folder.iterdir()}
    return sorted(
        pieces, key=lambda p: [(int(x), "") if x.isdigit() else (-1, x) for x in pieces[p]]
    )
