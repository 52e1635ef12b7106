"""Validation of user input: the arrays of an MDP and the parameters of the models."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from longrun.base.errors import InputError, text_of
from longrun.base.memory import require_memory
from longrun.exact.tabular.precision import EPS

Array: TypeAlias = NDArray[np.float64]
Matrix: TypeAlias = Any
"""A NumPy array or a SciPy CSR array; `@` means the same for both."""

TOLERANCE = 1e-8
"""How far the sum of a row of probabilities may be from 1: files have eight digits or more, and
mistakes are larger. The row is then divided by its sum."""
COPIED = 2 * 12
"""Bytes of a transition of a sparse matrix that is copied: twice its probability and its column."""
NEGLIGIBLE = 1e-12
"""Probabilities from minus this to 0 count as 0. A remainder 1 - sum(p) of a thousand successors is
off by 1e-13 at most, and mistakes are larger."""
AS_GIVEN = 4 * EPS
"""Rows whose sums are this close to 1 are left unchanged: a few probabilities cannot be closer,
and a division would only round them differently."""


def stacked_kernel(transitions: Any) -> tuple[Matrix, tuple[int, int]]:
    """The kernel [A * S, S], a copy, and (S, A)."""
    if isinstance(transitions, (list, tuple)) and any(map(sparse.issparse, transitions)):
        shapes = [np.shape(matrix) for matrix in transitions]
        for a, shape in enumerate(shapes):
            if shape != (shapes[0][0],) * 2 or not shapes[0][0]:
                raise InputError(
                    f"transitions of action {a} have shape {shape}; "
                    "every action needs a square matrix over the same states"
                )
        entries = sum(m.nnz if sparse.issparse(m) else np.size(m) for m in transitions)
        require_memory(COPIED * entries, f"{entries:,} transitions and a copy of them")
        kernel = sparse.csr_array(sparse.vstack(transitions, format="csr", dtype=float))
        if max(kernel.nnz, *kernel.shape) < 2**31:  # halves the memory of the indices
            kernel.indices = kernel.indices.astype(np.int32, copy=False)
            kernel.indptr = kernel.indptr.astype(np.int32, copy=False)
        kernel.sum_duplicates()
        kernel.eliminate_zeros()
        return kernel, (shapes[0][0], len(shapes))
    if sparse.issparse(transitions):
        raise InputError("transitions is one sparse matrix; give a list with one for each action")
    dense = as_floats("transitions", transitions)
    if dense.ndim != 3 or dense.shape[0] != dense.shape[2] or not dense.size:
        raise InputError(
            f"transitions have shape {dense.shape}; give [S, A, S] or one sparse [S, S] an action"
        )
    states, count = dense.shape[:2]
    require_memory(2 * dense.nbytes, f"transitions of shape {dense.shape} and a copy of them")
    blocks = np.array(dense.transpose(1, 0, 2), order="C")
    return blocks.reshape(count * states, states), (states, count)


def action_mask(available: ArrayLike | None, size: tuple[int, int]) -> NDArray[np.bool_]:
    if available is None:
        return np.broadcast_to(np.True_, size)
    mask = np.array(available, bool)
    if mask.shape != size:
        raise InputError(f"available has shape {mask.shape}; give {size}, [states, actions]")
    if not mask.any(1).all():
        raise InputError(f"state {int(np.argmin(mask.any(1)))} has no available action; add one")
    return mask


def normalise_rows(kernel: Matrix, available: NDArray[np.bool_]) -> None:
    """Raise for the first row that is not a distribution; divide rows by their sums, in place."""
    is_sparse = sparse.issparse(kernel)
    entries = kernel.data if is_sparse else kernel
    if entries.size and entries.min() < 0:
        entries[(entries < 0) & (entries >= -NEGLIGIBLE)] = 0
        if is_sparse:
            kernel.eliminate_zeros()
            entries = kernel.data
    usable = available.T.ravel()
    sums = kernel @ np.ones(kernel.shape[1])
    wrong = ~(np.abs(sums - usable) <= np.where(usable, TOLERANCE, 0))
    if entries.size and not entries.min() >= 0:
        least = kernel.min(axis=1)
        wrong |= ~((least.toarray().ravel() if is_sparse else least) >= 0)
    if wrong.any():
        raise InputError(_row_problem(kernel, available, int(np.argmax(wrong))))
    if np.abs(sums - usable).max() > AS_GIVEN:
        sums[~usable] = 1
        if is_sparse:
            kernel.data /= np.repeat(sums, np.diff(kernel.indptr))
        else:
            kernel /= sums[:, None]


def _row_problem(kernel: Matrix, available: NDArray[np.bool_], index: int) -> str:
    action, state = divmod(index, kernel.shape[1])
    place = f"state {state}, action {action}"
    if not available[state, action]:
        return f"{place} is not available but has successors; set its transitions to 0"
    row = kernel[[index]]
    row = row.toarray()[0] if sparse.issparse(kernel) else row[0]
    leaving = np.delete(row, state)
    total = leaving.sum()
    if (leaving >= 0).all() and 0 < total < np.inf and abs(row[state] / total + 1) <= TOLERANCE:
        return (
            f"transitions of {place} contain {row.min():.6g} < 0 and sum to"
            " 0, as rates of continuous time do; give I + Q / c, with c at least the largest rate,"
            " and rewards per unit of time"
        )
    problem = f"sum to {row.sum():.10g}, not 1"
    if not np.isfinite(row).all():
        problem = "are not finite"
    elif row.min() < 0:
        problem = f"contain {row.min():.6g} < 0"
    return f"transitions of {place} {problem}; make them a probability distribution"


def expected_rewards(rewards: Any, kernel: Matrix, available: NDArray[np.bool_]) -> Array:
    """[S, A] from [S, A], [S, A, S] or one sparse [S, S] an action."""
    states, count = available.shape
    if isinstance(rewards, (list, tuple)) and any(map(sparse.issparse, rewards)):
        if [np.shape(matrix) for matrix in rewards] != [(states, states)] * count:
            raise InputError(f"rewards need {count} sparse matrices of shape {(states, states)}")
        stacked = sparse.csr_array(sparse.vstack(rewards, format="csr"))
        given = stacked.multiply(kernel).sum(1).reshape(count, states).T
    else:
        given = as_floats("rewards", rewards)
        if given.shape == (states, count, states):
            weights = kernel.toarray() if sparse.issparse(kernel) else kernel
            weights = weights.reshape(count, states, states)
            # Impossible transitions may have any reward, including infinity.
            given = np.where(weights.transpose(1, 0, 2) > 0, given, 0)
            given = np.einsum("saj,asj->sa", given, weights)
        elif given.shape != (states, count):
            raise InputError(
                f"rewards have shape {given.shape}; give {(states, count)}, [states, actions], or "
                f"{(states, count, states)}, [states, actions, successors]"
            )
    _require_finite("reward", given, available)
    result = np.where(available, given, -np.inf)
    return np.asarray(np.asfortranarray(result))  # actions outermost, as in the kernel


def cost_table(name: str, cost: ArrayLike, available: NDArray[np.bool_]) -> Array:
    """[S, A] from [S, A], or from [S] where all actions cost the same; 0 if not available."""
    states, count = available.shape
    given = as_floats(f"cost '{name}'", cost)
    if given.shape == (states,):
        given = given[:, None]
    elif given.shape != (states, count):
        raise InputError(
            f"cost '{name}' has shape {given.shape}; give {(states, count)}, [states, actions], or "
            f"{(states,)}, [states]"
        )
    given = np.broadcast_to(given, available.shape)
    _require_finite(f"cost '{name}'", given, available)
    # No copy: the costs of large models are views of a few numbers.
    return given if available.all() else np.where(available, given, 0.0)


def _require_finite(what: str, given: Array, available: NDArray[np.bool_]) -> None:
    wrong = ~np.isfinite(given) & available
    if wrong.any():
        s, a = np.argwhere(wrong)[0]
        raise InputError(f"{what} of state {s}, action {a} is {given[s, a]}; make it finite")


def state_law(initial: ArrayLike, states: int) -> Array:
    """[S], validated and divided by its sum."""
    law = without_rounding(as_floats("initial", initial))
    if law.shape != (states,):
        raise InputError(f"initial has shape {law.shape}; give {(states,)}, [states]")
    if not (law >= 0).all() or not abs(law.sum() - 1) <= TOLERANCE:
        raise InputError(
            f"initial sums to {law.sum():.10g} with least entry {law.min():.6g}; "
            "make it a probability distribution"
        )
    return np.asarray(law / law.sum())


def as_floats(name: str, given: Any) -> Array:
    """The argument as an array."""
    try:
        return np.asarray(given, float)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be an array of numbers: {text_of(error)}") from None


def without_rounding(law: Array) -> Array:
    """The same probabilities, 0 where rounding made them negative."""
    return np.where((law < 0) & (law >= -NEGLIGIBLE), 0.0, law)


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
