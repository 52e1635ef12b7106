"""Maps of policies: the learned one beside the optimal one, or the solution of a model alone.

found = compare_policies(exact_model(env), learned_policy(env, config, state))
policy_map(found, Path("policy.png"))
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib import colormaps
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.figure import Figure, SubFigure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import ArrayLike, NDArray

from longrun.base.errors import InputError
from longrun.base.picture_files import picture, require_picture
from longrun.exact.tabular import MDP
from longrun.lab.policy_map.exact_comparison import PolicyComparison

Panel = Any
"""A masked array of actions [x, y], masked where nothing is decided."""

RARE = 1e-4
"""A map ends at the length that queues exceed for less than this share of the time."""
LEAST = 10
"""A map shows queues up to this length at least."""
DARK = "0.15"
"""Colour of the marks where the learned policy differs."""
UNDECIDED = "0.9"
"""Grey, for states without a decision."""
SLICES = (0, 1, 2, 4, 8, 16)
"""Values of the first of three sides at which a solution is shown."""


class Slice(NamedTuple):
    """A part of both policies that one panel shows."""

    title: str
    sides: tuple[str, str]
    learned: Panel
    optimal: Panel


def policy_map(found: PolicyComparison, out: Path) -> None:
    """Learned on the left, optimal on the right, dots where the learned policy differs.

    Grey: nothing to decide. Three queues are shown in slices across the queue along which the
    optimal policy changes least. Policies over one side are lines in one panel.
    """
    if len(found.mdp.shape) == 1:
        _draw_lines(found, out)
        return
    slices = slices_of(found)
    columns = 1 if len(slices) == 1 else 2
    rows = -(-len(slices) // columns)
    size = (10.5, 5.4) if columns == 1 else (12.5, 2.9 * rows + 1.5)
    with picture(out, size=size, dpi=100) as figure:
        figure.suptitle(_title(found, shown=slices[0].learned.shape), fontsize=12)
        blocks = figure.subfigures(1, 2, squeeze=False, wspace=0.03)[0]
        for block, name in zip(blocks, ("learned", "optimal"), strict=True):
            _draw_block(block, name, slices, (rows, columns), found.mdp.num_actions)
        _add_legend(figure, found.mdp, slices)


def _title(found: PolicyComparison, shown: tuple[int, ...]) -> str:
    longest = max(shown) - 1
    cut = found.boxed and longest < max(found.mdp.shape) - 1
    part = f" (shown: up to {longest}, {100 - 100 * RARE:g} % of the time)" if cut else ""
    return f"{found.mdp.name}{part}\n{found}"


def slices_of(found: PolicyComparison) -> list[Slice]:
    """The panels of a map, from the lowest place to the highest."""
    corner = tuple(slice(length) for length in _shown(found))
    shape, names = found.mdp.shape, found.mdp.sides
    undecided = found.undecided.reshape(shape)
    policies = [
        np.ma.masked_where(undecided, actions.reshape(shape))[corner]
        for actions in (found.learned, found.optimal)
    ]
    if len(shape) == 2:
        return [Slice("", (names[0], names[1]), *policies)]
    side = least_important(policies[1])
    x, y = (name for k, name in enumerate(names) if k != side)
    learned, optimal = (np.moveaxis(policy, side, 0) for policy in policies)
    return [
        Slice(f"{names[side]}: {place}", (x, y), learned[place], optimal[place])
        for place in places_of_slices(optimal)
    ]


def _shown(found: PolicyComparison) -> tuple[int, ...]:
    """Length of each side that is shown: all of it, or the part of a box that is visited."""
    shape = found.mdp.shape
    if not found.boxed:
        return shape
    ends = [LEAST]
    for law in (found.learned_law, found.optimal_law):
        for k in range(len(shape)):
            others = tuple(j for j in range(len(shape)) if j != k)
            beyond = 1 - np.cumsum(law.reshape(shape).sum(others))
            ends.append(int(np.argmax(beyond < RARE)) if (beyond < RARE).any() else shape[k])
    return tuple(min(max(ends) + 1, length) for length in shape)


def least_important(policy: Panel) -> int:
    """The side along which the action changes least often."""
    changes = []
    for side in range(policy.ndim):
        along = np.moveaxis(policy, side, 0)
        changes.append(int(np.ma.filled(along[1:] != along[:-1], False).sum()))
    return int(np.argmin(changes))


def places_of_slices(policy: Panel) -> list[int]:
    """Four indices along the first side; 0 only if something is decided there."""
    places = (1, 2, 4, 8) if np.ma.getmaskarray(policy)[0].all() else (0, 1, 3, 8)
    return [place for place in places if place < len(policy)]


def _draw_block(
    block: SubFigure, name: str, slices: list[Slice], grid: tuple[int, int], count: int
) -> None:
    """All slices of one of the two policies."""
    block.suptitle(name, fontsize=12, fontweight="bold")
    axes = block.subplots(*grid, squeeze=False, sharex=True, sharey=True)
    for axis in axes.ravel()[len(slices) :]:
        axis.set_visible(False)
    for axis, each in zip(axes.ravel(), slices, strict=False):
        draw_actions(axis, getattr(each, name), count)
        axis.set_title(each.title, fontsize=10)
        axis.spines[["top", "right"]].set_visible(False)
        if name == "learned":
            _mark_differences(axis, each, 0.8 * 72 * (4.0 if grid[1] == 1 else 2.3))
    for axis in axes[-1]:
        axis.set_xlabel(slices[0].sides[0])
    for axis in axes[:, 0]:
        axis.set_ylabel(slices[0].sides[1])


def _mark_differences(axis: Axes, each: Slice, points: float) -> None:
    """A dot in each cell that differs; the panel is about `points` wide."""
    places = np.nonzero(_differs(each))
    cell = points / max(each.learned.shape)
    axis.plot(*places, "o", color=DARK, markersize=min(0.45 * cell, 5), markeredgewidth=0)


def _differs(each: Slice) -> NDArray[np.bool_]:
    return np.asarray(np.ma.filled(each.learned != each.optimal, False))


def _add_legend(figure: Figure, mdp: MDP, slices: list[Slice]) -> None:
    """Only what occurs in a panel."""
    panels = [panel for each in slices for panel in (each.learned, each.optimal)]
    seen = {int(action) for panel in panels for action in np.ma.compressed(panel)}
    colours = action_colours(mdp.num_actions)
    handles: list[Artist] = [Patch(color=colours[a], label=mdp.actions[a]) for a in sorted(seen)]
    if any(np.ma.getmaskarray(panel).any() for panel in panels):
        handles.append(Patch(color=UNDECIDED, label="nothing to decide"))
    if any(_differs(each).any() for each in slices):
        dot: dict[str, Any] = {"marker": "o", "linestyle": "", "color": DARK, "markersize": 4}
        handles.append(Line2D([], [], **dot, label="not the optimal action"))
    words = max((len(str(handle.get_label())) for handle in handles), default=1)
    columns = max(1, min(len(handles), 130 // (words + 6)))
    figure.legend(handles=handles, frameon=False, loc="outside lower center", ncols=columns)


def _draw_lines(found: PolicyComparison, out: Path) -> None:
    """Both policies over a single side, at the states where there is a decision."""
    places = np.flatnonzero(~found.undecided)
    optimal, learned = found.optimal[places], found.learned[places]
    with picture(out, size=(8, 4.8), dpi=100) as figure:
        axis = figure.subplots()
        colours = action_colours(2)
        axis.plot(places, optimal, "o", color=colours[0], markersize=9, label="optimal")
        axis.plot(places, learned, ".", color=DARK, label="learned")
        axis.set_xlabel(found.mdp.sides[0])
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        used = max(optimal.max(initial=0), learned.max(initial=0))
        ticks = range(0, used + 1, max(1, -(-used // 12)))
        axis.set_yticks(ticks, [found.mdp.actions[a] for a in ticks])
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False)
        axis.set_title(_title(found, found.mdp.shape), fontsize=11)


def require_map(mdp: MDP, out: Path) -> None:
    """Raise InputError if `solution_map` cannot draw or write; can be called before solving."""
    if len(mdp.shape) not in (2, 3):
        raise InputError(f"a policy map needs a box of 2 or 3 sides; this model's is {mdp.shape}")
    require_picture(out)


def solution_map(mdp: MDP, policy: ArrayLike, out: Path) -> None:
    """The action [S] of each state of a box with two sides, or of slices of one with three."""
    require_map(mdp, out)
    actions, names, values = np.asarray(policy), mdp.sides, mdp.side_values
    if actions.shape != (mdp.num_states,):
        raise InputError(f"policy has shape {actions.shape}; a map needs one action for each state")
    actions = actions.reshape(mdp.shape)
    panels: list[tuple[str, Panel]] = [("", actions)]
    if len(mdp.shape) == 3:
        lengths = [length for length in SLICES if length < mdp.shape[0]]
        panels = [(f"{names[0]}: {values[0][length]}", actions[length]) for length in lengths]
    columns = min(len(panels), 3)
    rows = -(-len(panels) // columns)
    with picture(out, size=(3.6 * columns + 1.6, 3.4 * rows + 0.6)) as figure:
        axes = list(figure.subplots(rows, columns, squeeze=False).ravel())
        for axis, (title, panel) in zip(axes, panels, strict=False):
            image = draw_actions(axis, panel, mdp.num_actions)
            axis.spines[["top", "right"]].set_visible(False)
            axis.xaxis.set_major_formatter(_names(values[-2]))
            axis.yaxis.set_major_formatter(_names(values[-1]))
            axis.set(xlabel=names[-2], ylabel=names[-1])
            axis.set_title(title, fontsize=9)
        for axis in axes[len(panels) :]:
            axis.set_visible(False)
        bar = figure.colorbar(image, ax=axes, ticks=range(mdp.num_actions), shrink=0.7)
        bar.ax.set_yticklabels(mdp.actions)
        figure.suptitle(mdp.name)


def draw_actions(axis: Axes, actions: Panel, count: int) -> AxesImage:
    """Draw actions [x, y] out of `count` as colours; masked entries are grey."""
    colours = ListedColormap(action_colours(count)).with_extremes(bad=UNDECIDED)
    norm = BoundaryNorm(np.arange(count + 1) - 0.5, count)
    cells: Any = np.ma.asarray(actions)
    image = axis.imshow(cells.T, origin="lower", cmap=colours, norm=norm, aspect="auto")
    for side in (axis.xaxis, axis.yaxis):
        side.set_major_locator(MaxNLocator(integer=True))
    return image


def action_colours(count: int) -> list[Any]:
    palette = colormaps["Set2" if count <= 8 else "tab20"]
    return [palette(a % 20) for a in range(count)]


def _names(values: Sequence[Any]) -> FuncFormatter:
    """Shows the values that indices along a side stand for."""
    return FuncFormatter(lambda x, _: str(values[int(x)]) if x in range(len(values)) else "")
