"""A finite Markov decision process: storage, validation and access."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from longrun.base.errors import InputError
from longrun.exact.tabular.precision import longest_row
from longrun.exact.tabular.room import require_room
from longrun.exact.tabular.sparse_products import RowBlocks
from longrun.exact.tabular.validation import (
    TOLERANCE,
    Array,
    Matrix,
    Successors,
    action_mask,
    as_floats,
    cost_table,
    expected_rewards,
    labels,
    normalise_rows,
    stacked_kernel,
    state_law,
    tabulated,
    without_rounding,
)

__all__ = ["MDP", "TOLERANCE", "Array", "Matrix", "Successors"]


class MDP:
    """States, actions, transition probabilities and rewards.

    transitions: [S, A, S] array, or one scipy.sparse [S, S] matrix for each action. Rows are
        divided by their sums, which may be 1e-8 off. Entries from -1e-12 to 0 count as 0, since a
        remainder 1 - sum(p) may round below 0.
    rewards: [S, A], or [S, A, S] where the reward depends on the successor (then its mean is kept).
    available: [S, A], False where an action cannot be chosen; such a row of probabilities is 0.
    initial: [S], the law of the first state (default: uniform): discounted criteria and learners
        start there; long-run averages do not depend on it.
    costs: what else is paid, by name, [S, A] or [S]; `solve` can limit their long-run averages.
    name, shape, sides, actions, cost: for display. `shape` arranges the states as a box, `sides`
        and `actions` are names, and with `cost` the rewards are negated costs, shown as costs.
    """

    kernel: Matrix
    """[A * S, S], dense or CSR: row a * S + s is the law of the successor of s under a."""
    rewards: Array
    """[S, A], expected; minus infinity where the action is not available."""
    available: NDArray[np.bool_]
    initial: Array
    costs: dict[str, Array]
    """[S, A] each; 0 where the action is not available."""
    labels: Sequence[Any]
    """[S] what `from_function` calls the states; else their numbers."""

    def __init__(
        self,
        transitions: ArrayLike | Sequence[Any],
        rewards: ArrayLike | Sequence[Any],
        *,
        available: ArrayLike | None = None,
        initial: ArrayLike | None = None,
        costs: Mapping[str, ArrayLike] | None = None,
        name: str = "",
        shape: tuple[int, ...] | None = None,
        sides: Sequence[str] | None = None,
        actions: Sequence[str] | None = None,
        cost: bool = False,
    ) -> None:
        self.kernel, (states, count) = stacked_kernel(transitions)
        self.labels = range(states)
        self.name, self.cost = name, cost
        self.shape = (states,) if shape is None else tuple(shape)
        self.sides = tuple(sides or (f"side {i + 1}" for i in range(len(self.shape))))
        self.actions = tuple(actions or (f"action {a}" for a in range(count)))
        if np.prod(self.shape) != states:
            raise InputError(
                f"shape={self.shape} does not hold {states} states; make its product that"
            )
        named = (("sides", self.sides, len(self.shape)), ("actions", self.actions, count))
        for argument, names, wanted in named:
            if len(names) != wanted:
                raise InputError(f"{argument}={names} do not fit; give {wanted} names")
        self.available = action_mask(available, (states, count))
        normalise_rows(self.kernel, self.available)
        self.rewards = expected_rewards(rewards, self.kernel, self.available)
        self.initial = (
            np.full(states, 1 / states) if initial is None else state_law(initial, states)
        )
        self.costs = {
            name: cost_table(name, given, self.available) for name, given in (costs or {}).items()
        }

    def with_rewards(self, rewards: Array) -> MDP:
        """The same model with other rewards [S, A]; everything else is shared, not copied."""
        other = copy.copy(self)
        other.rewards = np.asfortranarray(np.where(self.available, rewards, -np.inf))
        return other

    @staticmethod
    def from_function(
        successors: Callable[[Any, Any], Successors | None],
        states: int | Iterable[Hashable],
        actions: int | Iterable[Any],
        **settings: Any,
    ) -> MDP:
        """Make a model from `successors(state, action)`: (probability, successor, reward) triples.

        States and actions are 0 to n - 1 or any labels, those of states hashable. None means that
        the action is not available there. Probabilities of a successor that occurs twice are added.
        """
        places, choices = labels("states", states), labels("actions", actions)
        require_room(f"states={len(places)}", len(places), len(places) * len(choices))
        tables = [tabulated(successors, places, action) for action in choices]
        if not isinstance(choices, range):
            settings.setdefault("actions", [str(action) for action in choices])
        matrices, rewards, available = zip(*tables, strict=True)
        mdp = MDP(matrices, np.array(rewards).T, available=np.array(available).T, **settings)
        mdp.labels = places
        return mdp

    @property
    def num_states(self) -> int:
        return int(self.kernel.shape[1])

    @property
    def num_actions(self) -> int:
        return int(self.kernel.shape[0] // self.kernel.shape[1])

    @property
    def num_transitions(self) -> int:
        """Possible (state, action, successor) triples."""
        return int(self.kernel.nnz if self.is_sparse else np.count_nonzero(self.kernel))

    @cached_property
    def longest_row(self) -> int:
        """Largest number of successors of a pair of state and action."""
        return longest_row(self.kernel)

    @property
    def is_sparse(self) -> bool:
        return bool(sparse.issparse(self.kernel))

    def place(self, state: int) -> tuple[Any, ...]:
        """What a state is called: its label, or its place in the box."""
        if isinstance(self.labels, range):
            return tuple(int(i) for i in np.unravel_index(state, self.shape))
        label = self.labels[state]
        return label if isinstance(label, tuple) else (label,)

    @property
    def side_values(self) -> tuple[tuple[Any, ...], ...]:
        """The values along each side of the box: those of the labels, or 0, 1, ..."""
        plain = tuple(tuple(range(length)) for length in self.shape)
        if isinstance(self.labels, range):
            return plain
        places = [self.place(s) for s in range(self.num_states)]
        if any(len(place) != len(self.shape) for place in places):
            return plain
        found = tuple(tuple(dict.fromkeys(values)) for values in zip(*places, strict=True))
        return found if places == list(itertools.product(*found)) else plain

    def __repr__(self) -> str:
        return (
            f"MDP({self.name or 'unnamed'}: {self.num_states:,} states, "
            f"{self.num_actions} actions, {self.num_transitions:,} transitions)"
        )

    def lookahead(self, values: Array, discount: float = 1.0) -> Array:
        """Q [S, A] = r + discount * P values [S]; minus infinity for unavailable actions."""
        expected = (self._blocks @ values).reshape(self.num_actions, -1).T
        if discount != 1:
            expected *= discount
        expected += self.rewards
        return np.asarray(expected)

    @cached_property
    def _blocks(self) -> Any:
        return RowBlocks(self.kernel) if self.is_sparse else self.kernel

    def distribution(self, policy: ArrayLike) -> Array:
        """[S, A] probabilities from [S, A] probabilities or [S] action indices, validated."""
        given = np.asarray(policy)
        size = (self.num_states, self.num_actions)
        if given.shape == size[:1]:
            given = self._one_hot(given)
        if given.shape != size:
            raise InputError(
                f"policy has shape {given.shape}; give {size} probabilities or {size[:1]} actions"
            )
        given = without_rounding(as_floats("policy", given))
        sums = given.sum(1)
        wrong = ~(np.abs(sums - 1) <= TOLERANCE) | ~(given >= 0).all(1)
        if wrong.any():
            s = int(np.argmax(wrong))
            raise InputError(
                f"policy of state {s} is {given[s]}, not a distribution; "
                "make its entries non-negative with sum 1"
            )
        if (given[~self.available] > 0).any():
            s, a = np.argwhere((given > 0) & ~self.available)[0]
            raise InputError(f"policy of state {s} uses action {a}, which is not available there")
        return np.asarray(given / sums[:, None])

    def _one_hot(self, actions: NDArray[Any]) -> Array:
        chosen = actions[:, None] == np.arange(self.num_actions)
        if not chosen.any(1).all():
            s = int(np.argmin(chosen.any(1)))
            raise InputError(
                f"policy of state {s} is {actions[s]}; actions are 0 to {self.num_actions - 1}"
            )
        return np.asarray(chosen, float)

    @property
    def uniform_policy(self) -> Array:
        """[S, A]: all available actions with the same probability."""
        return np.asarray(self.available / self.available.sum(1, keepdims=True))

    def chain(self, policy: ArrayLike) -> tuple[Matrix, Array]:
        """P_pi [S, S] and r_pi [S] of a policy: [S, A] probabilities or [S] action numbers.

        The policy is not validated, since solvers call this often: `distribution` does that.
        """
        states, count = self.num_states, self.num_actions
        chosen = np.asarray(policy)
        if chosen.ndim == 1:
            chosen = chosen.astype(np.intp)  # a small integer type would overflow in the product
            numbers = np.arange(states)
            return self.kernel[chosen * states + numbers], self.rewards[numbers, chosen]
        usable = np.where(self.available, self.rewards, 0)
        rewards = np.einsum("sa,sa->s", chosen, usable)
        if not self.is_sparse:
            blocks = self.kernel.reshape(count, states, states)
            return np.einsum("sa,asj->sj", chosen, blocks), rewards
        rows = (np.arange(count) * states + np.arange(states)[:, None]).ravel()
        starts = np.arange(states + 1) * count
        index = self.kernel.indices.dtype  # SciPy would use the wider of the two in the product
        # A copy: dropping the actions that are never chosen would change the caller's array.
        choose = sparse.csr_array(
            (chosen.ravel(), rows.astype(index), starts.astype(index)),
            (states, count * states),
            dtype=float,
            copy=True,
        )
        choose.eliminate_zeros()
        return sparse.csr_array(choose @ self.kernel), rewards


def require_mdp(function: str, given: Any) -> None:
    """Raise InputError for what is no model, such as the environment that it is a model of."""
    if isinstance(given, MDP):
        return
    kind = type(given).__name__
    fix = "give its model, .exact(...)" if hasattr(given, "exact") else "give a model"
    raise InputError(f"{function} needs an MDP, and {given!r} is a {kind}; {fix}")
