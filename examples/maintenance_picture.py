"""The picture of `examples/maintenance.py`: how it was learned, and what the machine then does."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import EngFormatter
from numpy.typing import NDArray

from longrun.tabular import MDP

COLOURS = {"APO": "#0a6fb8", "PPO 0.99": "#d1495b", "PPO 0.999": "#8a8f98"}
STATES = {"runs": "#3fa34d", "in service": "#f2c14e", "broken": "#2b2d42"}
HOURS = 10_000
"""of the machine's life that are shown"""
LABEL: dict[str, Any] = {"fontsize": 11.5, "fontweight": "bold"}
SMOOTH = 8
"""iterations over which the curves are averaged"""


class Learned(NamedTuple):
    """One seed of one algorithm."""

    label: str
    seed: int
    steps: NDArray[np.float64]
    """[K] environment steps after each iteration"""
    reward: NDArray[np.float64]
    """[K] mean reward per step in each iteration"""
    policy: NDArray[np.intp]
    """[S] the policy at the end"""
    gain: float
    """its average reward in the long run, exact"""


def draw(learned: list[Learned], mdp: MDP, best: float, discounted: float, out: Path) -> None:
    """Left: learning curves of all seeds; right: a life of the machine under each policy."""
    figure = Figure(figsize=(11.5, 4.8), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.12, h_pad=0.08)
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.2))
    figure.suptitle(
        "When should a machine be serviced, before it breaks? A discount of 0.99 says: never.",
        fontsize=14,
        fontweight="bold",
    )
    draw_curves(left, learned, best, discounted)
    draw_lives(right, learned, mdp, best)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=110)


def draw_curves(axis: Axes, learned: list[Learned], best: float, discounted: float) -> None:
    end = max(each.steps[-1] for each in learned)
    for each in learned:
        reward = np.convolve(each.reward, np.ones(SMOOTH) / SMOOTH, mode="valid")
        steps = each.steps[len(each.steps) - len(reward) :]
        axis.plot(steps, reward, color=COLOURS[each.label], linewidth=1.1, alpha=0.75)
    for level, place, text in (
        (best, 0.775, "best possible (exact)"),
        (discounted, 0.02, "best for a discount of 0.99 (exact)"),
    ):
        axis.axhline(level, color="0.25", linestyle="--", linewidth=1)
        axis.annotate(f"{text}: {level:.2f}", (end, place), ha="right", color="0.25")
    for (label, colour), place in zip(COLOURS.items(), (0.61, 0.22, 0.55), strict=True):
        axis.annotate(label, (end, place), ha="right", color=colour, **LABEL)
    axis.set(ylim=(0, 0.84), xlim=(0, end), xlabel="training steps")
    axis.set_title("Reward per hour while learning (every seed)", loc="left")
    axis.xaxis.set_major_formatter(EngFormatter())
    axis.spines[["top", "right"]].set_visible(False)


def draw_lives(axis: Axes, learned: list[Learned], mdp: MDP, best: float) -> None:
    """A strip for the first seed of each algorithm, with what all its seeds earn."""
    labels = list(dict.fromkeys(each.label for each in learned))
    for row, label in enumerate(labels):
        seeds = [each for each in learned if each.label == label]
        states = life(mdp, seeds[0].policy)
        for kind, (name, colour) in enumerate(STATES.items()):
            begins, ends = spells(states == kind)
            bars = np.column_stack([begins, ends - begins]).tolist()
            axis.broken_barh(bars, (row, 0.55), color=colour, linewidth=0, label=name)
        axis.annotate(earned(seeds, best), (0, row - 0.08), color=COLOURS[label], **LABEL)
    axis.set(ylim=(len(labels) - 0.35, -0.35), xlim=(0, HOURS), yticks=[], xlabel="hours")
    axis.set_title("The machine afterwards", loc="left")
    axis.spines[["top", "right", "left"]].set_visible(False)
    handles = [Patch(color=colour, label=name) for name, colour in STATES.items()]
    place = {"loc": "lower right", "bbox_to_anchor": (1, 0.985), "borderpad": 0}
    axis.legend(handles=handles, frameon=False, ncols=3, handlelength=1, columnspacing=1, **place)


def earned(seeds: list[Learned], best: float) -> str:
    """What the policies of all seeds earn in the long run."""
    percent = [round(100 * each.gain / best) for each in seeds]
    low, high = min(percent), max(percent)
    what = f"{low} %" if low == high else f"{low} to {high} %"
    return f"{seeds[0].label} earns {what} of the best possible"


def life(mdp: MDP, policy: NDArray[np.intp], seed: int = 0) -> NDArray[np.intp]:
    """[HOURS] of a machine that starts as new: 0 runs, 1 in service, 2 broken."""
    transition, _ = mdp.chain(policy)
    below = np.cumsum(transition.toarray(), axis=1)
    uniform = np.random.default_rng(seed).random(HOURS)
    state, states = 0, np.empty(HOURS, np.intp)
    for hour in range(HOURS):
        states[hour] = max(state - (mdp.num_states - 3), 0)
        state = int(np.searchsorted(below[state], uniform[hour], side="right"))
    return states


def spells(there: NDArray[np.bool_]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Where runs of True begin and where they end."""
    change = np.flatnonzero(np.diff(there, prepend=False, append=False))
    return change[::2], change[1::2]
