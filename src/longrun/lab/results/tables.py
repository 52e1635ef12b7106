"""Tables: for the terminal, and as CSV, Markdown and LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console, JustifyMethod
from rich.markup import escape
from rich.table import Table

from longrun.base.errors import InputError
from longrun.base.files import write_bytes
from longrun.lab.results.read import mean_interval
from longrun.lab.results.statistics import FEWEST_SEEDS, ScoreEstimate
from longrun.learning.envs.spaces import Array
from longrun.learning.runs.evaluation_report import EvaluationReport

NAMES = ("setting", "environment", "replica")
"""Columns of text."""
LONGEST_WORD = 24
"""Letters of a word in such a column that are never broken."""
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
    header: list[str]
    rows: list[list[str]]
    note: str = ""


def print_reports(rows: Sequence[tuple[str, EvaluationReport]], title: str) -> None:
    """One line for each evaluated replica, with the columns that some of them have."""
    reports = [report for _, report in rows]
    columns = {
        "replica": [name for name, _ in rows],
        "steps": [f"{r.steps:,}" for r in reports],
        "warm-up": [f"{r.warmup:,}" for r in reports] if any(r.warmup for r in reports) else [],
        "average reward [95 %]": [_rate(r.average_reward, r.low, r.high) for r in reports],
    }
    if any(r.episodes for r in reports):
        columns["episodes"] = [f"{r.episodes}" for r in reports]
        columns["episode return (sd)"] = [_with_spread(r) if r.episodes else "-" for r in reports]
        columns["length"] = [f"{r.episode_length:.4g}" if r.episodes else "-" for r in reports]
        columns["reward per step in episodes"] = [
            f"{r.episode_average_reward:.4g}" if r.episodes else "-" for r in reports
        ]
    for name in reports[0].costs:
        columns[f"{name} [95 %]"] = [_rate(*r.costs[name]) for r in reports]
    shown = {name: cells for name, cells in columns.items() if cells}
    cells = [list(row) for row in zip(*shown.values(), strict=True)]
    print_tables([TextTable(title, list(shown), cells, _shortcomings(rows))])


def _shortcomings(rows: Sequence[tuple[str, EvaluationReport]]) -> str:
    """What the steps of some replicas are too few for: an episode return, the long-run average."""
    without = [f"{name}: {r.unfinished}" for name, r in rows if r.unfinished]
    unsettled = [name for name, r in rows if not r.settled]
    found = []
    if without:
        reason = "no episode return where first episodes did not end within the steps"
        found.append(f"{reason} ({', '.join(without)})")
    if unsettled:
        found.append(f"not settled: {', '.join(unsettled)}")
    return "; ".join([*found, "evaluate more steps"]) if found else ""


def _with_spread(report: EvaluationReport) -> str:
    if report.episodes < 2:
        return f"{report.episode_return:.4g}"
    return f"{report.episode_return:.4g} ({number_text(report.episode_return_std, 3)})"


def _rate(value: float, low: float, high: float) -> str:
    return f"{value:.4g} [{low:.4g}, {high:.4g}]"


def print_tables(tables: Sequence[TextTable]) -> None:
    """Print on the terminal, names on the left in full, numbers on the right."""
    console = Console()
    for each in tables:
        table = Table(title=escape(each.title), caption=escape(each.note) or None)
        columns = [list(column) for column in zip(each.header, *each.rows, strict=True)]
        narrow = sum(max(map(len, column)) + 3 for column in columns) >= console.width
        least = [min(_longest_word(cells), LONGEST_WORD) for cells in columns]
        for (name, *_), width in zip(columns, least, strict=True):
            justify: JustifyMethod = "left" if name in NAMES else "right"
            table.add_column(escape(name), justify=justify, overflow="fold", min_width=width)
        for row in each.rows:
            cells = zip(each.header, row, strict=True)
            table.add_row(
                *(escape(_broken(c) if narrow and n not in NAMES else c) for n, c in cells)
            )
        # If the terminal is too narrow, it wraps the lines: cropping them would lose numbers.
        room = sum(least) + 3 * len(least) + 1
        console.print(table, width=max(console.width, room), crop=False)


def _broken(cell: str) -> str:
    """A number and the brackets behind it in two lines."""
    return cell.replace(" [", "\n[").replace(" (", "\n(")


def _longest_word(cells: Sequence[str]) -> int:
    return max((len(word) for cell in cells for word in cell.split()), default=0)


def require_table(out: Path) -> None:
    """Raise an InputError if a file name does not end in a format of tables."""
    if out.suffix.lower() not in ENDINGS:
        raise InputError(f"{out}: '{out.suffix}' is not a table format; use {', '.join(ENDINGS)}")


def write_table(
    out: Path, tables: Sequence[TextTable], raw: Sequence[Mapping[str, object]]
) -> None:
    """The raw numbers as CSV, or the printed tables as Markdown or LaTeX, by the file's ending."""
    require_table(out)
    if out.suffix.lower() == ".csv":
        text = as_csv(raw)
    else:
        form = as_latex if out.suffix.lower() == ".tex" else as_markdown
        text = "\n".join(form(table) for table in tables)
    write_bytes(out, text.encode())


def as_csv(rows: Sequence[Mapping[str, object]]) -> str:
    text = io.StringIO()
    names = dict.fromkeys(name for row in rows for name in row)
    writer = csv.DictWriter(text, list(names), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def as_markdown(table: TextTable) -> str:
    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(c.replace('|', chr(92) + '|') for c in cells)} |"

    rule = ["---", *["---:"] * (len(table.header) - 1)]
    lines = [f"**{table.title}**", "", *map(line, (table.header, rule, *table.rows))]
    return "\n".join([*lines, *(["", table.note] if table.note else [])]) + "\n"


def as_latex(table: TextTable) -> str:
    """A tabular for booktabs."""

    def line(cells: Sequence[str]) -> str:
        return f"  {' & '.join(map(latex_escaped, cells))} \\\\"

    comment = f"% {table.title}" + (f"; {table.note}" if table.note else "")
    columns = "l" + "r" * (len(table.header) - 1)
    lines = [
        comment,
        f"\\begin{{tabular}}{{{columns}}}",
        "  \\toprule",
        line(table.header),
        "  \\midrule",
        *map(line, table.rows),
        "  \\bottomrule",
        "\\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def latex_escaped(text: str) -> str:
    return "".join(SPECIAL_IN_LATEX.get(character, character) for character in text)


def estimate_text(found: ScoreEstimate | None, seeds: Sequence[float] = ()) -> str:
    """An estimate like `0.27 [0.25, 0.29]`; else the seeds, like `0.27 (seeds 0.25, 0.29)`."""
    if found is None:
        return "-"
    if np.isnan(found.low):
        own = ", ".join(number_text(seed, 3) for seed in seeds)
        return number_text(found.value, 4) + (f" (seeds {own})" if len(seeds) > 1 else "")
    low, high = number_text(found.low, 3), number_text(found.high, 3)
    return f"{number_text(found.value, 4)} [{low}, {high}]"


def number_text(number: float, digits: int) -> str:
    """The number with `digits` significant digits, but 1254 instead of 1.25e+03."""
    return f"{number:.0f}" if 1000 <= abs(number) < 1e6 else f"{number:.{digits}g}"


def with_interval(values: Array) -> str:
    if np.isnan(values).any():
        return "-"
    mean, low, high = (float(x) for x in mean_interval(values))
    if len(values) < FEWEST_SEEDS:
        low = high = float("nan")
    return estimate_text(ScoreEstimate(mean, low, high), values.tolist())
