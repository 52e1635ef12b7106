"""Transition tables of gymnasium: reading, writing, and errors."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from scipy import sparse

from longrun import APO
from longrun.exact.queueing.known_networks import MODELS as NETWORK_MODELS
from longrun.exact.tabular.gymnasium_tables import from_gymnasium, to_gymnasium, transition_table
from longrun.exact.tabular.mdp import MDP
from longrun.exact.tabular.models import MODELS, access_control, garnet, riverswim
from longrun.tabular import solve
from tiny_envs import ITERATION, TINY

TAXI = "Taxi-v4" if "Taxi-v4" in gymnasium.registry else "Taxi-v3"


def law(mdp: MDP, state: int, action: int) -> dict[int, float]:
    row = mdp.kernel[[action * mdp.num_states + state]]
    row = (row.toarray() if mdp.is_sparse else row)[0]
    return {int(j): float(row[j]) for j in np.flatnonzero(row)}


def small_table() -> dict[int, Any]:
    """Two states; from state 1, action 0 ends the episode half the time."""
    return {
        0: {0: [(1.0, 1, 2.0, False)], 1: [(0.5, 0, 1.0, False), (0.5, 0, 3.0, False)]},
        1: {0: [(0.5, 1, 0.0, True), (0.25, 0, 4.0, False), (0.25, 1, 0.0, False)]},
    }


# --- environments ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "states", "actions"),
    [("FrozenLake-v1", 16, 4), ("CliffWalking-v1", 48, 4), (TAXI, 500, 6)],
)
def test_environments_load_in_one_call(name: str, states: int, actions: int) -> None:
    mdp = from_gymnasium(name)
    assert (mdp.num_states, mdp.num_actions, mdp.name) == (states, actions, name)
    np.testing.assert_allclose(mdp.kernel.sum(1), 1, atol=1e-14)
    assert mdp.available.all()


def test_frozen_lake_continues_from_the_start() -> None:
    mdp = from_gymnasium("FrozenLake-v1", is_slippery=False)
    assert mdp.initial[0] == 1
    assert law(mdp, 0, 2) == {1: 1}
    assert law(mdp, 5, 0) == {0: 1}, "a hole, which the table calls terminal, resets"
    assert law(mdp, 1, 1) == {0: 1}, "falling into the hole below resets"
    assert law(mdp, 14, 2) == {0: 1} and mdp.rewards[14, 2] == 1, "the goal pays and resets"
    # Six steps per episode, with one reward.
    path = np.zeros(16, int)
    path[[0, 4, 8, 9, 13, 14]] = [1, 1, 2, 1, 2, 2]
    matrix, rewards = mdp.chain(path)
    visits = np.linalg.matrix_power(matrix.toarray(), 6)[0]
    assert visits[0] == 1 and rewards.sum() == 1


def test_taxi_starts_anywhere() -> None:
    mdp = from_gymnasium(TAXI)
    assert np.count_nonzero(mdp.initial) == 300
    delivered = np.argwhere(np.isclose(mdp.rewards, 20))
    state, action = (int(i) for i in delivered[0])
    assert law(mdp, state, action) == pytest.approx(
        dict.fromkeys(np.flatnonzero(mdp.initial), 1 / 300)
    )


def test_an_environment_and_its_table() -> None:
    with gymnasium.make("FrozenLake-v1", map_name="8x8") as env:
        whole = from_gymnasium(env)
        inner: Any = env.unwrapped
        table = from_gymnasium(inner.P, initial=inner.initial_state_distrib)
    assert whole.num_states == 64
    assert abs(whole.kernel - table.kernel).max() == 0
    np.testing.assert_array_equal(whole.rewards, table.rewards)


def test_another_initial_law_of_an_environment() -> None:
    mdp = from_gymnasium("FrozenLake-v1", initial=np.eye(16)[3])
    assert law(mdp, 5, 0) == {3: 1} and mdp.initial[3] == 1


# --- tables ----------------------------------------------------------------------------------


def test_ends_continue_from_the_initial_law_and_duplicates_add_up() -> None:
    mdp = from_gymnasium(small_table(), initial=[0.5, 0.5])
    assert law(mdp, 0, 0) == {1: 1} and law(mdp, 0, 1) == {0: 1}
    assert law(mdp, 1, 0) == {0: 0.5, 1: 0.5}  # .5 * (.5, .5) + (.25, .25)
    assert mdp.rewards.tolist() == [[2, 2], [1, -np.inf]]
    assert mdp.available.tolist() == [[True, True], [True, False]]


def test_lists_are_accepted_as_tables() -> None:
    mdp = from_gymnasium([[[(1.0, 1, 2.0, False)]], [[(1.0, 0, 0.0, False)]]])
    assert law(mdp, 0, 0) == {1: 1} and mdp.initial.tolist() == [0.5, 0.5]


def test_the_table_of_an_mdp() -> None:
    transitions = [[[0.25, 0.75], [0, 0]], [[0, 1], [1, 0]]]
    mdp = MDP(transitions, [[2, 0], [3, 4]], available=[[1, 0], [1, 1]])
    expected = {
        0: {0: [(0.25, 0, 2.0, False), (0.75, 1, 2.0, False)]},
        1: {0: [(1.0, 1, 3.0, False)], 1: [(1.0, 0, 4.0, False)]},
    }
    assert transition_table(mdp) == expected
    matrices = [sparse.csr_array(np.array(transitions)[:, a]) for a in range(2)]
    assert transition_table(MDP(matrices, [[2, 0], [3, 4]], available=[[1, 0], [1, 1]])) == expected


@pytest.mark.parametrize(
    "mdp", [garnet(), garnet(states=201), riverswim(), access_control()], ids=lambda mdp: mdp.name
)
def test_writing_and_reading_a_table_gives_the_same_model(mdp: MDP) -> None:
    back = from_gymnasium(transition_table(mdp), initial=mdp.initial)
    difference = back.kernel - mdp.kernel if mdp.is_sparse else back.kernel.toarray() - mdp.kernel
    assert abs(difference).max() < 1e-15
    np.testing.assert_allclose(back.rewards, mdp.rewards, atol=1e-14)
    np.testing.assert_array_equal(back.available, mdp.available)
    np.testing.assert_allclose(back.initial, mdp.initial, atol=1e-15)


# --- refusals --------------------------------------------------------------------------------


def with_outcomes(outcomes: Any) -> dict[int, Any]:
    table = small_table()
    table[1][0] = outcomes
    return table


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            small_table(),
            "state 1, action 0 ends an episode; give initial, where the next one starts",
        ),
        (with_outcomes([(1.0, 1, 0.0)]), "state 1, action 0 has outcome (1.0, 1, 0.0); give (prob"),
        (
            with_outcomes([(1.0, 1, "x", False)]),
            "state 1, action 0 has outcome (1.0, 1, 'x'); give (probability",
        ),
        (with_outcomes([(1.0, 2, 0.0, False)]), "state 1, action 0: successor 2 is not a state"),
        (with_outcomes([(1.0, -1, 0.0, False)]), "state 1, action 0: successor -1 is not a state"),
        (with_outcomes([(1.0, 0.5, 0.0, False)]), "state 1, action 0: successor 0.5 is not a"),
        (with_outcomes([(0.5, 1, 0.0, False)]), "state 1, action 0 sum to 0.5, not 1"),
        (with_outcomes([(1.0, 1, np.nan, False)]), "reward of state 1, action 0 is nan"),
        (with_outcomes([]), "state 1, action 0 sum to 0, not 1"),
    ],
)
def test_malformed_tables(table: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        from_gymnasium(table)


def test_an_initial_law_of_another_size() -> None:
    with pytest.raises(ValueError, match=re.escape("initial has shape (3,); give (2,), [states]")):
        from_gymnasium(small_table(), initial=[1, 0, 0])


def test_environments_without_a_table() -> None:
    with pytest.raises(ValueError, match="CartPole-v1 has no transition table P; give an env"):
        from_gymnasium("CartPole-v1")
    with pytest.raises(
        ValueError, match=r"is_slippery is for gymnasium\.make; give an environment id"
    ):
        from_gymnasium(small_table(), is_slippery=False)


# An MDP as an environment.


def test_an_environment_of_an_mdp_has_its_table_and_gives_it_back() -> None:
    mdp = MODELS["access-control"](servers=2)
    env = to_gymnasium(mdp)
    assert transition_table(mdp) == env.P
    back = from_gymnasium(env)
    assert solve(back).gain == pytest.approx(solve(mdp).gain, rel=1e-9)


@pytest.mark.parametrize("name", ["access-control", "criss-cross", "maintenance"])
def test_a_simulation_has_the_exact_average_reward(name: str) -> None:
    mdp = {**MODELS, **NETWORK_MODELS}[name](**({"size": 4} if name == "criss-cross" else {}))
    env = to_gymnasium(mdp)
    check_env(env, skip_render_check=True)
    policy = solve(mdp).policy
    env.reset(seed=0)
    total = 0.0
    for _ in range(20_000):
        _, reward, terminated, truncated, _ = env.step(policy[env.state])
        assert not terminated and not truncated
        total += reward
    # 20 000 dependent steps: five percent is about three standard errors of the worst of these
    assert total / 20_000 == pytest.approx(solve(mdp).gain, rel=0.05)


def test_an_agent_learns_an_mdp(tmp_path: Path) -> None:
    """Action 1 earns 1 in every state, action 0 nothing; in state 1 only action 1 is available."""
    mdp = MDP(
        np.full((2, 2, 2), 0.5) * np.array([[[1], [1]], [[0], [1]]]),
        [[0, 1], [0, 1]],
        available=[[1, 1], [0, 1]],
        name="two states",
    )
    options = TINY | {"num_workers": 0, "learning_rate": 0.01, "normalize_advantages": True}
    agent = APO(mdp, **options).learn(30 * ITERATION)
    assert agent.evaluate(200).average_reward == 1.0
    assert "two states" in repr(agent)
    agent.save(tmp_path)
    assert APO.load(tmp_path, mdp).evaluate(200).average_reward == 1.0
