"""Tables of transitions and rewards, from a function that lists the successors of an action."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from longrun.base.errors import InputError
from longrun.exact.tabular.validation import Array, Matrix

Successors: TypeAlias = Iterable[tuple[float, Hashable, float]]
Labels: TypeAlias = "int | Iterable[Any]"

TRIPLES = "give (probability, successor, reward) triples"


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
        place = f"state {state!r}, action {action!r}"
        for outcome in _listed(found, place):
            probability, successor, reward = _triple(outcome, place)
            rows.append(s)
            columns.append(_number(successor, index, place))
            probabilities.append(probability)
            rewards[s] += probability * reward
    size = (len(index), len(index))
    matrix = sparse.csr_array((probabilities, (rows, columns)), size, dtype=float)
    return Table(matrix, rewards, available)


def _listed(found: Any, place: str) -> Successors:
    if isinstance(found, Iterable) and not isinstance(found, (str, dict)):
        return found
    raise InputError(f"{place}: {found!r} is a {type(found).__name__}; {TRIPLES}")


def _triple(outcome: Any, place: str) -> tuple[float, Any, float]:
    """Probability, successor and reward, with numbers as floats."""
    try:
        probability, successor, reward = outcome
    except TypeError:
        kind = type(outcome).__name__
        raise InputError(f"{place}: {outcome!r} is a {kind}; {TRIPLES}") from None
    except ValueError:
        raise InputError(f"{place}: {outcome!r} has {len(outcome)} entries; {TRIPLES}") from None
    return (
        _as_float("probability", probability, place),
        successor,
        _as_float("reward", reward, place),
    )


def _as_float(name: str, value: Any, place: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise InputError(f"{place}: {name} {value!r} is not a number") from None


def _number(successor: Any, index: dict[Hashable, int], place: str) -> int:
    try:
        return index[successor]
    except (KeyError, TypeError):  # an unhashable one is no state either
        raise InputError(
            f"{place}: successor {successor!r} is not a state; add it to states"
        ) from None
