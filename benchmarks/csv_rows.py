"""Reads the CSV files of measurements."""

from __future__ import annotations

import csv
from pathlib import Path

Row = dict[str, str]


def rows_of(path: Path) -> list[Row]:
    """The rows of a CSV file, without comments before its header."""
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    return list(csv.DictReader(lines))
