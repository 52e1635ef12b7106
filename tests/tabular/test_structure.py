"""Classes, periods and structure of chains and decision processes, worked out by hand."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from longrun.exact.tabular.mdp import MDP
from longrun.exact.tabular.structure import (
    Structure,
    chain_structure,
    end_components,
    reachable,
    require_constant_gain,
    structure,
)


def chain(*successors: tuple[int, ...]) -> Any:
    """[S, S] from the successors of each state, evenly likely."""
    matrix = np.zeros((len(successors), len(successors)))
    for state, targets in enumerate(successors):
        for target in targets:
            matrix[state, target] += 1 / len(targets)
    return matrix


def mdp(*actions: Any, **settings: Any) -> MDP:
    """One chain for each action."""
    transitions = np.stack(actions, axis=1)
    return MDP(transitions, np.zeros(transitions.shape[:2]), **settings)


# --- chains ----------------------------------------------------------------------------------


def test_classes() -> None:
    """0 and 1 lead to each other and to 2; 2 leads to the pairs 3, 4 and 5, 6, which never end."""
    found = chain_structure(chain((1,), (0, 2), (3, 5), (4,), (3,), (6, 5), (5,)))
    labels = found.labels
    assert labels[0] == labels[1] and labels[3] == labels[4] and labels[5] == labels[6]
    assert len({int(labels[s]) for s in (0, 2, 3, 5)}) == 4
    assert sorted(states.tolist() for states in found.recurrent) == [[3, 4], [5, 6]]
    assert not found.unichain and not found.irreducible
    assert found.period == 2  # of 3, 4; 6, 5 has period 1


def test_as_many_classes_as_states() -> None:
    """This took minutes when each class searched all states."""
    found = chain_structure(sparse.identity(100_000, format="csr"))
    assert len(found.recurrent) == 100_000
    np.testing.assert_array_equal(np.sort(np.concatenate(found.recurrent)), np.arange(100_000))


def test_transient_states() -> None:
    found = chain_structure(chain((0, 1), (2,), (1,)))
    assert [states.tolist() for states in found.recurrent] == [[1, 2]]
    assert found.unichain and not found.irreducible and found.period == 2


@pytest.mark.parametrize(
    ("matrix", "period"),
    [
        (chain((0,)), 1),
        (chain((0, 1), (0,)), 1),
        (chain((1,), (0,)), 2),
        (chain((1,), (0, 2), (1,)), 2),
        (chain((1,), (2,), (0,)), 3),
        (chain((1,), (2, 3), (0,), (4,), (5,), (0,)), 1),  # cycles of 3 and of 5
        (chain((1,), (2, 3), (0,), (4,), (5,), (6,), (0,)), 3),  # of 3 and of 6
        (chain((1,), (2,), (3,), (4,), (5,), (0,)), 6),
        (chain((1,), (0,), (3,), (4,), (2,)), 6),  # classes of period 2 and 3
        (chain((1, 2), (3,), (3,), (0,)), 3),
    ],
)
def test_periods(matrix: Any, period: int) -> None:
    assert chain_structure(matrix).period == period
    assert chain_structure(sparse.csr_array(matrix)).period == period


def test_probabilities_do_not_matter() -> None:
    tiny = np.array([[1 - 1e-300, 1e-300], [1, 0]])
    assert chain_structure(tiny).irreducible and chain_structure(tiny).period == 1


def test_what_a_chain_must_be() -> None:
    chain_structure(chain((1,), (0,))).require_irreducible("this")
    chain_structure(chain((0, 1), (1,))).require_unichain("this")
    with pytest.raises(ValueError, match="this needs a chain in which every state can be reached"):
        chain_structure(chain((0, 1), (1,))).require_irreducible("this")
    several = chain_structure(chain((1,), (2,), (3,), (0,), (4,)))
    for require in (several.require_unichain, several.require_irreducible):
        with pytest.raises(ValueError, match="has 2 recurrent classes") as raised:
            require("the policy's chain")
        assert "0, 1, 2, ..." in str(raised.value) and "\n" not in str(raised.value)


# --- decision processes ----------------------------------------------------------------------

STAY, SWAP = chain((0,), (1,)), chain((1,), (0,))


def test_staying_and_swapping() -> None:
    """Staying in every state has two recurrent classes, but another policy leads everywhere."""
    expected = Structure(1, 1, True, True, None, 1)
    assert structure(mdp(STAY, SWAP)) == expected


def test_one_action() -> None:
    assert structure(mdp(SWAP)) == Structure(1, 1, True, True, True, 2)
    assert structure(mdp(STAY)) == Structure(2, 2, False, False, False, 1)
    assert structure(mdp(chain((1,), (1,)))) == Structure(2, 1, False, True, True, 1)


def test_a_state_that_cannot_be_avoided() -> None:
    """Either action leads to state 0, from 0 to 1 or 2."""
    found = structure(mdp(chain((1,), (0,), (0,)), chain((2,), (0,), (0, 1))))
    assert found.unichain is True and found.communicating and found.period == 1


def test_weakly_communicating() -> None:
    """State 2 is left forever by any action; 0 and 1 lead to each other."""
    found = structure(mdp(chain((1,), (0,), (0,)), chain((0,), (0,), (1,))))
    assert found == Structure(2, 1, False, True, True, 1)
    require_constant_gain(mdp(chain((1,), (0,), (0,)), chain((0,), (0,), (1,))))


def test_unichain_is_not_decided() -> None:
    """A ring of four with staying: policies that stay in two places have two classes."""
    found = structure(mdp(chain((1,), (2,), (3,), (0,)), chain((0,), (1,), (2,), (3,))))
    assert found.unichain is None and found.communicating


def test_end_components() -> None:
    """0 leads to 1 or 2 and they lead back; 3 stays; 4 leads to 3 or 0 at random."""
    first = chain((1,), (0,), (0,), (3,), (3, 0))
    second = chain((2,), (1,), (4,), (3,), (3, 0))
    found = end_components(mdp(first, second))
    assert found.tolist() in ([0, 0, 0, 1, -1], [1, 1, 1, 0, -1])


def test_end_components_need_several_iterations() -> None:
    """State 1 can stay with 2 only, 2 can stay with 0 only, and 0 never returns."""
    found = end_components(mdp(chain((3,), (2,), (0, 1), (3,))))
    assert found.tolist() == [-1, -1, -1, 0]


def test_actions_that_are_not_available_hold_nothing() -> None:
    transitions = np.stack([SWAP, STAY], axis=1)
    transitions[1] = [[0, 1], [0, 0]]
    held = MDP(transitions, np.zeros((2, 2)), available=[[True, True], [True, False]])
    # 0 can stay or go to 1, which stays
    assert end_components(held).tolist() == [0, 1]
    assert structure(held).unichain is False


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_gains_that_depend_on_the_start(kind: str) -> None:
    matrices = [chain((1, 2), (1,), (2,)), chain((1,), (1,), (2,))]
    model = mdp(*matrices)
    if kind == "sparse":
        model = MDP([sparse.csr_array(m) for m in matrices], np.zeros((3, 2)))
    assert structure(model) == Structure(3, 2, False, False, False, 1)
    message = (
        "the model has 2 sets of states in which a policy can stay forever (states 1 and 2, for "
        "example), so its optimal gain may depend on the start; solve reachable(mdp)[0], what the "
        "initial law leads to, or connect them"
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        require_constant_gain(model)


# --- what can be reached ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_reachable(kind: str) -> None:
    """From 1 the first action leads to 3, the second one to 4, and these lead to each other."""
    matrices = [chain((1,), (3,), (0,), (4,), (3,)), chain((2,), (4,), (2,), (3,), (1,))]
    made: Any = np.stack(matrices, axis=1)
    if kind == "sparse":
        made = [sparse.csr_array(matrix) for matrix in matrices]
    rewards = np.arange(10.0).reshape(5, 2)
    model = MDP(made, rewards, initial=[0, 1, 0, 0, 0], name="maze", actions=("a", "b"), cost=True)
    part, states = reachable(model)
    assert states.tolist() == [1, 3, 4]
    assert part.rewards.tolist() == [[2, 3], [6, 7], [8, 9]]
    assert part.initial.tolist() == [1, 0, 0]
    assert (part.name, part.actions, part.cost) == ("maze, reachable part", ("a", "b"), True)
    kernel = part.kernel.toarray().reshape(2, 3, 3)
    assert kernel[0].tolist() == [[0, 1, 0], [0, 0, 1], [0, 1, 0]]
    assert kernel[1].tolist() == [[0, 0, 1], [0, 1, 0], [1, 0, 0]]


def test_reachable_keeps_what_is_available() -> None:
    transitions = np.stack([chain((0,), (1,), (2,)), chain((1,), (0,), (2,))], axis=1)
    available = np.array([[True, True], [True, False], [True, True]])
    transitions[1, 1] = 0
    model = MDP(transitions, np.zeros((3, 2)), available=available, initial=[1, 0, 0])
    part, states = reachable(model)
    assert states.tolist() == [0, 1]
    assert part.available.tolist() == [[True, True], [True, False]]
    assert part.rewards[1, 1] == -np.inf


def test_all_can_be_reached() -> None:
    part, states = reachable(mdp(STAY, SWAP))
    assert states.tolist() == [0, 1] and part.num_transitions == 4
