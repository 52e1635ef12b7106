"""Where runs lie and what their files hold, read with care: damage is left out and told of."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from longrun.envs.spaces import Array
from longrun.errors import FolderError
from longrun.files import read_json

NAMED = 4
"""Line numbers or folders that a warning lists before it only counts the rest."""


class Run(NamedTuple):
    """A run folder that was found."""

    path: Path
    source: Path
    """the sweep that it belongs to, or itself"""
    config: dict[str, Any]


class Rows(NamedTuple):
    """The whole rows of a CSV of a run, n of them."""

    replica: Array
    """[n]"""
    step: Array
    """[n]"""
    values: dict[str, Array]
    """[n] for each column; one that the file does not have is left out"""


def find_runs(paths: Sequence[Path]) -> list[Run]:
    """The runs of run folders, of sweep folders, or of folders that hold these; each run once.

    What is wrong with a folder that was given is a ValueError. Within a sweep it is a warning: one
    damaged run must not hide the others.
    """
    found: dict[Path, Run] = {}
    for path in paths:
        for source in _sources(path):
            for run in _runs_of(source, asked_for=path):
                found.setdefault(run.path.resolve(), run)
    if not found:
        raise FolderError(f"'{paths[0]}' holds no runs yet")
    return list(found.values())


def _sources(path: Path) -> list[Path]:
    """The run and sweep folders that a path stands for: itself or its children."""
    if _is_run(path) or _is_sweep(path):
        return [path]
    children = _in_order(path) if path.is_dir() else []
    sources = [child for child in children if _is_run(child) or _is_sweep(child)]
    if not sources:
        raise FolderError(
            f"'{path}' is no run and no sweep: it has no config.json or sweep.json, nor has any"
            " folder in it"
        )
    return sources


def _runs_of(source: Path, asked_for: Path) -> list[Run]:
    if _is_run(source) and source == asked_for:
        return [Run(source, source, _config(source))]
    folder = source / "runs"
    paths = [source] if _is_run(source) else _in_order(folder) if folder.is_dir() else []
    runs = []
    for path in filter(_is_run, paths):
        try:
            runs.append(Run(path, source, _config(path)))
        except ValueError as error:
            warn(f"{error}; the run is left out")
    return runs


def _config(path: Path) -> dict[str, Any]:
    file = path / "config.json"
    config: dict[str, Any] = read_json(file)
    for name, kind in {"algorithm": str, "env": str, "options": dict, "replicas": list}.items():
        if not isinstance(config, dict) or not isinstance(config.get(name), kind):
            raise FolderError(f"'{file}' is damaged: it does not tell the run's {name}")
    if not all(isinstance(r, dict) and "seed" in r for r in config["replicas"]):
        raise FolderError(f"'{file}' is damaged: it does not tell the replicas' seeds")
    return config


def _is_run(path: Path) -> bool:
    return (path / "config.json").exists()


def _is_sweep(path: Path) -> bool:
    return (path / "sweep.json").exists()


def _in_order(folder: Path) -> list[Path]:
    """Its children by name, numbers by their size: 2 before 10."""
    pieces = {path: re.split(r"(\d+)", path.name) for path in folder.iterdir()}
    return sorted(
        pieces, key=lambda p: [(int(x), "") if x.isdigit() else (-1, x) for x in pieces[p]]
    )


def columns_of(file: Path) -> list[str]:
    """The names in the first line of a CSV; none where there is no file."""
    if not file.exists():
        return []
    with file.open(errors="replace") as lines:
        return lines.readline().rstrip("\n").split(",")


def read_columns(file: Path, columns: Sequence[str], replicas: int) -> Rows:
    """Some columns of a metrics.csv or evaluations.csv of a run with so many replicas.

    Rows with a wrong number of columns or without a number where one is needed are left out, and a
    warning names them. A cut last line goes without one: a crash leaves it.
    """
    lines = file.read_text(errors="replace").split("\n") if file.exists() else [""]
    header, *rows, tail = lines if len(lines) > 1 else ("", lines[0])
    names = header.split(",")
    needed = ["replica", "step", *(c for c in columns if c in names)]
    if not {"replica", "step"} <= set(names):
        if rows:
            warn(f"'{file}' line 1 is damaged: it does not name replica and step; nothing is read")
        return Rows(np.zeros(0, int), np.zeros(0, int), {})
    places = [names.index(name) for name in needed]
    width = len(names)
    table = _parsed(rows, places, width, replicas)
    if table is None:  # line by line takes longer, and tells where
        good = [_parsed([row], places, width, replicas) for row in rows]
        _warn_of_lines(file, [i for i, row in enumerate(good, 2) if row is None])
        table = np.concatenate(
            [np.zeros((0, len(places))), *(row for row in good if row is not None)]
        )
    if _parsed([tail], places, width, replicas) is not None:
        warn(f"'{file}' line {len(rows) + 2} has no end and may be cut; it is left out")
    values = {name: table[:, k] for k, name in enumerate(needed) if k > 1}
    return Rows(table[:, 0].astype(int), table[:, 1].astype(int), values)


def _parsed(rows: list[str], places: list[int], width: int, replicas: int) -> Array | None:
    """Numbers [n, places] of the rows, or None if any of the rows is damaged."""
    if not rows:
        return np.zeros((0, len(places)))
    if any(row.count(",") != width - 1 for row in rows):
        return None
    try:
        table = np.loadtxt(rows, delimiter=",", usecols=places, ndmin=2, comments=None)
    except ValueError:
        return None
    replica, step = table[:, 0], table[:, 1]
    with np.errstate(invalid="ignore"):
        sound = (replica % 1 == 0) & (step % 1 == 0) & (replica >= 0) & (replica < replicas)
    return table if (sound & (step >= 0) & (step < 2**62)).all() else None


def _warn_of_lines(file: Path, numbers: Sequence[int]) -> None:
    lines = "line" if len(numbers) == 1 else "lines"
    are = "is" if len(numbers) == 1 else "are"
    warn(f"'{file}' {lines} {listed(map(str, numbers))} {are} damaged and left out")


def listed(names: Iterable[str]) -> str:
    """The first of them, and how many more there are."""
    names = list(names)
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def warn(message: str) -> None:
    """A line for the user; where in the code it comes from tells them nothing."""
    warnings.warn(message, UserWarning, stacklevel=2)
