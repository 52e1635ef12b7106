"""Figures of the theory: constants of the bounds, their tightness, certified steps, policies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.image import AxesImage
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from longrun.base.errors import InputError
from longrun.base.picture_files import picture, require_picture
from longrun.exact.tabular import bounds
from longrun.exact.tabular.bounds import ImprovementBounds
from longrun.exact.tabular.evaluation import evaluate
from longrun.exact.tabular.mdp import MDP
from longrun.exact.tabular.trust_region import TrustRegionPath

STYLES: dict[str, tuple[str, dict[str, Any]]] = {
    "theorem": ("Ma et al. (the paper's theorem)", {"color": "tab:red"}),
    "achiam": ("Achiam et al.", {"color": "tab:blue"}),
    "zhang_ross": ("Zhang and Ross", {"color": "tab:green", "linestyle": "--"}),
    "dai_gluzman": ("Dai and Gluzman", {"color": "tab:purple"}),
}
"""Dashed where one line may cover another: for gamma = 1 the theorem is Zhang and Ross's bound."""
SLICES = (0, 1, 2, 4, 8, 16)
"""Slices of a box with three sides at which a policy is shown: values of the first side."""
UNDECIDED = "0.9"
"""Grey, for states that a map leaves out because there is no decision."""


def xi_over_discount(mdp: MDP, policy: ArrayLike, out: Path) -> None:
    """The constants of all bounds over the effective horizon 1 / (1 - gamma): Remark 2."""
    kemeny = evaluate(mdp, policy).kemeny
    horizons = np.logspace(0, np.log10(100 * kemeny), 120)
    discounts = 1 - 1 / horizons
    dai = [bounds.dai_gluzman_xi(evaluate(mdp, policy, gamma)) for gamma in discounts[::4]]
    average = bounds.dai_gluzman_xi(evaluate(mdp, policy))
    with _figure(out, 1, (7.5, 4.8)) as (axis,):
        axis.plot(horizons, horizons - 1, color="tab:blue", label="Achiam et al.: γ/(1−γ)")
        axis.plot(
            horizons,
            [bounds.xi(kemeny, gamma) for gamma in discounts],
            color="tab:red",
            linewidth=2.5,
            label="Ma et al.: ξ",
        )
        edge = horizons[-1]
        axis.plot(
            [*horizons[::4], edge],
            [*dai, average],
            color="tab:purple",
            label="Dai and Gluzman: γτ(D)",
        )
        for value, text in ((kemeny - 1, "κ−1"), (2 * (kemeny - 1), "2(κ−1)")):
            axis.axhline(value, color="0.6", linestyle=":", linewidth=1)
            axis.annotate(text, (1.05, value), va="bottom", color="0.35")
        axis.plot(edge, kemeny - 1, "D", color="tab:green", label="Zhang and Ross: κ−1 (γ = 1)")
        axis.plot(edge, average, "D", color="tab:purple", label="Dai and Gluzman at γ = 1")
        axis.axvline(2 * kemeny - 1, color="tab:red", linestyle="--", linewidth=0.8)
        axis.annotate(
            "worst γ = 1−1/(2κ−1)", (2 * kemeny - 1, 0.6), rotation=90, ha="right", fontsize=8
        )
        axis.set(xscale="log", yscale="log", xlabel="effective horizon 1/(1−γ)")
        axis.set(ylabel="constant of the bound", ylim=(0.5, 20 * kemeny))
        axis.set_title(f"{mdp.name}: κ = {kemeny:.4g}")
        axis.legend(frameon=False, fontsize=8, loc="upper left")


def bound_tightness(
    comparisons: Sequence[ImprovementBounds], out: Path, title: str | None = None
) -> None:
    """Width of each bound relative to the smallest one, Proposition 1 with the true laws."""
    shown = [c for c in comparisons if c.by_law.upper > c.by_law.lower]
    with _figure(out, 1, (7.5, 4.5)) as (axis,):
        for name, (label, style) in STYLES.items():
            widths = [_width(c.bounds[name]) / _width(c.by_law) for c in shown]
            finite = np.sort([w for w in widths if np.isfinite(w)])
            if len(finite):
                share = np.arange(1, len(finite) + 1) / len(shown)
                axis.step(finite, share, **style, label=f"{label}, median {np.median(finite):.3g}x")
        axis.set(xscale="log", xlabel="width of the bound over the width of Proposition 1")
        axis.set(ylabel="share of pairs of policies", ylim=(0, 1))
        axis.set_title(title or f"{len(shown):,} pairs of policies of random models")
        axis.figure.legend(frameon=False, fontsize=9, loc="outside lower center", ncols=2)


def certified_steps(path: TrustRegionPath, out: Path) -> None:
    """The actual improvement of each step against the bounds computed before it was taken."""
    numbers = np.arange(1, len(path.steps) + 1)
    with _figure(out, 2, (11, 4.5)) as (axis, gains):
        actual = [step.bounds.difference for step in path.steps]
        axis.plot(numbers, actual, color="black", linewidth=2, label="actual improvement")
        for name, (label, style) in STYLES.items():
            lower = np.array([step.bounds.bounds[name].lower for step in path.steps])
            lower[~(np.isfinite(lower) & (lower > 0))] = np.nan
            if np.isfinite(lower).any():
                axis.plot(numbers, lower, **style, label=f"{label}: promised")
        axis.set(yscale="log", xlabel="step", ylabel="improvement of the gain")
        axis.set_title(f"certified by: {STYLES[path.certificate][0]}")
        axis.legend(frameon=False, fontsize=8)
        gains.plot(numbers, [step.gain for step in path.steps], color="black")
        gains.axhline(path.gain + path.gap, color="0.6", linestyle=":", label="no policy above")
        gains.set(xlabel="step", ylabel="gain", title="gain after each step")
        gains.legend(frameon=False, fontsize=8, loc="center left")


def policy_map(mdp: MDP, policy: ArrayLike, out: Path) -> None:
    """The action [S] of each state of a box with two sides, or of slices of one with three."""
    require_map(mdp, out)
    actions, names, values = np.asarray(policy), mdp.sides, mdp.side_values
    if actions.shape != (mdp.num_states,):
        raise InputError(f"policy has shape {actions.shape}; a map needs one action for each state")
    actions = actions.reshape(mdp.shape)
    if len(mdp.shape) == 2:
        panels: list[tuple[str, Any]] = [("", actions)]
    else:
        lengths = [length for length in SLICES if length < mdp.shape[0]]
        panels = [(f"{names[0]}: {values[0][length]}", actions[length]) for length in lengths]
    columns = min(len(panels), 3)
    rows = -(-len(panels) // columns)
    with _figure(out, columns, (3.6 * columns + 1.6, 3.4 * rows + 0.6), rows) as axes:
        for axis, (title, panel) in zip(axes, panels, strict=False):
            image = draw_actions(axis, panel, mdp.num_actions)
            name_ticks(axis, *values[-2:])
            axis.set(xlabel=names[-2], ylabel=names[-1])
            axis.set_title(title, fontsize=9)
        for axis in axes[len(panels) :]:
            axis.set_visible(False)
        bar = axes[0].figure.colorbar(image, ax=axes, ticks=range(mdp.num_actions), shrink=0.7)
        bar.ax.set_yticklabels(mdp.actions)
        axes[0].figure.suptitle(mdp.name)


def draw_actions(axis: Axes, actions: ArrayLike, count: int) -> AxesImage:
    """Draw actions [x, y] out of `count` as colours; masked entries are grey."""
    colours = ListedColormap(action_colours(count)).with_extremes(bad=UNDECIDED)
    norm = BoundaryNorm(np.arange(count + 1) - 0.5, count)
    cells: Any = np.ma.asarray(actions)
    image = axis.imshow(cells.T, origin="lower", cmap=colours, norm=norm, aspect="auto")
    for side in (axis.xaxis, axis.yaxis):
        side.set_major_locator(MaxNLocator(integer=True))
    return image


def name_ticks(axis: Axes, x: Sequence[Any], y: Sequence[Any]) -> None:
    """Show the values that the indices along both sides stand for."""
    axis.xaxis.set_major_formatter(partial(_tick, x))
    axis.yaxis.set_major_formatter(partial(_tick, y))


def _tick(values: Sequence[Any], place: float, _: object) -> str:
    return str(values[int(place)]) if place in range(len(values)) else ""


def action_colours(count: int) -> list[Any]:
    """The colour of each action."""
    palette = colormaps["Set2" if count <= 8 else "tab20"]
    return [palette(a % 20) for a in range(count)]


def require_map(mdp: MDP, out: Path) -> None:
    """Raise InputError if `policy_map` cannot draw or write; can be called before solving."""
    if len(mdp.shape) not in (2, 3):
        raise InputError(f"a policy map needs a box of 2 or 3 sides; this model's is {mdp.shape}")
    require_picture(out)


@contextmanager
def _figure(
    out: Path, columns: int, size: tuple[float, float], rows: int = 1
) -> Iterator[list[Axes]]:
    with picture(out, size=size) as figure:
        axes = list(figure.subplots(rows, columns, squeeze=False).ravel())
        for axis in axes:
            axis.spines[["top", "right"]].set_visible(False)
        yield axes


def _width(bound: bounds.Bound) -> float:
    return bound.upper - bound.lower
