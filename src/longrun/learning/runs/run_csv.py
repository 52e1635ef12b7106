"""The one reader of metrics.csv and evaluations.csv: damaged rows are left out with a warning."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from longrun.base.errors import listed, warn
from longrun.base.files import open_regular, read_bytes
from longrun.learning.envs.spaces import Array

PLACE = ("replica", "seed", "step")
"""Columns that say which row it is; the others are measured."""


class Rows(NamedTuple):
    """The complete rows of a CSV of a run, n of them."""

    header: str
    lines: list[str]
    """[n] the rows as they stand in the file"""
    replica: Array
    """[n]"""
    step: Array
    """[n]"""
    values: dict[str, Array]
    """[n] for each column; a column that the file does not have is left out"""


def columns_of(file: Path) -> list[str]:
    """Names of the measured columns in the first line of a CSV; empty if there is no file."""
    if not file.exists():
        return []
    with open_regular(file) as content:
        names = content.readline().decode(errors="replace").rstrip("\n").split(",")
    return [name for name in names if name and name not in PLACE]


def read_rows(file: Path, columns: Sequence[str], replicas: int) -> Rows:
    """Some columns of a metrics.csv or evaluations.csv of a run with this number of replicas.

    Rows with a wrong number of columns, or without a number where one is needed, are left out with
    a warning that gives their line numbers. A last line that a crash cut short is left out without
    a warning.
    """
    lines = _lines(file) if file.exists() else [""]
    header, *rows, tail = lines if len(lines) > 1 else ("", lines[0])
    names = header.split(",")
    if not {"replica", "step"} <= set(names):
        if rows:
            warn(f"'{file}' line 1 is damaged: it does not name replica and step; nothing is read")
        return Rows(header, [], np.zeros(0, int), np.zeros(0, int), {})
    needed = ["replica", "step", *(c for c in columns if c in names)]
    places, width = [names.index(name) for name in needed], len(names)
    table = _parsed(rows, places, width, replicas)
    if table is None:  # line by line, which takes longer and finds the damaged ones
        parsed = [_parsed([row], places, width, replicas) for row in rows]
        damaged = [str(i) for i, row in enumerate(parsed, 2) if row is None]
        lines_are = "line {} is" if len(damaged) == 1 else "lines {} are"
        warn(f"'{file}' {lines_are.format(listed(damaged))} damaged and left out")
        rows = [row for row, numbers in zip(rows, parsed, strict=True) if numbers is not None]
        table = np.concatenate([np.zeros((0, len(places))), *(p for p in parsed if p is not None)])
    if _parsed([tail], places, width, replicas) is not None:
        warn(f"'{file}' line {len(lines)} has no line end and may be cut; it is left out")
    values = {name: table[:, k] for k, name in enumerate(needed) if k > 1}
    return Rows(header, rows, table[:, 0].astype(int), table[:, 1].astype(int), values)


def last_step(file: Path) -> int:
    """The step in the last complete line, without parsing the others; 0 if there is none."""
    lines = _lines(file)[:-1] if file.exists() else []
    try:
        return int(lines[-1].split(",")[lines[0].split(",").index("step")])
    except (IndexError, ValueError):
        return 0


def _lines(file: Path) -> list[str]:
    return read_bytes(file).decode(errors="replace").split("\n")


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
        valid = (replica % 1 == 0) & (step % 1 == 0) & (replica >= 0) & (replica < replicas)
    return table if (valid & (step >= 0) & (step < 2**62)).all() else None
