"""Tables of text: on the terminal, and as CSV, Markdown and LaTeX."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console, JustifyMethod
from rich.markup import escape
from rich.table import Table

from longrun.base.errors import InputError
from longrun.base.files import write_bytes
from longrun.lab.results.statistics import ScoreEstimate

NAMES = ("setting", "environment")
"""Columns of text."""
LONGEST_WORD = 24
"""Letters of a name, or of a word of a number, that are never broken."""
ENDINGS = (".csv", ".md", ".tex")
SPECIAL_IN_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "[": "{[}",  # at the start of a row it would be an argument of the \\ before it
    "]": "{]}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}


@dataclass(frozen=True)
class TextTable:
    title: str
    columns: Mapping[str, Sequence[str]]
    """the cells below each header; a column of empty cells is not shown"""
    notes: Sequence[str] = ()
    """sentences below the table"""

    @property
    def header(self) -> list[str]:
        return [name for name, cells in self.columns.items() if any(cells)]

    @property
    def rows(self) -> list[tuple[str, ...]]:
        return list(zip(*(self.columns[name] for name in self.header), strict=True))


def print_table(found: TextTable) -> None:
    """Print on the terminal, names on the left in full, numbers on the right."""
    console, table, room = Console(), Table(title=escape(found.title)), 1
    for name in found.header:
        cells = [name, *found.columns[name]]
        side: JustifyMethod = "left" if name in NAMES else "right"
        pieces = cells if name in NAMES else [word for cell in cells for word in cell.split()]
        least = min(max(map(len, pieces)), LONGEST_WORD)
        table.add_column(escape(name), justify=side, overflow="fold", min_width=least)
        room += least + 3
    for row in found.rows:
        table.add_row(*map(escape, row))
    # If the terminal is too narrow, it wraps the lines: cropping them would lose numbers.
    console.print(table, width=max(console.width, room), crop=False)
    for note in found.notes:
        console.print(escape(note), highlight=False)


def require_table(out: Path) -> None:
    """Raise an InputError if a file name does not end in a format of tables."""
    if out.suffix.lower() not in ENDINGS:
        raise InputError(f"{out}: '{out.suffix}' is not a table format; use {', '.join(ENDINGS)}")


def write_table(out: Path, table: TextTable, records: Sequence[Mapping[str, Any]]) -> None:
    """The records as CSV, or the printed table as Markdown or LaTeX, by the file's ending."""
    ending = out.suffix.lower()
    text = as_csv(records) if ending == ".csv" else as_latex(table)
    write_bytes(out, (as_markdown(table) if ending == ".md" else text).encode())


def as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Numbers have six digits; None and NaN are empty."""
    text = io.StringIO()
    names = dict.fromkeys(name for row in rows for name in row)
    writer = csv.DictWriter(text, list(names), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _csv_cell(value) for name, value in row.items()} for row in rows)
    return text.getvalue()


def _csv_cell(value: Any) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.6g}"
    if isinstance(value, tuple):
        return " ".join(map(_csv_cell, value))
    return "" if value is None else str(value)


def as_markdown(table: TextTable) -> str:
    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(c.replace('|', chr(92) + '|') for c in cells)} |"

    rule = ["---" if name in NAMES else "---:" for name in table.header]
    lines = [f"**{table.title}**", "", *map(line, (table.header, rule, *table.rows))]
    return "\n".join([*lines, *(["", *table.notes] if table.notes else [])]) + "\n"


def as_latex(table: TextTable) -> str:
    """A tabular for booktabs."""

    def line(cells: Sequence[str]) -> str:
        return f"  {' & '.join(map(latex_escaped, cells))} \\\\"

    columns = "".join("l" if name in NAMES else "r" for name in table.header)
    lines = [f"% {text}" for text in (table.title, *table.notes)]
    lines += [f"\\begin{{tabular}}{{{columns}}}", "  \\toprule", line(table.header), "  \\midrule"]
    lines += [*map(line, table.rows), "  \\bottomrule", "\\end{tabular}"]
    return "\n".join(lines) + "\n"


def latex_escaped(text: str) -> str:
    return "".join(SPECIAL_IN_LATEX.get(character, character) for character in text)


def estimate_text(found: ScoreEstimate | None, seeds: Sequence[float] = ()) -> str:
    """An estimate like `0.27 [0.25, 0.29]`; else the seeds, like `0.27 (seeds 0.25, 0.29)`."""
    if found is None:
        return "-"
    value = number_text(found.value, 4)
    if not math.isnan(found.low):
        return f"{value} [{number_text(found.low, 3)}, {number_text(found.high, 3)}]"
    own = ", ".join(number_text(seed, 3) for seed in seeds)
    return f"{value} (seeds {own})" if len(seeds) > 1 else value


def number_text(number: float, digits: int) -> str:
    """The number with `digits` significant digits, but 1254 instead of 1.25e+03."""
    return f"{number:.0f}" if 1000 <= abs(number) < 1e6 else f"{number:.{digits}g}"
