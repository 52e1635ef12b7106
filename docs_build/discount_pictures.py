"""Pictures of docs/why-average-reward.md: what a discount makes of the machine to be serviced.

Everything is computed from the exact model, without learning.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter
from numpy.typing import NDArray
from PIL import Image

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

from maintenance import discounted_optimum, when_serviced
from maintenance_picture import HOURS, STATES, life, spells

from longrun.tabular import MDP, MODELS, evaluate, solve

BLUE, RED, GREY = "#0a6fb8", "#d1495b", "#8a8f98"
HORIZONS = np.logspace(1, 4, 121)
"""1 / (1 - discount), about how many steps a discount counts"""
FRAMES = 46
FRAME_MILLISECONDS = 160


@cache
def machine() -> MDP:
    return MODELS["maintenance"]()


@cache
def policies() -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The best policy, and the one that never services the machine."""
    best = np.asarray(solve(machine()).policy)
    return best, np.zeros_like(best)


@cache
def threshold() -> float:
    """The least discount whose optimal policy is the best one, by bisection."""
    low, high = 0.9, 0.999
    for _ in range(40):
        middle = (low + high) / 2
        if (discounted_optimum(machine(), middle) == policies()[0]).all():
            high = middle
        else:
            low = middle
    return high


@cache
def discounted_gains() -> list[list[float]]:
    """Of both policies, for each of `HORIZONS`."""
    return [
        [evaluate(machine(), policy, 1 - 1 / h).discounted_gain for h in HORIZONS]
        for policy in policies()
    ]


def discount_curves(path: Path) -> None:
    """Left: the discounted value of both policies. Right: what the better one earns in the end."""
    figure = Figure(figsize=(10.5, 3.9), layout="constrained")
    left, right = figure.subplots(1, 2)
    _draw_criterion(left)
    _draw_choice(right)
    figure.savefig(path, dpi=120)


def discount_animation(path: Path) -> None:
    """The discount rises; at the threshold its policy changes, and with it the machine's life."""
    frames = [_frame(discount) for discount in 1 - 1 / np.logspace(1, 4, FRAMES)]
    times = [FRAME_MILLISECONDS] * (FRAMES - 1) + [2500]
    frames[0].save(
        path, save_all=True, append_images=frames[1:], duration=times, loop=0, optimize=True
    )


def _frame(discount: float) -> Image.Image:
    figure = Figure(figsize=(8.4, 4.4), layout="constrained")
    canvas = FigureCanvasAgg(figure)
    above, below = figure.subplots(2, 1, height_ratios=(2.2, 1))
    _draw_criterion(above)
    above.axvline(1 / (1 - discount), color="0.15", linewidth=1.6)
    policy = discounted_optimum(machine(), discount)
    _draw_life(below, discount, policy)
    figure.set_dpi(90)
    canvas.draw()
    rows = np.asarray(canvas.buffer_rgba())[:, :, :3]
    return Image.fromarray(np.ascontiguousarray(rows)).quantize(128)


def _draw_criterion(axis: Axes) -> None:
    """The normalised discounted reward of both policies, over the discount."""
    words = ("service it when worn out", "never service it")
    for gains, colour, label in zip(discounted_gains(), (BLUE, RED), words, strict=True):
        axis.plot(HORIZONS, gains, color=colour, linewidth=2, label=label)
    axis.axvline(1 / (1 - threshold()), color=GREY, linestyle="--", linewidth=1)
    axis.set_title("What a discount says each policy is worth (per step)", loc="left", fontsize=11)
    axis.legend(frameon=False, loc="lower left")
    _discount_axis(axis)
    axis.set_ylim(0, 1.04)


def _draw_choice(axis: Axes) -> None:
    """The long-run reward of the policy that is optimal for each discount."""
    best, never = (evaluate(machine(), policy).gain for policy in policies())
    edge = 1 / (1 - threshold())
    axis.plot([HORIZONS[0], edge], [never, never], color=RED, linewidth=2.5)
    axis.plot([edge, HORIZONS[-1]], [best, best], color=BLUE, linewidth=2.5)
    axis.axvline(edge, color=GREY, linestyle="--", linewidth=1)
    axis.annotate(f"threshold {threshold():.4f}", (edge * 0.93, 0.45), ha="right", color="0.3")
    axis.annotate(f"never: {never:.3f}", (11, never + 0.03), color=RED)
    axis.annotate(f"worn out: {best:.3f}", (edge * 1.1, best + 0.03), color=BLUE)
    axis.set_title(
        "What the optimal policy of each discount earns in the long run", loc="left", fontsize=11
    )
    _discount_axis(axis)
    axis.set_ylim(0, 0.84)


def _discount_axis(axis: Axes) -> None:
    axis.set_xscale("log")
    axis.set_xlim(HORIZONS[0], HORIZONS[-1])
    axis.set_xticks([10, 100, 1000, 10_000])
    axis.xaxis.set_major_formatter(FuncFormatter(lambda h, _: f"{1 - 1 / h:.4g}"))
    axis.minorticks_off()
    axis.set_xlabel("discount")
    axis.spines[["top", "right"]].set_visible(False)


def _draw_life(axis: Axes, discount: float, policy: NDArray[np.intp]) -> None:
    """10,000 hours of a machine under the policy."""
    states = life(machine(), policy)
    for kind, colour in enumerate(STATES.values()):
        begins, ends = spells(states == kind)
        axis.broken_barh(
            np.column_stack([begins, ends - begins]).tolist(), (0, 1), color=colour, linewidth=0
        )
    share = evaluate(machine(), policy).gain / evaluate(machine(), policies()[0]).gain
    words = (
        f"discount {discount:.4f}: {when_serviced(policy)}, {share:.0%} of the best long-run reward"
    )
    axis.set_title(
        words, loc="left", fontsize=11, fontweight="bold", color=BLUE if share > 0.9 else RED
    )
    axis.set(xlim=(0, HOURS), ylim=(0, 1), yticks=[], xlabel="hours")
    axis.spines[["top", "right", "left"]].set_visible(False)
    handles = [Patch(color=colour, label=name) for name, colour in STATES.items()]
    place = {"loc": "upper right", "bbox_to_anchor": (1, -0.22), "ncols": 3}
    axis.legend(
        handles=handles, frameon=False, handlelength=1, columnspacing=1, fontsize=9, **place
    )
