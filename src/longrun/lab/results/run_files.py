"""Find run folders: given by path, in a sweep, or in a folder of these."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from longrun.base.errors import FolderError, warn
from longrun.learning.runs.run_folder import RunFolder


class FoundRun(NamedTuple):
    """A run folder that was found."""

    path: Path
    source: Path
    """the sweep that it belongs to, or itself"""
    config: dict[str, Any]


def find_runs(paths: Sequence[Path]) -> list[FoundRun]:
    """The runs of run folders, of sweep folders, or of folders that hold these; each run once.

    A run folder that was given and cannot be read is a FolderError. Within another folder it is a
    warning: one damaged run must not hide the others.
    """
    found: dict[Path, FoundRun] = {}
    for given in paths:
        for source in _sources(given):
            inside = [path for path in _children(source / "runs") if _is_run(path)]
            for path in [source] if _is_run(source) else inside:
                try:
                    run = FoundRun(path, source, read_config(path))
                except ValueError as error:
                    if path == given:
                        raise
                    warn(f"{error}; the run is left out")
                else:
                    found.setdefault(path.resolve(), run)
    if not found:
        raise FolderError(f"'{paths[0]}' has no runs yet")
    return list(found.values())


def read_config(path: Path) -> dict[str, Any]:
    """The description of the run in a folder. Raises FolderError if it has no valid one."""
    return RunFolder(path).read_config()


def _sources(path: Path) -> list[Path]:
    """The run and sweep folders at a path: itself or its children."""
    sources = [each for each in (path, *_children(path)) if _is_run(each) or _is_sweep(each)]
    if not sources:
        raise FolderError(
            f"'{path}' is not a run folder and not a sweep folder: there is no config.json or"
            " sweep.json in it or in any folder in it"
        )
    return sources[:1] if sources[0] == path else sources


def _is_run(path: Path) -> bool:
    return (path / "config.json").exists()


def _is_sweep(path: Path) -> bool:
    return (path / "sweep.json").exists()


def _children(folder: Path) -> list[Path]:
    """What is in a folder by name, numbers by their value: 2 before 10; empty without a folder."""
    if not folder.is_dir():
        return []

    def order(path: Path) -> list[tuple[int, str]]:
        pieces = re.split(r"(\d+)", path.name)
        return [(int(piece), "") if piece.isdigit() else (-1, piece) for piece in pieces]

    return sorted(folder.iterdir(), key=order)
