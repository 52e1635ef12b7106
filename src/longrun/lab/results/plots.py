"""Figures: learning curves with intervals, and performance profiles."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import EngFormatter, MaxNLocator

from longrun.base.errors import InputError
from longrun.base.picture_files import picture
from longrun.lab.results.comparison import Comparison
from longrun.lab.results.labels import shortened
from longrun.lab.results.metric_names import metric_name
from longrun.lab.results.plot_style import DPI, Colour, colours_of, legend, tidy
from longrun.lab.results.scores import COST, costs_of, limits_of
from longrun.lab.results.settings import Setting
from longrun.lab.results.statistics import (
    FEWEST_SEEDS,
    fewest_seeds,
    iqm_interval,
    mean_interval,
    profile,
    smoothed,
    thinned,
)
from longrun.learning.envs.spaces import Array

DEFAULT_METRICS = ("average_reward", "episode_return")
CROWDED = 8
"""Most settings of a panel in which the lines of single seeds are drawn."""
MOST_COLUMNS = 4
"""One metric of more environments than this takes several rows."""
SEED_POINT: Mapping[str, Any] = {"marker": "o", "ms": 4.5, "mec": "white", "mew": 0.8, "ls": ""}
"""The mark of a seed that has a single point."""


@dataclass(frozen=True)
class Panel:
    """One metric of some settings over training steps."""

    settings: Sequence[Setting]
    metric: str
    title: str = ""
    ylabel: str = ""


def learning_curves(
    settings: Sequence[Setting],
    outs: Sequence[Path],
    metrics: Sequence[str] = DEFAULT_METRICS,
    iqm: bool = False,
    smooth: int = 1,
) -> None:
    """A row for each metric, a column for each environment; one metric of many takes several rows.

    `settings` may come from `read_results` and `read_metrics` together: a panel shows those that
    have its metric. A metric without any value, such as the return of episodes that never end, is
    left out.
    """
    environments = list(dict.fromkeys(s.env for s in settings))
    shown = [m for m in metrics if any(_has(s, m) for s in settings)]
    if not shown:
        raise InputError(f"no run has a value of {' or '.join(metrics)}; choose another metric")
    columns = len(environments)
    if len(shown) == 1:
        columns = math.ceil(columns / math.ceil(columns / MOST_COLUMNS))
    grid = [
        [
            Panel(
                [s for s in settings if s.env == env and metric in s.values],
                metric,
                title=env if metric == shown[0] else "",
                ylabel=metric_name(metric) if column == 0 else "",
            )
            for column, env in enumerate(environments[start : start + columns])
        ]
        for metric in shown
        for start in range(0, len(environments), columns)
    ]
    title = ""
    if len(environments) == 1:  # side by side, since the rows have one panel each
        grid, title = [[replace(panel, title="") for row in grid for panel in row]], environments[0]
    draw_panels(grid, outs, title, iqm, smooth)


def draw_panels(
    grid: Sequence[Sequence[Panel]],
    outs: Sequence[Path],
    title: str = "",
    iqm: bool = False,
    smooth: int = 1,
) -> None:
    """Panels in rows, with one legend below; a label has one colour everywhere.

    Rows have the same length, but for the last, which may be shorter.

    Thick: mean over seeds (or interquartile mean) with its nominal 95 % interval (Student's, or
    bootstrap; with five seeds or more), of curves that are means of the last `smooth` points; thin:
    seeds.
    """
    panels = [panel for row in grid for panel in row]
    shown = [s for p in panels for s in p.settings if _has(s, p.metric)]
    labels = list(dict.fromkeys(s.label for s in shown))
    short, shared = shortened(labels)
    colours = dict(zip(labels, colours_of(len(labels)), strict=True))
    rows, columns = len(grid), len(grid[0])
    size = (max(3.6 * columns, 5.6) + 0.4, 2.7 * rows + 0.6)
    with picture(*outs, size=size, dpi=DPI) as figure:
        figure.suptitle(title, fontsize=12)
        axes = figure.subplots(rows, columns, squeeze=False)
        for axis, panel in zip(axes.flat, panels, strict=False):
            _draw(axis, panel, colours, iqm, smooth)
        for axis in axes.flat[len(panels) :]:
            axis.remove()
        for axis in axes.flat[: len(panels)][-columns:]:  # the lowest of each column
            axis.set_xlabel("environment steps")
        about = _lines_text(shown, iqm, crowded=len(labels) > CROWDED)
        about += ["dashed: limit"] * any(_limits(panel) for panel in panels)
        legend(figure, [(short[n], colours[n]) for n in labels], ", ".join(about), shared)


def _lines_text(settings: Sequence[Setting], iqm: bool, crowded: bool) -> list[str]:
    """What thick and thin lines are, for the legend; nothing where all settings have one seed."""
    most = max((len(s.seeds) for s in settings), default=0)
    if most < 2:
        return []
    points = all(len(s.steps) == 1 for s in settings)
    thick, thin = ("large point", "small points") if points else ("thick", "thin")
    found = [f"{thick}: {'interquartile mean' if iqm else 'mean'}"]
    if most >= FEWEST_SEEDS and not points:
        found.append(f"band: its nominal 95 % interval ({FEWEST_SEEDS} seeds or more)")
    return found if crowded else [*found, f"{thin}: seeds"]


def _draw(axis: Axes, panel: Panel, colours: Mapping[str, Colour], iqm: bool, smooth: int) -> None:
    crowded = len(colours) > CROWDED
    shown = []
    for setting in (s for s in panel.settings if _has(s, panel.metric)):
        steps, values = thinned(setting.steps, smoothed(setting.values[panel.metric], smooth))
        shown.append(values)
        middle, low, high = (iqm_interval if iqm else mean_interval)(values)
        colour, marker = colours[setting.label], "o" if len(steps) == 1 else ""
        if not crowded:
            axis.plot(steps, values, color=colour, alpha=0.35, linewidth=0.7)
            if marker and values.shape[1] > 1:  # above the mean, which might cover them
                axis.plot(steps, values, color=colour, zorder=4, **SEED_POINT)
        strength = 0.06 if crowded else 0.15
        axis.fill_between(steps, low, high, color=colour, alpha=strength, linewidth=0)
        axis.plot(steps, middle, color=colour, linewidth=1.8, marker=marker, ms=9, zorder=3)
    limits = _limits(panel)
    for label, limit in limits.items():
        alone = len(set(limits.values())) > 1  # settings with different limits
        axis.axhline(limit, color=colours[label] if alone else "black", linestyle="--", linewidth=1)
        shown.append(np.array([limit]))
    axis.set_title(textwrap.fill(panel.title, 36), fontsize=11)
    axis.set_ylabel(panel.ylabel)
    axis.xaxis.set_major_formatter(EngFormatter(sep=""))
    axis.xaxis.set_major_locator(MaxNLocator(5))
    axis.set_xlim(left=0)
    tidy(axis)
    _fit(axis, shown)


def _limits(panel: Panel) -> dict[str, float]:
    """The limit of each setting, by label, in a panel that shows a cost."""
    cost = panel.metric.removeprefix(COST) if panel.metric.startswith(COST) else ""
    return {
        setting.label: limits[cost]
        for setting, limits in zip(panel.settings, limits_of(panel.settings), strict=True)
        if cost in limits and _has(setting, panel.metric)
    }


def limited_costs(settings: Sequence[Setting]) -> list[str]:
    """Metrics of the costs that have a limit in some setting."""
    limited = {name for setting in settings for name, _ in setting.config.limits}
    recorded = dict.fromkeys(name for setting in settings for name in costs_of(setting))
    return [COST + name for name in recorded if name in limited]


def draw_profiles(found: Comparison, metric: str, out: Path) -> None:
    """Draw the share of each setting's seeds and tasks that score above a threshold.

    A setting with few seeds on a task has no band, as in tables.
    """
    scores = found.scores[metric]
    if not scores:
        raise InputError(f"no setting has a score in {metric} for all of its seeds and tasks")
    several = len(found.tasks) > 1
    title = f"{len(found.tasks_of(metric))} tasks" if several else found.tasks[0]
    everything = np.concatenate([own[np.isfinite(own)] for own in scores.values()])
    low, high = everything.min(), everything.max()
    margin = 0.02 * (high - low) or 1.0
    thresholds = np.linspace(low - margin, high + margin, 201)
    short, shared = shortened(scores)
    colours = colours_of(len(scores))
    with picture(out, size=(6.4, 3.8), dpi=DPI) as figure:
        axis = figure.subplots()
        banded = False
        for own, colour in zip(scores.values(), colours, strict=True):
            share, below, above = profile(own, thresholds)
            axis.plot(thresholds, share, color=colour, linewidth=1.8, drawstyle="steps-post")
            if fewest_seeds(own) >= FEWEST_SEEDS:
                banded = True
                axis.fill_between(
                    thresholds, below, above, step="post", color=colour, alpha=0.15, linewidth=0
                )
        axis.set_xlabel(metric_name(metric) + " (scaled)" * several)
        axis.set(ylabel="share of runs above it", ylim=(-0.02, 1.02))
        axis.set_title(title, fontsize=11)
        tidy(axis)
        entries = list(zip(short.values(), colours, strict=True))
        has = f"band: nominal 95 % interval ({FEWEST_SEEDS} seeds or more)"
        has_not = f"no interval with fewer than {FEWEST_SEEDS} seeds"
        legend(figure, entries, has if banded else has_not, shared)


def _fit(axis: Axes, values: Sequence[Array]) -> None:
    """Limit the axis to the seeds' values: the interval of few seeds may extend far beyond them."""
    finite = np.concatenate([v[np.isfinite(v)] for v in values]) if values else np.zeros(0)
    if len(finite):
        margin = 0.08 * (finite.max() - finite.min()) or 1.0
        axis.set_ylim(finite.min() - margin, finite.max() + margin)


def _has(setting: Setting, metric: str) -> bool:
    return metric in setting.values and bool(np.isfinite(setting.values[metric]).any())
