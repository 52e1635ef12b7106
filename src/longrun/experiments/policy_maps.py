"""A picture of the answer: the policy that was learned beside the optimal one.

    found = compare(exact_model(env), learned_policy(env, config, state))
    policy_map(found, Path("policy.png"))

A network without bounds has its exact model in a box of queue lengths; both policies are judged in
the same box. Access control and inventory are finite as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from longrun.config import Config, whole_number
from longrun.envs.native.control import AccessControl, Inventory, vars_of
from longrun.envs.native.network import Decision
from longrun.envs.native.protocol import Environment
from longrun.envs.native.queueing import QueueingEnv
from longrun.envs.spaces import Spaces
from longrun.learn.acting import act
from longrun.learn.types import TrainState
from longrun.tabular import MDP, evaluate, reachable, solve
from longrun.tabular.figures import UNDECIDED, action_colours, draw_actions, picture
from longrun.tabular.models.classic import access_control, inventory

Mappable = QueueingEnv | AccessControl | Inventory
Actions = NDArray[np.intp]
Panel = Any
"""A masked array of actions [x, y], masked where nothing is decided."""

SIZES = {2: 60, 3: 30}
"""Customers of each class that the box of so many queues holds: it is solved in about a second."""
RARE = 1e-4
"""A map ends where a queue is longer in less than this share of the time, under both policies."""
LEAST = 10
"""A map shows queues up to this length at least."""
DARK = "0.15"
"""Of the marks where the learned policy differs."""


def require_mappable(env: Environment) -> Mappable:
    """The environment as it is, or a ValueError that says why there can be no map of it."""
    if not isinstance(env, QueueingEnv | AccessControl | Inventory):
        raise ValueError(no_model(env.name))
    queues = env.network.num_classes if isinstance(env, QueueingEnv) else 2
    if queues not in SIZES:
        raise ValueError(
            f"'{env.name}' has {queues} queue{'s' * (queues != 1)}; a map shows two or three"
        )
    return env


def no_model(name: str) -> str:
    """What to say of an environment that has no exact model."""
    return (
        f"'{name}' has no exact model; a map is for networks of two or three queues"
        " (jax:criss-cross, ...), jax:access-control and jax:inventory"
    )


def box_size(env: Mappable, size: int | None = None) -> int | None:
    """Customers of each class in the box, given or by default; None where there is no box."""
    if isinstance(env, QueueingEnv):
        return SIZES[env.network.num_classes] if size is None else whole_number("size", size, 1)
    if size is not None:
        raise ValueError(f"size={size} is for queueing networks; '{env.name}' is finite without it")
    return None


def exact_model(env: Mappable, size: int | None = None) -> MDP:
    """The model that a map is drawn over, with actions and sides in words."""
    require_mappable(env)
    box = box_size(env, size)
    if isinstance(env, QueueingEnv):
        assert box is not None
        mdp = env.exact(box)
        mdp.actions = _in_words(env.decisions, mdp.actions)
    elif isinstance(env, AccessControl):
        mdp = access_control(**vars_of(env))
        paid = ", ".join(f"{priority:g}" for priority in env.priorities)
        mdp.sides = ("free servers", f"kind of the customer (pays {paid})")
    else:
        mdp = inventory(**vars_of(env))
        mdp.sides = ("stock",)
    return mdp


def _in_words(decisions: tuple[Decision, ...], joint: tuple[str, ...]) -> tuple[str, ...]:
    """Of a single server there is no need to tell which one it is."""
    if len(decisions) > 1:
        return joint
    return tuple(f"serve class {each.queue + 1}" if each else "idle" for each in decisions[0][1])


def learned_policy(
    env: Mappable, config: Config, state: TrainState, size: int | None = None
) -> Actions:
    """[S] the most likely action in each state of `exact_model(env, size)`.

    Where several servers decide, an action is a joint one, numbered as `env.exact` numbers them.
    """
    spaces: Spaces = env.spaces

    def chosen(place: jax.Array) -> jax.Array:
        return act(config, spaces, state, env.observation(place), None)

    box = box_size(env, size)
    if isinstance(env, QueueingEnv):
        assert box is not None
        return env.exact_policy(chosen, box)
    rows = jax.vmap(chosen)(jnp.asarray(_places(env)))
    return np.asarray(rows[:, 0], np.intp)


def _places(env: AccessControl | Inventory) -> NDArray[np.int32]:
    """The states [S, ...] in the order of the exact model."""
    if isinstance(env, Inventory):
        return np.arange(env.capacity + 1, dtype=np.int32)
    shape = (env.servers + 1, len(env.priorities))
    return np.indices(shape, np.int32).reshape(2, -1).T


@dataclass(frozen=True)
class Comparison:
    """A policy and the optimal one in the same model."""

    mdp: MDP
    learned: Actions
    """[S] as `effects` says it; so is `optimal`"""
    optimal: Actions
    learned_gain: float
    optimal_gain: float
    learned_law: NDArray[np.float64]
    """[S] the share of time in each state; so is `optimal_law`"""
    optimal_law: NDArray[np.float64]
    undecided: NDArray[np.bool_]
    """[S] True where all that can be done is the same"""
    boxed: bool
    """True where the sides are queues that were cut off"""

    @property
    def gap(self) -> float:
        """By how many percent of the optimum the learned policy misses it."""
        missed = max(self.optimal_gain - self.learned_gain, 0.0)  # below 0 by rounding alone
        return 100 * missed / abs(self.optimal_gain) if self.optimal_gain else float("nan")

    @cached_property
    def at_walls(self) -> float:
        """The share of time that the learned policy has a full queue, which nothing can join."""
        if not self.boxed:
            return 0.0
        inner = self.learned_law.reshape(self.mdp.shape)[(slice(-1),) * len(self.mdp.shape)]
        return float(max(1 - inner.sum(), 0.0))

    def __str__(self) -> str:
        sign, word = (-1, "cost") if self.mdp.cost else (1, "reward")
        return (
            f"average {word} {sign * self.learned_gain:#.5g} learned,"
            f" {sign * self.optimal_gain:#.5g} optimal: a gap of {self.gap:.2f} %"
        )


def compare(mdp: MDP, policy: ArrayLike, boxed: bool = True) -> Comparison:
    """Evaluate a policy [S], solve the model, and see where the two differ in what they do.

    boxed: whether the model's sides are queues that were cut off.
    """
    mdp.distribution(policy)  # refuses what is no policy of this model
    learned = np.asarray(policy, np.intp)
    solution = solve(mdp)
    same, states = effects(mdp), np.arange(mdp.num_states)
    gain, law = _long_run(mdp, learned)
    _, optimal_law = _long_run(mdp, solution.policy)
    return Comparison(
        mdp,
        same[states, learned],
        same[states, solution.policy],
        gain,
        solution.gain,
        law,
        optimal_law,
        undecided=(~mdp.available | (same == same.max(1, keepdims=True))).all(1),
        boxed=boxed,
    )


def _long_run(mdp: MDP, policy: Actions) -> tuple[float, NDArray[np.float64]]:
    """Gain and law [S] of a policy that starts where the model does."""
    transition, rewards = mdp.chain(policy)
    chain = MDP([sparse.csr_array(transition)], rewards[:, None], initial=mdp.initial)
    part, states = reachable(chain)
    found = evaluate(part, np.zeros(len(states), np.intp))
    law = np.zeros(mdp.num_states)
    law[states] = found.stationary
    return found.gain, law


def effects(mdp: MDP) -> Actions:
    """[S, A] the last action that does the same as this one; -1 where it is not available.

    To idle is the last choice of a server, so that one who can do nothing is said to idle.
    """
    count, states = mdp.num_actions, mdp.num_states
    kernels = [mdp.kernel[a * states : (a + 1) * states] for a in range(count)]
    last = np.where(mdp.available, np.arange(count), -1)
    for a in range(count):
        for b in range(a + 1, count):
            both = mdp.available[:, a] & mdp.available[:, b]
            moved = np.asarray(abs(kernels[a] - kernels[b]).sum(axis=1)).ravel()
            paid = np.isclose(mdp.rewards[:, a], mdp.rewards[:, b], rtol=1e-12, atol=1e-12)
            last[both & (moved < 1e-12) & paid, a] = b
    return last


class Slice(NamedTuple):
    """What one panel shows of both policies."""

    title: str
    sides: tuple[str, str]
    learned: Panel
    optimal: Panel


def policy_map(found: Comparison, out: Path) -> None:
    """Learned on the left, optimal on the right, dots where the learned policy does otherwise.

    Grey: nothing to decide. Of three queues slices are shown, cut across the queue that matters
    least. Policies over one side are lines in one panel.
    """
    if len(found.mdp.shape) == 1:
        _draw_lines(found, out)
        return
    slices = _slices(found)
    columns = 1 if len(slices) == 1 else 2
    rows = -(-len(slices) // columns)
    size = (10.5, 5.4) if columns == 1 else (12.5, 2.9 * rows + 1.5)
    with picture(out, size, dpi=100) as figure:
        figure.suptitle(_title(found, shown=slices[0].learned.shape), fontsize=12)
        blocks = figure.subfigures(1, 2, squeeze=False, wspace=0.03)[0]
        for block, name in zip(blocks, ("learned", "optimal"), strict=True):
            _draw_block(block, name, slices, (rows, columns), found.mdp.num_actions)
        _add_legend(figure, found.mdp, slices)


def _title(found: Comparison, shown: tuple[int, ...]) -> str:
    longest = max(shown) - 1
    cut = found.boxed and longest < max(found.mdp.shape) - 1
    part = f" (shown: up to {longest}, {100 - 100 * RARE:g} % of the time)" if cut else ""
    return f"{found.mdp.name}{part}\n{found}"


def _slices(found: Comparison) -> list[Slice]:
    """The panels of a block."""
    corner = tuple(slice(length) for length in _shown(found))
    shape, names = found.mdp.shape, found.mdp.sides
    undecided = found.undecided.reshape(shape)
    policies = [
        np.ma.masked_where(undecided, actions.reshape(shape))[corner]
        for actions in (found.learned, found.optimal)
    ]
    if len(shape) == 2:
        return [Slice("", (names[0], names[1]), *policies)]
    side = _least_important(policies[1])
    x, y = (name for k, name in enumerate(names) if k != side)
    learned, optimal = (np.moveaxis(policy, side, 0) for policy in policies)
    return [
        Slice(f"{names[side]}: {place}", (x, y), learned[place], optimal[place])
        for place in _places_of_slices(optimal)
    ]


def _shown(found: Comparison) -> tuple[int, ...]:
    """How much of each side is shown: all of it, or the part of a box where customers are."""
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


def _least_important(policy: Panel) -> int:
    """The side along which the action changes least often."""
    changes = []
    for side in range(policy.ndim):
        along = np.moveaxis(policy, side, 0)
        changes.append(int(np.ma.filled(along[1:] != along[:-1], False).sum()))
    return int(np.argmin(changes))


def _places_of_slices(policy: Panel) -> list[int]:
    """Four along the first side; 0 only where something is decided there."""
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
    """A dot in each cell that differs; a panel is about so many points wide."""
    places = np.nonzero(_differs(each))
    cell = points / max(each.learned.shape)
    axis.plot(*places, "o", color=DARK, markersize=min(0.45 * cell, 5), markeredgewidth=0)


def _differs(each: Slice) -> NDArray[np.bool_]:
    return np.asarray(np.ma.filled(each.learned != each.optimal, False))


def _add_legend(figure: Figure, mdp: MDP, slices: list[Slice]) -> None:
    """What is seen somewhere, and nothing else."""
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


def _draw_lines(found: Comparison, out: Path) -> None:
    """Both policies over the only side there is."""
    with picture(out, (8, 4.8), dpi=100) as figure:
        axis = figure.subplots()
        places = np.arange(found.mdp.num_states)
        colours = action_colours(2)
        axis.plot(places, found.optimal, "o", color=colours[0], markersize=9, label="optimal")
        axis.plot(places, found.learned, ".", color=DARK, label="learned")
        axis.set_xlabel(found.mdp.sides[0])
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        used = max(found.optimal.max(), found.learned.max())
        ticks = range(0, used + 1, max(1, -(-used // 12)))
        axis.set_yticks(ticks, [found.mdp.actions[a] for a in ticks])
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False)
        axis.set_title(_title(found, found.mdp.shape), fontsize=11)
