"""What is on a figure that Matplotlib wrote as SVG: its texts, curves and markers."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

FIRST_COLOURS = ("#1f77b4", "#ff7f0e", "#2ca02c")
"""Of the first three settings of a figure."""
THICK, THIN = 1.8, 0.7
"""Widths of a setting's curve and of the curves of its seeds."""
SVG = "{http://www.w3.org/2000/svg}"


def words_in(svg: Path) -> list[str]:
    """All texts: Matplotlib draws them as paths, and writes each in a comment."""
    lines = [line.strip() for line in svg.read_text().splitlines()]
    return [line[5:-4] for line in lines if line.startswith("<!-- ")]


def curves_of(svg: Path, colour: str, width: float = THICK) -> list[list[tuple[float, float]]]:
    """Points of each curve of a colour and a width within a panel, in the figure's units."""
    found = []
    for path in ElementTree.parse(svg).iter(f"{SVG}path"):
        style = f"{path.get('style')};"
        if f"stroke: {colour};" in style and f"stroke-width: {width};" in style:
            numbers = [float(x) for x in re.findall(r"-?\d+\.?\d*", path.get("d", ""))]
            found.append(list(zip(numbers[::2], numbers[1::2], strict=True)))
    return found


def markers_of(svg: Path, colour: str, edge: str = "") -> int:
    """How many markers of a colour there are, with an edge of it or another; ticks are black."""
    styles = [use.get("style", "") for use in ElementTree.parse(svg).iter(f"{SVG}use")]
    wanted = f"fill: {colour}; stroke: {edge or colour}"
    return sum(style == wanted or style.startswith(f"{wanted};") for style in styles)


def heights_of_line(svg: Path, colour: str) -> list[float]:
    """Vertical positions of the points of the only thick curve of a colour."""
    (curve,) = curves_of(svg, colour)
    return [round(y, 1) for _, y in curve]
