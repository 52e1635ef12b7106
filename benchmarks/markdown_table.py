"""Writes the Markdown tables of the documents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """The lines of a table, its heads first; a row has a cell for each head."""
    return "\n".join([_line(heads), "|" + "---|" * len(heads), *map(_line, rows)])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
