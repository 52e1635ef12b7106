"""What all figures of results share: resolution, colours, legends."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

Colour = tuple[float, float, float, float]
LEGEND_LINE = 0.2
"""Height in inches."""
DPI = 150


def legend(figure: Figure, entries: Sequence[tuple[str, Colour]], about: str, shared: str) -> None:
    """Add a legend below all panels, in as many columns as fit; the figure grows by its height."""
    texts = [textwrap.fill(words, 44, break_on_hyphens=False) for words, _ in entries]
    handles = [
        Line2D([], [], color=colour, linewidth=2.5, label=text)
        for text, (_, colour) in zip(texts, entries, strict=True)
    ]
    letters = max((len(line) for text in texts for line in text.split("\n")), default=1)
    room = int(12.5 * figure.get_figwidth())  # letters
    columns = max(1, min(len(handles), room // (letters + 5)))
    title = textwrap.fill(f"all with {shared}; {about}" if shared else about, room)
    tallest = max((text.count("\n") + 1 for text in texts), default=0)
    lines = -(-len(texts) // columns) * tallest + title.count("\n") + 1
    figure.set_figheight(figure.get_figheight() + LEGEND_LINE * lines)
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=columns,
        frameon=False,
        fontsize=9,
        title=title,
        title_fontproperties={"size": 8},
    )


def tidy(axis: Axes) -> None:
    axis.grid(alpha=0.25, linewidth=0.6)
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(labelsize=9)


def colours_of(count: int) -> list[Colour]:
    """Distinct colours, up to ten of them; for more than that a sequence from dark to light."""
    if count <= 10:
        return [colormaps["tab10"](i) for i in range(count)]
    return [colormaps["turbo"](x) for x in np.linspace(0.05, 0.95, count)]
