"""Figures that are written to files, in the formats of the files' names."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from matplotlib.figure import Figure

from longrun.base.errors import InputError
from longrun.base.files import write_bytes

ENDINGS = (".png", ".pdf", ".svg")
LAYOUT: Literal["constrained"] | None = "constrained"
"""how the parts of a figure get their places; None leaves them where Matplotlib puts them"""


def require_picture(out: Path) -> None:
    """Raise an InputError if a file name does not end in a format of figures.

    These are the formats that help and documents name; Matplotlib has more, some of which need
    other packages.
    """
    if out.suffix.lower() not in ENDINGS:
        raise InputError(f"{out}: '{out.suffix}' is not a picture format; use png, pdf or svg")


@contextmanager
def picture(*outs: Path, size: tuple[float, float], dpi: int = 110) -> Iterator[Figure]:
    """An empty figure, which is written to all files at the end, each in one step."""
    for out in outs:
        require_picture(out)
    figure = Figure(figsize=size, layout=LAYOUT)  # no pyplot: its backend is for the user
    yield figure
    for out in outs:
        content = io.BytesIO()
        figure.savefig(content, format=out.suffix[1:].lower(), dpi=dpi)
        write_bytes(out, content.getvalue())
        figure.set_layout_engine("none")  # the other files have the places of the first
