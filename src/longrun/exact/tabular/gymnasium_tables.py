"""Gymnasium's transition tables, P[state][action] = [(probability, successor, reward, terminated)].

A table is episodic; an MDP here is continuing. A terminated transition therefore leads to the
first state of the next episode, so that the gain is the average reward per step over endless
episodes. Time limits are not part of a table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from longrun.base.errors import InputError
from longrun.exact.tabular.mdp import MDP
from longrun.exact.tabular.validation import Array, state_law

if TYPE_CHECKING:
    from longrun.exact.tabular.mdp_environment import MDPEnv

Outcome: TypeAlias = tuple[float, int, float, bool]
Table: TypeAlias = dict[int, dict[int, list[Outcome]]]


def from_gymnasium(env_or_table: Any, initial: ArrayLike | None = None, **make_kwargs: Any) -> MDP:
    """The MDP of an environment with a transition table: its id, the environment, or its `P`.

    initial: [S], the law of an episode's first state (default: the environment's
    initial_state_distrib); a table whose episodes end needs it. An action that is missing from a
    state's inner dictionary is not available there. make_kwargs: for gymnasium.make, with an id.
    The cost `terminated`, ends of episodes per step, can be limited.
    """
    if isinstance(env_or_table, str):
        import gymnasium

        try:
            env = gymnasium.make(env_or_table, **make_kwargs)
        except gymnasium.error.Error as error:
            raise InputError(f"environment '{env_or_table}': {error}") from None
        with closing(env):
            return from_gymnasium(env, initial)
    if make_kwargs:
        names = ", ".join(make_kwargs)
        raise InputError(f"{names} is for gymnasium.make; give an environment id with it")
    if isinstance(env_or_table, (Mapping, Sequence)):
        return _of_table(env_or_table, initial, "")
    inner = getattr(env_or_table, "unwrapped", env_or_table)
    name = str(getattr(getattr(env_or_table, "spec", None), "id", type(inner).__name__))
    table = getattr(inner, "P", None)
    if not isinstance(table, (Mapping, Sequence)):
        raise InputError(
            f"{name} has no transition table P; give an environment that has one, such as "
            "FrozenLake-v1, or the table itself"
        )
    if initial is None:
        initial = getattr(inner, "initial_state_distrib", None)
    return _of_table(table, initial, name)


def to_gymnasium(mdp: MDP) -> MDPEnv:
    """The MDP as a Gymnasium environment without an end, which has the table as its `P`."""
    from longrun.exact.tabular.mdp_environment import MDPEnv  # which imports Gymnasium

    return MDPEnv(mdp)


def transition_table(mdp: MDP) -> Table:
    """The table `P` of an MDP: no transition is terminated, and rewards are expected rewards."""
    table: Table = {s: {} for s in range(mdp.num_states)}
    for s, a in np.argwhere(mdp.available):
        row = mdp.kernel[[a * mdp.num_states + s]]
        columns = row.indices if mdp.is_sparse else np.flatnonzero(row)
        probabilities = row.data if mdp.is_sparse else row[0, columns]
        reward = float(mdp.rewards[s, a])
        table[int(s)][int(a)] = [
            (float(p), int(j), reward, False) for p, j in zip(probabilities, columns, strict=True)
        ]
    return table


def _of_table(table: Any, initial: ArrayLike | None, name: str) -> MDP:
    states = len(table)
    choices = [dict(_numbered(table[s])) for s in range(states)]
    count = 1 + max(a for each in choices for a in each)
    law = None if initial is None else state_law(initial, states)

    def successors(state: int, action: int) -> list[Any] | None:
        if action not in choices[state]:
            return None
        place = f"state {state}, action {action}"
        return [each for found in choices[state][action] for each in _continuing(found, law, place)]

    mdp = MDP.from_function(successors, states, count, initial=law, name=name)
    if law is not None:
        mdp.costs["terminated"] = ends = np.zeros((states, count))
        for s, each in enumerate(choices):
            for a, outcomes in each.items():
                ends[s, a] = sum(float(outcome[0]) for outcome in outcomes if outcome[3])
    return mdp


def _numbered(entries: Any) -> Iterable[tuple[int, Any]]:
    return entries.items() if isinstance(entries, Mapping) else enumerate(entries)


def _continuing(outcome: Any, law: Array | None, place: str) -> list[tuple[Any, Any, Any]]:
    """(probability, successor, reward), where an episode's end leads to the next one's start."""
    try:
        probability, successor, reward, terminated = outcome
    except (TypeError, ValueError):
        raise InputError(
            f"{place} has outcome {outcome!r}; give (probability, successor, reward, terminated)"
        ) from None
    if not terminated:
        return [(probability, successor, reward)]
    if law is None:
        raise InputError(f"{place} ends an episode; give initial, where the next one starts")
    return [(probability * float(law[s]), int(s), reward) for s in np.flatnonzero(law)]
