"""Find run folders: given by path, in a sweep, or in a folder of these."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from longrun.base.errors import FolderError, warn
from longrun.learning.runs.run_folder import RunFolder

PLACES = ("config.json", "*/config.json", "runs/*/config.json", "*/runs/*/config.json")
"""Where a run's description is in a run folder, a sweep folder or a folder of these."""


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
        inside = [file.parent for pattern in PLACES for file in given.glob(pattern)]
        if not inside:
            raise FolderError(
                f"'{given}' is not a run folder and not a sweep folder, or has no runs yet: there"
                " is no config.json in it, in its runs/ or in any folder in it"
            )
        for path in [given] if given in inside else sorted(inside, key=_by_name):
            sweep = path.parent.parent
            inside_sweep = path.parent.name == "runs" and (sweep / "sweep.json").exists()
            source = sweep if inside_sweep and path != given else path
            try:
                run = FoundRun(path, source, read_config(path))
            except ValueError as error:
                if path == given:
                    raise
                warn(f"{error}; the run is left out")
            else:
                found.setdefault(path.resolve(), run)
    if not found:
        raise FolderError(f"'{paths[0]}' has no run that can be read")
    return list(found.values())


def read_config(path: Path) -> dict[str, Any]:
    """The description of the run in a folder. Raises FolderError if it has no valid one."""
    return RunFolder(path).read_config()


def _by_name(path: Path) -> list[tuple[int, str]]:
    """Numbers in a name count by their value: 2 before 10."""
    pieces = re.split(r"(\d+)", str(path))
    return [(int(piece), "") if piece.isdigit() else (-1, piece) for piece in pieces]
