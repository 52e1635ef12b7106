"""Pictures: learning curves with intervals."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import EngFormatter

from longrun.envs.spaces import Array
from longrun.experiments.results import Setting, mean_interval

Colour = tuple[float, float, float, float]
METRICS = {"average_reward": "average reward per step", "episode_return": "episode return"}


def learning_curves(settings: Sequence[Setting], out: Path) -> None:
    """Both metrics over training steps: mean over seeds, shaded 95 % interval, thin seeds.

    Where no episode ever ended, the reward rate alone is shown. The ending of `out` chooses the
    format: png, pdf or svg.
    """
    metrics = [m for m in METRICS if any(np.isfinite(s.values[m]).any() for s in settings)]
    size = (5.5 * max(len(metrics), 1), 4.2)
    figure, grid = plt.subplots(
        1, max(len(metrics), 1), figsize=size, squeeze=False, layout="constrained"
    )
    axes = grid[0]
    environments = sorted({setting.env for setting in settings})
    figure.suptitle(
        f"{', '.join(environments)} (thick: mean, band: its 95 % interval, thin: seeds)"
    )
    for axis, metric in zip(axes, metrics, strict=False):
        for setting, colour in zip(settings, _colours(len(settings)), strict=True):
            name = setting.label if len(environments) == 1 else f"{setting.env} {setting.label}"
            _curve(axis, setting, metric, colour, name)
        axis.set_xlabel("environment steps")
        axis.set_title(METRICS[metric])
        axis.xaxis.set_major_formatter(EngFormatter(sep=""))
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
        _fit(axis, [setting.values[metric] for setting in settings])
    axes[0].legend(frameon=False, fontsize=8).set_in_layout(False)
    out.parent.mkdir(parents=True, exist_ok=True)
    try:
        figure.savefig(out, dpi=150)
    except ValueError as error:
        raise ValueError(f"--out {out}: {error}") from None
    finally:
        plt.close(figure)


def _curve(axis: Axes, setting: Setting, metric: str, colour: Colour, name: str) -> None:
    values = setting.values[metric]
    mean, low, high = mean_interval(values)
    axis.plot(setting.steps, values, color=colour, alpha=0.4, linewidth=0.8)
    marker = "o" if len(mean) == 1 else ""
    label = textwrap.fill(name, 48)
    axis.plot(setting.steps, mean, color=colour, linewidth=2, marker=marker, label=label)
    axis.fill_between(setting.steps, low, high, color=colour, alpha=0.13, linewidth=0)


def _fit(axis: Axes, values: Sequence[Array]) -> None:
    """Show all seeds; the interval of a few seeds may reach far beyond what any of them did."""
    finite = np.concatenate([v[np.isfinite(v)] for v in values])
    if len(finite):
        margin = 0.1 * (finite.max() - finite.min()) or 1.0
        axis.set_ylim(finite.min() - margin, finite.max() + margin)


def _colours(count: int) -> list[Colour]:
    palette = plt.get_cmap("tab10" if count <= 10 else "viridis", max(count, 10))
    return [palette(i) for i in range(count)]
