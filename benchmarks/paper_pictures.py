"""Pictures of the paper's experiments, from the files of results.

    python benchmarks/paper_pictures.py

writes results/figure1-raw/figure1.png and results/appendix/appendix.png.
"""

from __future__ import annotations

import numpy as np
from curves import METRICS, Curves, read_curves
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from paper_results import ANT, AUTHORS, CURVES, OTHER_TASKS, RESULTS

from longrun.base.picture_files import picture
from longrun.lab.results.plot_style import colours_of, legend, tidy

NAMES = {"": "APO", "0.9": "PPO .9", "0.95": "PPO .95", "0.99": "PPO .99", "0.999": "PPO .999"}
COLOURS = dict(zip(NAMES, colours_of(len(NAMES)), strict=True))
LIMITS = {"Swimmer-v5": (-50, 350), "HalfCheetah-v5": (-1000, 4500), ANT: (-500, 4000)}
"""Of returns. PPO .999 on HalfCheetah falls to -1e6 and leaves the picture."""
SMALLER = 100
"""Resolution of pictures with several panels, whose files would be too large."""
WINDOW = 5
"""Evaluations that are averaged for a drawn curve: 100 000 steps."""


def smooth(values: np.ndarray) -> np.ndarray:
    """[steps] running means over `WINDOW` evaluations, of fewer at the start."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    ends = np.arange(1, len(values) + 1)
    starts = np.maximum(ends - WINDOW, 0)
    return (sums[ends] - sums[starts]) / (ends - starts)


def draw(axis: Axes, discount: str, curves: Curves) -> None:
    """The mean of the seeds, and each seed behind it."""
    steps = np.array([step for step, _ in next(iter(curves.values()))]) / 1e6
    seeds = np.array([smooth(np.array([value for _, value in c])) for c in curves.values()])
    for seed in seeds:
        axis.plot(steps, seed, color=COLOURS[discount], linewidth=0.6, alpha=0.35)
    axis.plot(steps, seeds.mean(0), color=COLOURS[discount], linewidth=2)


def figure1() -> None:
    """Returns, with the authors' final returns at the right."""
    out = RESULTS / "figure1-raw" / "figure1.png"
    with picture(out, size=(5 * len(CURVES), 3.6), dpi=SMALLER) as figure:
        for axis, (env, path) in zip(figure.subplots(1, len(CURVES)), CURVES.items(), strict=True):
            for (_, discount), curves in read_curves(path).items():
                draw(axis, discount, curves)
            for discount, theirs in AUTHORS[env].items():
                axis.plot(3.06, theirs, "<", color=COLOURS[discount], markersize=8, clip_on=False)
            axis.set(title=env, xlabel="million steps", ylabel="return", ylim=LIMITS[env])
            axis.set_xlim(0, 3.1)
            tidy(axis)
        _legend(figure, "thin: each seed; triangles: the authors' PPO; means of 5 evaluations")


def appendix() -> None:
    """A column for each of Appendix C's other tasks: returns, and rewards per step."""
    size = (5 * len(OTHER_TASKS), 6.4)
    with picture(RESULTS / "appendix" / "appendix.png", size=size, dpi=SMALLER) as figure:
        rows = figure.subplots(len(METRICS), len(OTHER_TASKS), squeeze=False)
        for column, (env, path) in zip(rows.T, OTHER_TASKS.items(), strict=True):
            for axis, metric in zip(column, reversed(METRICS), strict=True):
                for (_, discount), curves in read_curves(path, metric).items():
                    draw(axis, discount, curves)
                axis.set(title=env, xlabel="million steps", ylabel=metric.replace("_", " "))
                tidy(axis)
        _legend(figure, "thin: each seed; means of 5 evaluations")


def _legend(figure: Figure, about: str) -> None:
    entries = [(name, COLOURS[discount]) for discount, name in NAMES.items()]
    legend(figure, entries, about, "")


if __name__ == "__main__":
    figure1()
    appendix()
