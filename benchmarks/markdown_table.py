"""Writes the Markdown tables of the documents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """The lines of a table, its heads first; a row has a cell for each head."""
    # The documents have one space for an empty head, two for an empty cell.
    head = _line(heads).replace("  ", " ")
    return "\n".join([head, "|" + "---|" * len(heads), *map(_line, rows)])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
