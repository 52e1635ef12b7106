"""Tables of transitions and rewards, from a function that lists the successors of an action."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longrun.base.errors import InputError
from longrun.exact.tabular.validation import Array, Matrix

Successors: TypeAlias = Iterable[tuple[float, Hashable, float]]
Labels: TypeAlias = "int | Iterable[Any]"


class Table(NamedTuple):
    """What one action does in each state."""

    transitions: Matrix
    """[S, S]"""
    rewards: Array
    """[S], expected"""
    available: NDArray[np.bool_]
    """[S]"""


def labels(name: str, given: Labels) -> Sequence[Any]:
    """The labels of states or actions: 0 to n - 1 for a number."""
    if isinstance(given, (int, np.integer)):
        found: Sequence[Any] = range(given)
    elif isinstance(given, Iterable):
        found = tuple(given)
    else:
        raise InputError(f"{name}={given!r} is neither a whole number nor labels; give one of them")
    if not found:
        raise InputError(f"{name}={given!r} names none; give 1 or more")
    return found


def numbered(states: Sequence[Any]) -> dict[Hashable, int]:
    """The number of each state."""
    index: dict[Hashable, int] = {}
    for i, state in enumerate(states):
        try:
            again = state in index
        except TypeError:
            kind = type(state).__name__
            raise InputError(f"states name {state!r}, which is a {kind}; give a tuple") from None
        if again:
            raise InputError(f"states name {state!r} twice; name each state once")
        index[state] = i
    return index


def tabulated(
    successors: Callable[[Any, Any], Successors | None], index: dict[Hashable, int], action: Any
) -> Table:
    """The table of one action."""
    rows, columns, probabilities = [], [], []
    rewards = np.zeros(len(index))
    available = np.ones(len(index), bool)
    for state, s in index.items():
        found = successors(state, action)
        if found is None:
            available[s] = False
            continue
        for probability, successor, reward in _outcomes(found, index, state, action):
            rows.append(s)
            columns.append(successor)
            probabilities.append(probability)
            rewards[s] += probability * reward
    size = (len(index), len(index))
    matrix = sparse.csr_array((probabilities, (rows, columns)), size, dtype=float)
    return Table(matrix, rewards, available)


def _outcomes(
    found: Any, index: dict[Hashable, int], state: Any, action: Any
) -> Iterator[tuple[float, int, float]]:
    """Probability, number of the successor, and reward."""
    wanted = "give (probability, successor, reward) triples"
    if not isinstance(found, Iterable):
        raise InputError(f"state {state!r}, action {action!r}: {found!r}; {wanted}")
    for outcome in found:
        try:
            probability, successor, reward = outcome
            chance, paid = float(probability), float(reward)
        except (TypeError, ValueError):
            place = f"state {state!r}, action {action!r}"
            raise InputError(f"{place} has outcome {outcome!r}; {wanted}") from None
        try:
            yield chance, index[successor], paid
        except (KeyError, TypeError):  # an unhashable one is no state either
            place = f"state {state!r}, action {action!r}"
            raise InputError(
                f"{place}: successor {successor!r} is not a state; add it to states"
            ) from None
