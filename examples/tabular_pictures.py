"""The pictures of docs/theory.md, made again: a few seconds.

python examples/tabular_pictures.py
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from longrun.base.picture_files import picture
from longrun.exact.tabular.trust_region import TrustRegionPath
from longrun.lab.policy_map.picture import solution_map
from longrun.queueing import MODELS as NETWORKS
from longrun.tabular import (
    MDP,
    MODELS,
    ImprovementBounds,
    bounds,
    evaluate,
    improvement_bounds,
    solve,
    trust_region_policy_iteration,
)

IMAGES = Path(__file__).parents[1] / "docs" / "images"
GARNETS, DISCOUNT = 300, 0.99
STYLES: dict[str, tuple[str, dict[str, Any]]] = {
    "theorem": ("Ma et al. (the paper's theorem)", {"color": "tab:red"}),
    "achiam": ("Achiam et al.", {"color": "tab:blue"}),
    "zhang_ross": ("Zhang and Ross", {"color": "tab:green", "linestyle": "--"}),
    "dai_gluzman": ("Dai and Gluzman", {"color": "tab:purple"}),
}
"""Dashed where one line may cover another: for gamma = 1 the theorem is Zhang and Ross's bound."""


def theory() -> None:
    """The constants, how tight the bounds are, and the steps that they allow."""
    river = MODELS["riverswim"]()
    uniform = np.full((river.num_states, river.num_actions), 1 / river.num_actions)
    xi_over_discount(river, uniform, IMAGES / "xi-over-discount.png")
    certified_steps(trust_region_policy_iteration(river), IMAGES / "certified-steps.png")
    rng = np.random.default_rng(0)
    comparisons = []
    for seed in range(GARNETS):
        garnet = MODELS["garnet"](seed=seed)
        old, new = rng.dirichlet(np.ones(garnet.num_actions), (2, garnet.num_states))
        comparisons.append(improvement_bounds(garnet, old, new, DISCOUNT))
    title = f"{GARNETS} garnets of 20 states, two random policies each, discount {DISCOUNT}"
    bound_tightness(comparisons, IMAGES / "bound-tightness.png", title)


def policies() -> None:
    """Optimal policies of queues, drawn over the numbers of customers."""
    for name, model in (
        ("criss-cross", NETWORKS["criss-cross"](regime="BM")),
        ("tandem", NETWORKS["tandem"]()),
    ):
        solution_map(model, solve(model).policy, IMAGES / f"{name}-policy.png")


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


@contextmanager
def _figure(out: Path, columns: int, size: tuple[float, float]) -> Iterator[list[Axes]]:
    with picture(out, size=size) as figure:
        axes = list(figure.subplots(1, columns, squeeze=False).ravel())
        for axis in axes:
            axis.spines[["top", "right"]].set_visible(False)
        yield axes


def _width(bound: bounds.Bound) -> float:
    return bound.upper - bound.lower


if __name__ == "__main__":
    theory()
    policies()
    print(f"wrote five pictures to {IMAGES}")
