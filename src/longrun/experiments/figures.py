"""Pictures: learning curves with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from longrun.experiments.results import Setting, mean_interval

METRICS = {"average_reward": "average reward per step", "episode_return": "episode return"}


def learning_curves(settings: Sequence[Setting], out: Path) -> None:
    """Both metrics over training steps: mean over seeds, shaded 95 % interval, faint seeds.

    The ending of `out` chooses the format: png, pdf or svg.
    """
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    for axis, (metric, title) in zip(axes, METRICS.items(), strict=True):
        for setting, colour in zip(settings, _colours(len(settings)), strict=True):
            values = setting.values[metric]
            mean, low, high = mean_interval(values)
            axis.plot(setting.steps, values, color=colour, alpha=0.25, linewidth=0.8)
            axis.plot(setting.steps, mean, color=colour, linewidth=2, label=setting.label)
            axis.fill_between(setting.steps, low, high, color=colour, alpha=0.15, linewidth=0)
        axis.set_xlabel("environment steps")
        axis.set_title(title)
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].legend(frameon=False, fontsize=9)
    out.parent.mkdir(parents=True, exist_ok=True)
    try:
        figure.savefig(out, dpi=150)
    except ValueError as error:
        raise ValueError(f"--out {out}: {error}") from None
    finally:
        plt.close(figure)


def _colours(count: int) -> list[tuple[float, float, float, float]]:
    palette = plt.get_cmap("tab10" if count <= 10 else "viridis", max(count, 10))
    return [palette(i) for i in range(count)]
