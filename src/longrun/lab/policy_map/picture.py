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
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import ArrayLike, NDArray

from longrun.base.errors import InputError
from longrun.base.picture_files import picture, require_picture
from longrun.exact.tabular.mdp import MDP
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


class Slice(NamedTuple):
    """A part of the policies that one panel of each shows."""

    title: str
    sides: tuple[int, int]
    """numbers of the sides of the model along x and y"""
    policies: list[Panel]


def policy_map(found: PolicyComparison, out: Path) -> None:
    """Learned on the left, optimal on the right, dots where the learned policy differs.

    Grey: nothing to decide. Three queues are shown in slices across the queue along which the
    optimal policy changes least. Policies over one side are lines in one panel.
    """
    if len(found.mdp.shape) == 1:
        _draw_lines(found, out)
        return
    shown = _shown(found)
    longest = max(shown) - 1
    cut = found.boxed and longest < max(found.mdp.shape) - 1
    part = f" (shown: up to {longest}, {100 - 100 * RARE:g} % of the time)" if cut else ""
    title = f"{found.mdp.name}{part}\n{found}"
    _draw_maps(found.mdp, slices_of(found), ("learned", "optimal"), title, out)


def require_map(mdp: MDP, out: Path) -> None:
    """Raise InputError if `solution_map` cannot draw or write; can be called before solving."""
    if len(mdp.shape) not in (2, 3):
        raise InputError(f"a policy map needs a box of 2 or 3 sides; this model's is {mdp.shape}")
    require_picture(out)


def solution_map(mdp: MDP, policy: ArrayLike, out: Path) -> None:
    """The action [S] of each state of a box with two sides, or of slices of one with three."""
    require_map(mdp, out)
    actions = np.asarray(policy)
    if actions.shape != (mdp.num_states,):
        raise InputError(f"policy has shape {actions.shape}; a map needs one action for each state")
    slices = _sliced(mdp, [np.ma.asarray(actions.reshape(mdp.shape))])
    _draw_maps(mdp, slices, ("",), mdp.name, out)


def slices_of(found: PolicyComparison) -> list[Slice]:
    """The panels of the learned and the optimal policy, from the lowest place to the highest."""
    corner = tuple(slice(length) for length in _shown(found))
    undecided = found.undecided.reshape(found.mdp.shape)
    policies = [
        np.ma.masked_where(undecided, actions.reshape(found.mdp.shape))[corner]
        for actions in (found.learned, found.optimal)
    ]
    return _sliced(found.mdp, policies)


def _sliced(mdp: MDP, policies: list[Panel]) -> list[Slice]:
    """`policies` are boxes of actions; the last one decides where three sides are cut."""
    if len(mdp.shape) == 2:
        return [Slice("", (0, 1), policies)]
    side = least_important(policies[-1])
    x, y = (k for k in range(3) if k != side)
    moved = [np.moveaxis(policy, side, 0) for policy in policies]
    return [
        Slice(
            f"{mdp.sides[side]}: {mdp.side_values[side][place]}",
            (x, y),
            [policy[place] for policy in moved],
        )
        for place in places_of_slices(moved[-1])
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


def _draw_maps(
    mdp: MDP, slices: list[Slice], names: tuple[str, ...], title: str, out: Path
) -> None:
    """A block for each policy, with a panel for each slice; dots where the first one differs."""
    columns = 1 if len(slices) == 1 else 2
    rows = -(-len(slices) // columns)
    width, height = (5.25, 5.4) if columns == 1 else (6.25, 2.9 * rows + 1.5)
    with picture(out, size=(width * len(names), height), dpi=100) as figure:
        figure.suptitle(title, fontsize=12)
        blocks = figure.subfigures(1, len(names), squeeze=False, wspace=0.03)[0]
        for number, (block, name) in enumerate(zip(blocks, names, strict=True)):
            block.suptitle(name, fontsize=12, fontweight="bold")
            axes = block.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
            for axis in axes.ravel()[len(slices) :]:
                axis.set_visible(False)
            for axis, each in zip(axes.ravel(), slices, strict=False):
                _draw_actions(axis, each.policies[number], mdp.num_actions)
                axis.set_title(each.title, fontsize=10)
                for side, index in zip((axis.xaxis, axis.yaxis), each.sides, strict=True):
                    side.set_major_formatter(_names(mdp.side_values[index]))
                if number == 0:
                    _mark_differences(axis, each, 0.8 * 72 * (4.0 if columns == 1 else 2.3))
            x, y = slices[0].sides
            for axis in axes[-1]:
                axis.set_xlabel(mdp.sides[x])
            for axis in axes[:, 0]:
                axis.set_ylabel(mdp.sides[y])
        _add_legend(figure, mdp, slices)


def _draw_actions(axis: Axes, actions: Panel, count: int) -> None:
    colours = ListedColormap(action_colours(count)).with_extremes(bad=UNDECIDED)
    norm = BoundaryNorm(np.arange(count + 1) - 0.5, count)
    axis.imshow(actions.T, origin="lower", cmap=colours, norm=norm, aspect="auto")
    axis.spines[["top", "right"]].set_visible(False)
    for side in (axis.xaxis, axis.yaxis):
        side.set_major_locator(MaxNLocator(integer=True))


def _names(values: Sequence[Any]) -> FuncFormatter:
    return FuncFormatter(lambda x, _: str(values[int(x)]) if x in range(len(values)) else "")


def _mark_differences(axis: Axes, each: Slice, points: float) -> None:
    """A dot in each cell that differs; the panel is about `points` wide."""
    differs = _differs(each)
    cell = points / max(differs.shape)
    size = min(0.45 * cell, 5)
    axis.plot(*np.nonzero(differs), "o", color=DARK, markersize=size, markeredgewidth=0)


def _differs(each: Slice) -> NDArray[np.bool_]:
    return np.asarray(np.ma.filled(each.policies[0] != each.policies[-1], False))


def action_colours(count: int) -> list[Any]:
    palette = colormaps["Set2" if count <= 8 else "tab20"]
    return [palette(a % 20) for a in range(count)]


def _add_legend(figure: Figure, mdp: MDP, slices: list[Slice]) -> None:
    """Only what occurs in a panel."""
    panels = [panel for each in slices for panel in each.policies]
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
    places = np.flatnonzero(~found.undecided)
    optimal, learned = found.optimal[places], found.learned[places]
    with picture(out, size=(8, 4.8), dpi=100) as figure:
        axis = figure.subplots()
        axis.plot(places, optimal, "o", color=action_colours(2)[0], markersize=9, label="optimal")
        axis.plot(places, learned, ".", color=DARK, label="learned")
        axis.set_xlabel(found.mdp.sides[0])
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        used = max(optimal.max(initial=0), learned.max(initial=0))
        ticks = range(0, used + 1, max(1, -(-used // 12)))
        axis.set_yticks(ticks, [found.mdp.actions[a] for a in ticks])
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False)
        axis.set_title(f"{found.mdp.name}\n{found}", fontsize=11)
