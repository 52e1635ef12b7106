"""Tables of transitions and rewards, from a function that lists the successors of an action."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longrun.base.errors import InputError
from longrun.exact.tabular.validation import Array, Matrix

Successors: TypeAlias = Iterable[tuple[float, Hashable, float]]


def labels(name: str, given: int | Iterable[Any]) -> Sequence[Any]:
    """The labels of states or actions: 0 to n - 1 for a number."""
    found = range(given) if isinstance(given, (int, np.integer)) else tuple(given)
    if not found:
        raise InputError(f"{name}={given!r} names none; give 1 or more")
    return found


def tabulated(
    successors: Callable[[Any, Any], Successors | None], states: Sequence[Any], action: Any
) -> tuple[Matrix, Array, NDArray[np.bool_]]:
    """Transitions [S, S], expected rewards [S] and availability [S] of one action."""
    index = {state: s for s, state in enumerate(states)}
    if len(index) < len(states):
        twice = next(state for s, state in enumerate(states) if index[state] > s)
        raise InputError(f"states name {twice!r} twice; name each state once")
    rows, columns, probabilities = [], [], []
    rewards, available = np.zeros(len(index)), np.ones(len(index), bool)
    for state, s in index.items():
        found = successors(state, action)
        if found is None:
            available[s] = False
            continue
        for outcome in found:
            place = f"state {state!r}, action {action!r}"
            try:
                probability, successor, reward = outcome
                probability, reward = float(probability), float(reward)
            except (TypeError, ValueError):
                told = f"{outcome!r}; give (probability, successor, reward) triples"
                raise InputError(f"{place} has outcome {told}") from None
            if successor not in index:
                raise InputError(
                    f"{place}: successor {successor!r} is not a state; add it to states"
                )
            rows.append(s)
            columns.append(index[successor])
            probabilities.append(probability)
            rewards[s] += probability * reward
    size = (len(index), len(index))
    matrix = sparse.csr_array((probabilities, (rows, columns)), size, dtype=float)
    return matrix, rewards, available
