"""Memory that models take, so that what cannot fit is refused before it is allocated.

The numbers are measured peaks (`tests/tabular/test_memory.py` compares those of networks).
"""

from __future__ import annotations

from typing import Any

from longrun.base.memory import require_memory

STATE, TRANSITION = 170, 55
"""Bytes of a state and of a transition while a sparse model is built."""
SOLVED, EVALUATED = 500, 800
"""Bytes of a state while a large model is solved, or a policy evaluated with its law. (Those of the
dense matrices of a small one are 0.1 GiB at most.)"""


def require_room(asked: str, states: int, transitions: float) -> None:
    """Raise InputError if a sparse model does not fit; `asked` is the argument, name=value."""
    size = STATE * states + TRANSITION * transitions
    require_memory(size, f"{asked} makes {states:,} states, which")


def require_dense_room(asked: str, states: int, actions: int) -> None:
    """The same for a model that is stored as [S, A, S]: 17 bytes of an entry while it is built."""
    require_memory(17 * actions * states**2, f"{asked} makes {states:,} states, which")


def require_room_to_solve(mdp: Any, costs: int = 0) -> None:
    """Raise InputError if solving an MDP, with limits on `costs`, needs more than there is."""
    payments = 3 * 8 * mdp.num_actions * (1 + costs)
    require_room_beside(mdp, SOLVED + payments, "to be solved")


def require_room_beside(mdp: Any, state: float, purpose: str) -> None:
    """The same for `state` bytes of each state, beside the model itself."""
    states, kernel = mdp.num_states, mdp.kernel
    model = kernel.data.nbytes + kernel.indices.nbytes if mdp.is_sparse else kernel.nbytes
    require_memory(model + state * states, f"{states:,} states {purpose}")
