"""A figure of tabular learning: the methods' estimates of the gain and the exact gain."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.ticker import EngFormatter

from longrun.base.picture_files import picture
from longrun.tabular import LearningCurves

NAMES = {
    "differential_q": "Differential Q-learning",
    "rvi_q": "RVI Q-learning",
    "r_learning": "R-learning",
    "csv": "CSV-learning",
}
WIDTH, HEIGHT = 2.9, 2.9


def learning_curves_figure(
    curves: Sequence[LearningCurves], optimal_gain: float, out: Path, title: str = ""
) -> None:
    """One panel per method over the same axes: thick mean, thin seeds, a line at the exact gain.

    The suffix of `out` selects the format: png, pdf or svg.
    """
    with picture(out, size=(WIDTH * len(curves), HEIGHT), dpi=100) as figure:
        panels = figure.subplots(1, len(curves), sharex=True, sharey=True, squeeze=False)[0]
        for i, (axis, curve) in enumerate(zip(panels, curves, strict=True)):
            _panel(axis, curve, optimal_gain, colormaps["tab10"](i % 10))
        panels[0].set_ylabel("estimate of the gain")
        panels[0].legend(frameon=False, fontsize=8, loc="lower right")
        panels[0].set_ylim(_range(curves, optimal_gain))
        figure.suptitle(f"{title} (thick: mean, thin: seeds)".strip(), fontsize=11)
        figure.supxlabel("steps of experience", fontsize=10)


def _panel(
    axis: Axes, curve: LearningCurves, gain: float, colour: tuple[float, float, float, float]
) -> None:
    axis.axhline(gain, color="black", linewidth=1, linestyle=(0, (5, 3)), label=f"exact {gain:.4g}")
    axis.plot(curve.steps, curve.gains.T, color=colour, alpha=0.4, linewidth=0.7)
    axis.plot(curve.steps, curve.gains.mean(0), color=colour, linewidth=2.2)
    axis.set_title(NAMES.get(curve.method, curve.method), fontsize=10)
    axis.xaxis.set_major_formatter(EngFormatter(sep=""))
    axis.grid(alpha=0.3)
    axis.spines[["top", "right"]].set_visible(False)


def _range(curves: Sequence[LearningCurves], gain: float) -> tuple[float, float]:
    """The range of all estimates except the first tenth, whose outliers would hide the rest."""
    settled = [curve.gains[:, len(curve.steps) // 10 :] for curve in curves]
    low = min([gain, *(float(part.min()) for part in settled)])
    high = max([gain, *(float(part.max()) for part in settled)])
    margin = 0.08 * (high - low) or 1.0
    return low - margin, high + margin
