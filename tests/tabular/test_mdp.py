"""Construction, access and validation of an MDP."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from longrun.base.errors import InputError
from longrun.exact.tabular.mdp import MDP
from longrun.exact.tabular.structure import reachable

examples = settings(max_examples=40, deadline=None, derandomize=True, database=None)

STAY = [[1, 0], [0, 1]]
MIX = [[0.25, 0.75], [0.5, 0.5]]
TRANSITIONS = np.stack([STAY, MIX], axis=1)
"""[S, A, S]: action 0 stays, action 1 mixes."""
REWARDS = [[1, 2], [3, 4]]


def two_states(kind: str = "dense", **settings_: Any) -> MDP:
    if kind == "dense":
        return MDP(TRANSITIONS, REWARDS, **settings_)
    return MDP([sparse.csr_array(STAY), sparse.coo_matrix(MIX)], REWARDS, **settings_)


def dense_kernel(mdp: MDP) -> np.ndarray[Any, Any]:
    return mdp.kernel.toarray() if mdp.is_sparse else mdp.kernel


@st.composite
def random_parts(draw: st.DrawFn) -> tuple[Any, Any, Any]:
    """Transitions [S, A, S] with zeros in them, rewards [S, A] and availability [S, A]."""
    states, actions = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    available = random.random((states, actions)) < 0.7
    available[np.arange(states), random.integers(actions, size=states)] = True
    weights = random.random((states, actions, states))
    weights *= random.random(weights.shape) < 0.6
    weights[..., 0] += 0.1
    transitions = weights / weights.sum(2, keepdims=True) * available[..., None]
    return transitions, random.normal(size=(states, actions)), available


# --- construction ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_kernel_has_actions_outermost(kind: str) -> None:
    mdp = two_states(kind)
    assert dense_kernel(mdp).tolist() == [[1, 0], [0, 1], [0.25, 0.75], [0.5, 0.5]]
    assert mdp.rewards.tolist() == REWARDS
    assert mdp.available.all() and mdp.initial.tolist() == [0.5, 0.5]
    assert (mdp.num_states, mdp.num_actions, mdp.num_transitions) == (2, 2, 6)
    assert mdp.is_sparse == (kind == "sparse")
    assert repr(mdp) == "MDP(unnamed: 2 states, 2 actions, 6 transitions)"


def test_names_for_display() -> None:
    mdp = two_states(name="pair", shape=(2, 1), actions=("stay", "mix"), cost=True)
    assert (mdp.name, mdp.shape, mdp.actions, mdp.cost) == ("pair", (2, 1), ("stay", "mix"), True)
    assert two_states().actions == ("action 0", "action 1") and two_states().shape == (2,)


def test_an_mdp_keeps_its_own_copy() -> None:
    transitions, available, initial = TRANSITIONS.copy(), np.ones((2, 2), bool), np.ones(2) / 2
    mdp = MDP(transitions, REWARDS, available=available, initial=initial)
    transitions[:], available[:], initial[:] = 9, False, 9
    assert dense_kernel(mdp).sum() == 4 and mdp.available.all() and mdp.initial.sum() == 1
    one_action = np.ones((1, 1, 1))
    assert not np.shares_memory(MDP(one_action, [[0]]).kernel, one_action)


def test_stored_zeros_and_duplicates_of_sparse_matrices_are_removed() -> None:
    twice = sparse.csr_array(([0.5, 0.5, 0.0, 1.0], [0, 0, 1, 1], [0, 3, 4]), (2, 2))
    mdp = MDP([twice], [[0], [0]])
    assert mdp.num_transitions == 2 and dense_kernel(mdp).tolist() == STAY
    assert twice.nnz == 4, "the matrix that was given is left alone"


def test_indices_have_the_smallest_sufficient_type() -> None:
    wide = sparse.csr_array((np.ones(2), np.array([0, 1]), np.array([0, 1, 2])), (2, 2))
    assert wide.indices.dtype == np.int64
    mdp = MDP([wide, wide], np.zeros((2, 2)))
    mixed, _ = mdp.chain(np.full((2, 2), 0.5))
    assert mdp.kernel.indices.dtype == mixed.indices.dtype == np.int32


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_rewards_of_successors_become_their_mean(kind: str) -> None:
    rewards = np.array([[[1, np.inf], [4, 8]], [[-np.inf, 3], [2, 6]]])  # 0 * infinity is 0 here
    transitions: Any = (
        TRANSITIONS if kind == "dense" else [sparse.csr_array(m) for m in (STAY, MIX)]
    )
    # .25 * 4 + .75 * 8 = 7      .5 * 2 + .5 * 6 = 4
    assert MDP(transitions, rewards).rewards.tolist() == [[1, 7], [3, 4]]


def test_sparse_rewards_of_successors() -> None:
    rewards = [sparse.coo_matrix([[1, 5], [5, 3]]), sparse.csr_array([[4, 8], [2, 6]])]
    assert MDP(TRANSITIONS, rewards).rewards.tolist() == [[1, 7], [3, 4]]
    with pytest.raises(
        ValueError, match=re.escape("rewards need 2 sparse matrices of shape (2, 2)")
    ):
        MDP(TRANSITIONS, rewards[:1])


def test_actions_that_are_not_available() -> None:
    transitions = TRANSITIONS.copy()
    transitions[0, 1] = 0
    mdp = MDP(transitions, [[1, np.nan], [3, 4]], available=[[1, 0], [1, 1]])
    assert mdp.rewards.tolist() == [[1, -np.inf], [3, 4]]
    assert mdp.lookahead(np.array([10.0, 20.0])).tolist() == [[11, -np.inf], [23, 19]]


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_rows_that_are_nearly_distributions_are_divided_by_their_sums(kind: str) -> None:
    rounded = np.array([[0.333333333, 0.666666666], [0, 1]])
    transitions: Any = rounded[:, None] if kind == "dense" else [sparse.csr_array(rounded)]
    kernel = dense_kernel(MDP(transitions, [[0], [0]]))
    np.testing.assert_allclose(kernel, [[1 / 3, 2 / 3], [0, 1]], rtol=1e-9)
    np.testing.assert_allclose(kernel.sum(1), 1, rtol=1e-15)


def test_from_function_with_numbers() -> None:
    def successors(s: int, a: int) -> Any:
        if a == 1:
            return None if s == 0 else [(0.25, 0, 4.0), (0.25, 0, 0.0), (0.5, 1, 2.0)]
        return [(1, np.int64(s), 1.0)]

    mdp = MDP.from_function(successors, 2, np.int64(2), name="f")
    assert dense_kernel(mdp).tolist() == [[1, 0], [0, 1], [0, 0], [0.5, 0.5]]
    assert mdp.rewards.tolist() == [[1, -np.inf], [1, 2]]  # .25 * 4 + .5 * 2 = 2
    assert mdp.available.tolist() == [[True, False], [True, True]]
    assert mdp.actions == ("action 0", "action 1") and mdp.name == "f"


def test_from_function_with_labels() -> None:
    def successors(state: str, action: str) -> Any:
        return [(1, state if action == "stay" else "ab".replace(state, ""), 0)]

    mdp = MDP.from_function(successors, ["a", "b"], ["stay", "go"])
    assert dense_kernel(mdp).tolist() == [[1, 0], [0, 1], [0, 1], [1, 0]]
    assert mdp.actions == ("stay", "go")
    with pytest.raises(ValueError, match="states name 'a' twice; name each state once"):
        MDP.from_function(successors, ["a", "b", "a"], ["stay"])
    with pytest.raises(ValueError, match="state 'a', action 'go': successor 'b' is not a state"):
        MDP.from_function(successors, ["a"], ["stay", "go"])


def stays(state: Any, action: Any) -> Any:
    return [(1.0, state, 0.0)]


def test_places_are_labels_or_indices() -> None:
    assert [two_states(shape=(1, 2)).place(s) for s in (0, 1)] == [(0, 0), (0, 1)]
    stock = MDP.from_function(stays, [(i, kind) for i in (-1, 0) for kind in "ab"], 1)
    assert stock.place(2) == (0, "a")
    assert MDP.from_function(stays, ["on", "off"], 1).place(1) == ("off",)
    assert MDP.from_function(stays, 2, 1).place(1) == (1,)
    part, _ = reachable(MDP.from_function(stays, "abc", 1, initial=[0, 0, 1]))
    assert part.place(0) == ("c",)


def test_values_of_the_sides_of_a_box() -> None:
    states = [(i, kind) for i in (-1, 0, 2) for kind in "ab"]
    box = MDP.from_function(stays, states, 1, shape=(3, 2))
    assert box.side_values == ((-1, 0, 2), ("a", "b"))
    line = MDP.from_function(stays, [-2, -1], 1)
    assert line.side_values == ((-2, -1),)
    plain = ((0, 1, 2), (0, 1))
    assert MDP.from_function(stays, 6, 1, shape=(3, 2)).side_values == plain
    mixed = MDP.from_function(stays, states[::-1][1:] + states[-1:], 1, shape=(3, 2))
    assert mixed.side_values == plain, "labels in another order than the box's"


def test_states_and_actions_may_be_iterators() -> None:
    mdp = MDP.from_function(stays, (name for name in "abc"), (name for name in ("left", "right")))
    assert (mdp.num_states, mdp.actions) == (3, ("left", "right"))


@pytest.mark.parametrize(
    ("states", "actions", "message"),
    [
        (0, 2, "states=0 names none; give 1 or more"),
        (2, [], "actions=[] names none; give 1 or more"),
    ],
)
def test_labels_that_are_refused(states: Any, actions: Any, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        MDP.from_function(stays, states, actions)


TRIPLES = "; give (probability, successor, reward) triples"


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ({1: 1.0}, "state 0, action 0 has outcome 1" + TRIPLES),
        ((1.0, 0, 0.0), "state 0, action 0 has outcome 1.0" + TRIPLES),
        ([(1.0, 0)], "state 0, action 0 has outcome (1.0, 0)" + TRIPLES),
        ([("one", 0, 0.0)], "state 0, action 0 has outcome ('one', 0, 0.0)" + TRIPLES),
        ([(1.0, 0, None)], "state 0, action 0 has outcome (1.0, 0, None)" + TRIPLES),
    ],
)
def test_outcomes_that_are_refused(found: Any, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        MDP.from_function(lambda state, action: found, 2, 1)


# --- reading ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_lookahead(kind: str) -> None:
    mdp = two_states(kind)
    # 2 + (.25 * 8 + .75 * 4) = 7     4 + (.5 * 8 + .5 * 4) = 10
    assert mdp.lookahead(np.array([8.0, 4.0])).tolist() == [[9, 7], [7, 10]]
    assert mdp.lookahead(np.array([8.0, 4.0]), discount=0.5).tolist() == [[5, 4.5], [5, 7]]


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("number", [int, np.uint8])
def test_chain_of_actions(kind: str, number: type) -> None:
    matrix, rewards = two_states(kind).chain(np.array([1, 0], number))
    matrix = matrix.toarray() if kind == "sparse" else matrix
    assert matrix.tolist() == [[0.25, 0.75], [0, 1]] and rewards.tolist() == [2, 3]


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_chain_of_probabilities(kind: str) -> None:
    policy = np.array([[0.0, 1.0], [0.5, 0.5]])
    matrix, rewards = two_states(kind).chain(policy)
    matrix = matrix.toarray() if kind == "sparse" else matrix
    assert matrix.tolist() == [[0.25, 0.75], [0.25, 0.75]] and rewards.tolist() == [2, 3.5]
    assert policy.tolist() == [[0, 1], [0.5, 0.5]], "the policy is left alone"


def test_chain_of_many_states_under_a_small_integer_type() -> None:
    mdp = MDP([sparse.eye_array(300)] * 2, np.zeros((300, 2)))
    matrix, _ = mdp.chain(np.ones(300, np.uint8))
    assert abs(matrix - sparse.eye_array(300)).max() == 0


def test_distribution_of_a_policy() -> None:
    mdp = two_states()
    assert mdp.distribution([1, 0]).tolist() == [[0, 1], [1, 0]]
    assert mdp.distribution([[0.25, 0.75], [1, 0]]).tolist() == [[0.25, 0.75], [1, 0]]


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ([0, 2], "policy of state 1 is 2; actions are 0 to 1"),
        ([-1, 0], "policy of state 0 is -1; actions are 0 to 1"),
        ([0.5, 0], "policy of state 0 is 0.5; actions are 0 to 1"),
        ([0, np.inf], "policy of state 1 is inf; actions are 0 to 1"),
        ([0, 1], "policy of state 1 uses action 1, which is not available there"),
        ([[1, 0], [0.5, 0.5]], "policy of state 1 uses action 1, which is not available there"),
        ([[1, 0], [0.5, 0.4]], "policy of state 1 is [0.5 0.4], not a distribution"),
        ([[2, -1], [1, 0]], "policy of state 0 is [ 2. -1.], not a distribution"),
        ([[1, 0]], "policy has shape (1, 2); give (2, 2) probabilities or (2,) actions"),
    ],
)
def test_policies_that_are_refused(policy: Any, message: str) -> None:
    transitions = TRANSITIONS.copy()
    transitions[1, 1] = 0
    mdp = MDP(transitions, REWARDS, available=[[1, 1], [1, 0]])
    with pytest.raises(ValueError, match=re.escape(message)):
        mdp.distribution(policy)


# --- refusals --------------------------------------------------------------------------------


def changed(state: int, action: int, row: list[float]) -> Any:
    transitions = TRANSITIONS.copy()
    transitions[state, action] = row
    return transitions


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ([0.5, 0.4], "sum to 0.9, not 1"),
        ([0, 0], "sum to 0, not 1"),
        ([1.5, -0.5], "contain -0.5 < 0"),
        ([np.nan, 1], "are not finite"),
        ([np.inf, 0], "are not finite"),
    ],
)
def test_rows_that_are_not_a_distribution(kind: str, row: list[float], problem: str) -> None:
    transitions = changed(1, 0, row)
    if kind == "sparse":
        transitions = [sparse.csr_array(transitions[:, a]) for a in range(2)]
    message = f"transitions of state 1, action 0 {problem}; make them a probability distribution"
    with pytest.raises(ValueError, match=re.escape(message)):
        MDP(transitions, REWARDS)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_a_remainder_that_rounds_below_zero_is_zero(kind: str) -> None:
    """1 - sum(p) of uniformised rates: in 1 of 20 random cases it is about -1e-16."""
    rows = np.array([[1 + 2.2e-16, -2.2e-16], [-9e-13, 1 + 9e-13]])
    made: Any = rows[:, None] if kind == "dense" else [sparse.csr_array(rows)]
    mdp = MDP(made, [[0], [0]])
    assert dense_kernel(mdp).tolist() == STAY and mdp.num_transitions == 2
    rows[1] = [-2e-12, 1 + 2e-12]
    made = rows[:, None] if kind == "dense" else [sparse.csr_array(rows)]
    with pytest.raises(ValueError, match="state 1, action 0 contain -2e-12 < 0"):
        MDP(made, [[0], [0]])


def test_random_uniformisations_are_accepted() -> None:
    random = np.random.default_rng(0)
    for _ in range(300):
        rates = random.random(int(random.integers(2, 6)))
        row = rates / rates.sum()
        laws = np.zeros((len(row) + 1, 1, len(row) + 1))
        laws[:, 0, 1:], laws[:, 0, 0] = row, 1 - row.sum()
        MDP(laws, np.zeros((len(laws), 1)), initial=laws[0, 0]).distribution([0] * len(laws))
        MDP(np.ones((1, len(row) + 1, 1)), np.zeros((1, len(row) + 1))).distribution(laws[0])


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_a_generator_matrix_is_recognised(kind: str) -> None:
    rates = np.array([[-3.0, 3.0], [2e-3, -2e-3]])
    made: Any = rates[:, None] if kind == "dense" else [sparse.csr_array(rates)]
    message = (
        "transitions of state 0, action 0 contain -3 < 0 and sum to 0, as rates of continuous time"
        " do; give I + Q / c, with c at least the largest rate, and rewards per unit of time"
    )
    with pytest.raises(InputError, match=re.escape(message)):
        MDP(made, [[0], [1]])


@pytest.mark.parametrize("row", [[0.5, 0.5], [1e-9, 0], [0.5, -0.5]])
def test_an_unavailable_action_has_no_successors(row: list[float]) -> None:
    message = "state 0, action 1 is not available but has successors; set its transitions to 0"
    with pytest.raises(ValueError, match=message):
        MDP(changed(0, 1, row), REWARDS, available=[[1, 0], [1, 1]])


REFUSED = [
    ({"rewards": [1, 2]}, "rewards have shape (2,); give (2, 2), [states, actions], or (2, 2, 2)"),
    ({"rewards": [[1, 2], [np.nan, 4]]}, "reward of state 1, action 0 is nan; make it finite"),
    ({"rewards": [[1, np.inf], [3, 4]]}, "reward of state 0, action 1 is inf; make it finite"),
    ({"available": [1, 1]}, "available has shape (2,); give (2, 2), [states, actions]"),
    ({"available": [[1, 1], [0, 0]]}, "state 1 has no available action; add one"),
    ({"initial": [1]}, "initial has shape (1,); give (2,), [states]"),
    ({"initial": [0.5, 0.4]}, "initial sums to 0.9 with least entry 0.4; make it a probability"),
    ({"initial": [1.5, -0.5]}, "initial sums to 1 with least entry -0.5; make it a probability"),
    ({"shape": (3,)}, "shape=(3,) does not hold 2 states; make its product that"),
    ({"actions": ("a",)}, "actions=('a',) do not fit; give 2 names"),
    ({"transitions": STAY}, "transitions have shape (2, 2); give [S, A, S] or one sparse [S, S]"),
    ({"transitions": []}, "transitions have shape (0,); give [S, A, S] or one sparse [S, S]"),
    ({"transitions": [[[1], [0, 1]]]}, "transitions must be an array of numbers: setting an array"),
    ({"transitions": [[["a"]]]}, "transitions must be an array of numbers: could not convert"),
    ({"rewards": [["x", 1], [1, 1]]}, "rewards must be an array of numbers: could not convert"),
    ({"initial": ["x", "y"]}, "initial must be an array of numbers: could not convert"),
    ({"costs": {"c": "x"}}, "cost 'c' must be an array of numbers: could not convert"),
    ({"transitions": sparse.eye_array(2)}, "transitions is one sparse matrix; give a list"),
    (
        {"transitions": [sparse.eye_array(2), sparse.eye_array(3)]},
        "transitions of action 1 have shape (3, 3); every action needs a square matrix",
    ),
    (
        {"transitions": [sparse.eye_array(2, 3)]},
        "transitions of action 0 have shape (2, 3); every action needs a square matrix",
    ),
]


@pytest.mark.parametrize(("change", "message"), REFUSED)
def test_invalid_arguments(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        MDP(**{"transitions": TRANSITIONS, "rewards": REWARDS} | change)


# --- relations -------------------------------------------------------------------------------


@examples
@given(random_parts())
def test_dense_and_sparse_agree(parts: tuple[Any, Any, Any]) -> None:
    transitions, rewards, available = parts
    dense = MDP(transitions, rewards, available=available)
    matrices = [sparse.csr_array(transitions[:, a]) for a in range(rewards.shape[1])]
    thin = MDP(matrices, rewards, available=available)
    policy = available / available.sum(1, keepdims=True)
    values = rewards.sum(1)
    assert dense.num_transitions == thin.num_transitions
    np.testing.assert_allclose(
        thin.lookahead(values, 0.9), dense.lookahead(values, 0.9), atol=1e-12
    )
    for one in (policy, policy.argmax(1)):
        (matrix, mean), (thin_matrix, thin_mean) = dense.chain(one), thin.chain(one)
        np.testing.assert_allclose(thin_matrix.toarray(), matrix, atol=1e-12)
        np.testing.assert_allclose(thin_mean, mean, atol=1e-12)


@examples
@given(random_parts(), st.integers(0, 1000))
def test_chain_is_the_sum_over_actions(parts: tuple[Any, Any, Any], seed: int) -> None:
    transitions, rewards, available = parts
    mdp = MDP(transitions, rewards, available=available)
    weights = np.random.default_rng(seed).random(rewards.shape) * available + 1e-3 * available
    policy = mdp.distribution(weights / weights.sum(1, keepdims=True))
    states, actions = rewards.shape
    explicit = sum(policy[:, [a]] * transitions[:, a] for a in range(actions))
    matrix, mean = mdp.chain(policy)
    np.testing.assert_allclose(matrix, explicit, atol=1e-12)
    np.testing.assert_allclose(matrix.sum(1), np.ones(states), atol=1e-12)
    np.testing.assert_allclose(mean, (policy * rewards).sum(1), atol=1e-12)


@examples
@given(random_parts())
def test_from_function_agrees_with_arrays(parts: tuple[Any, Any, Any]) -> None:
    transitions, rewards, available = parts

    def successors(s: int, a: int) -> Any:
        if not available[s, a]:
            return None
        return [(p, j, rewards[s, a]) for j, p in enumerate(transitions[s, a])]

    arrays = MDP(transitions, rewards, available=available)
    function = MDP.from_function(successors, *rewards.shape)
    np.testing.assert_allclose(dense_kernel(function), arrays.kernel, atol=1e-12)
    np.testing.assert_allclose(function.rewards, arrays.rewards, atol=1e-12)
