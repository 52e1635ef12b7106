"""Reads and writes the CSV files of measurements."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Row = dict[str, str]


def rows_of(path: Path) -> list[Row]:
    """The rows of a CSV file, without comments before its header."""
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    return list(csv.DictReader(lines))


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """A CSV file of rows with the same columns."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
