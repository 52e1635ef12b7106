"""Tabular learning: updates worked out by hand, properties of the loop, and known solutions."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import sparse

from longrun.exact.tabular.learning import LEARNING_METHODS, learn, predict, rules
from longrun.exact.tabular.mdp import MDP, Array
from longrun.exact.tabular.models import access_control, riverswim

SHIFTS = {"riverswim": 0.4, "access_control": 2.5}
SHORT = {"steps": 1000, "snapshots": 5}


def close(found: Any, expected: Any) -> None:
    """Up to eight rounding errors in single precision, the default precision of a rule."""
    np.testing.assert_allclose(found, expected, rtol=8 * np.finfo(np.float32).eps)


def learner(gain: float) -> rules.Learner:
    q, visits = jnp.array([[1.0, 2.0], [0.0, 3.0]]), jnp.array([[1.0, 1.0], [0.0, 0.0]])
    return rules.Learner(q, visits, jnp.array(gain), jnp.array(3.0))


def step(action: int) -> rules.Transition:
    return rules.Transition(jnp.array(0), jnp.array(action), jnp.array(4.0), jnp.array(1))


def three_states() -> MDP:
    """A walk upwards; state 2 pays 3 and can stay, 0 pays 1; some actions are not available."""
    transitions, rewards = np.zeros((3, 2, 3)), np.zeros((3, 2))
    transitions[0, 0], transitions[0, 1] = (1, 0, 0), (0.5, 0.5, 0)
    transitions[1, 1] = (0.2, 0, 0.8)
    transitions[2, 0], transitions[2, 1] = (1, 0, 0), (0.3, 0.2, 0.5)
    rewards[0, 0], rewards[2] = 1, (2, 3)
    return MDP(transitions, rewards, available=[[1, 1], [0, 1], [1, 1]])


def evaluated(mdp: MDP, policy: Array) -> tuple[float, Array]:
    """Gain and bias [S] with bias[0] = 0: (I - P) h + g = r."""
    matrix, rewards = mdp.chain(policy)
    system = np.eye(len(rewards)) - (matrix.toarray() if mdp.is_sparse else matrix)
    system[:, 0] = 1  # the bias of state 0 is 0; its column is the gain's
    solution = np.linalg.solve(system, rewards)
    return float(solution[0]), np.concatenate([[0.0], solution[1:]])


def optimal(mdp: MDP) -> tuple[float, Array]:
    policy, gain, best = mdp.rewards.argmax(1), -np.inf, None
    while best is None or (best != policy).any():
        policy = policy if best is None else best
        gain, bias = evaluated(mdp, policy)
        better, states = mdp.lookahead(bias), np.arange(mdp.num_states)
        worth = better.max(1) > better[states, policy] + 1e-10
        best = np.where(worth, better.argmax(1), policy)
    return gain, policy


def test_differential_q_by_hand() -> None:
    settings = rules.Settings(1.0, 0.4, 4)
    # alpha 1/2, delta = 4 - 0.5 + 3 - 1 = 5.5, eta = 0.1
    found = rules.differential_q(learner(0.5), step(0), settings)
    close(found.q, [[3.75, 2], [0, 3]])
    close(found.gain, 0.775)
    # alpha 1/3, delta = 4 - 0.775 + 3 - 3.75 = 2.475
    again = rules.differential_q(found, step(0), settings)
    close(again.q[0, 0], 4.575)
    close(again.gain, 0.8575)
    assert again.visits[0, 0] == 3


def test_differential_td_by_hand() -> None:
    value = jnp.array([[1.0], [3.0]])
    before = learner(0.5)._replace(q=value, visits=value, gain_updates=jnp.array(4.0))
    # alpha = 2 / (2 + 4 / 2), delta = 4 - 0.5 + 3 - 1 = 5.5, eta = 0.2
    found = rules.differential_td(before, step(1), rules.Settings(2.0, 0.4, 2))
    close(found.q, [[3.75], [3]])
    close(found.gain, 1.05)
    assert found.gain_updates == 5


def test_rvi_q_by_hand_keeps_the_mean() -> None:
    # alpha 1/2, delta = 4 - 1.5 + 3 - 1 = 4.5; f(Q) = 1.5 becomes (3.25 + 2 + 0 + 3) / 4
    found = rules.rvi_q(learner(1.5), step(0), rules.Settings(1.0, 0.0, 4))
    close(found.q, [[3.25, 2], [0, 3]])
    close(found.gain, 2.0625)
    close(found.gain, found.q.mean())


@pytest.mark.parametrize(
    ("action", "q", "gain", "updates"),
    # delta = 4 - 0.5 + 3 - Q; greedy: beta = 1 / (1 + 3), target = 4 + 3 - 2
    [(0, [[3.75, 2], [0, 3]], 0.5, 3), (1, [[1, 4.25], [0, 3]], 1.625, 4)],
)
def test_r_learning_by_hand(action: int, q: list[list[float]], gain: float, updates: int) -> None:
    found = rules.r_learning(learner(0.5), step(action), rules.Settings(1.0, 1.0, 4))
    close(found.q, q)
    close(found.gain, gain)
    assert found.gain_updates == updates


@pytest.mark.parametrize(
    ("action", "q", "gain"),
    # delta = 4 - 2 + 3 - Q; the gain as in R-learning
    [(0, [[3, 2], [0, 3]], 0.5), (1, [[1, 3.5], [0, 3]], 1.625)],
)
def test_csv_learning_by_hand(action: int, q: list[list[float]], gain: float) -> None:
    settings = rules.Settings(1.0, 1.0, 4, 2.0)
    found = rules.csv_learning(learner(0.5), step(action), settings)
    close(found.q, q)
    close(found.gain, gain)


@pytest.mark.parametrize("method", LEARNING_METHODS)
def test_finds_the_optimum_of_three_states(method: str) -> None:
    mdp = three_states()
    gain, policy = optimal(mdp)
    shift = {"shift": 0.9 * gain} if method == "csv" else {}
    found = learn(mdp, method, steps=200_000, seeds=4, snapshots=10, **shift)
    np.testing.assert_allclose(found.gains[:, -1], gain, rtol=0.05)
    assert (found.policies[:, -1] == policy).all()
    assert (np.isfinite(found.q) == mdp.available).all()
    assert found.steps.tolist() == list(range(20_000, 200_001, 20_000))


def test_predicts_gain_and_bias_of_a_random_policy() -> None:
    mdp, policy = three_states(), np.array([[0.3, 0.7], [0, 1], [0.5, 0.5]])
    gain, bias = evaluated(mdp, mdp.distribution(policy))
    found = predict(mdp, policy, steps=200_000, seeds=4, snapshots=10)
    np.testing.assert_allclose(found.gains[:, -1], gain, rtol=0.02)
    np.testing.assert_allclose(
        found.values - found.values[:, :1], bias[None].repeat(4, 0), atol=0.1
    )


def test_seeds_are_independent_and_repeatable() -> None:
    several = learn(three_states(), seeds=3, seed=5, **SHORT)
    again = learn(three_states(), seeds=3, seed=5, **SHORT)
    single = learn(three_states(), seeds=1, seed=6, **SHORT)
    for first, second in zip(several[1:], again[1:], strict=True):
        np.testing.assert_array_equal(first, second)
    assert len(set(several.gains[:, -1])) == 3
    # Programs for one and for three seeds may round differently, in each of 1000 averaging steps.
    np.testing.assert_allclose(several.q[1], single.q[0], rtol=1e-12)
    np.testing.assert_allclose(several.gains[1], single.gains[0], rtol=1e-12)
    assert several.q.dtype == np.float64 and not jax.config.jax_enable_x64


def test_dense_and_sparse_models_give_the_same() -> None:
    dense = three_states()
    matrices = [sparse.csr_array(block) for block in dense.kernel.reshape(2, 3, 3)]
    rewards = np.where(dense.available, dense.rewards, 0)
    other = MDP(matrices, rewards, available=dense.available)
    first, second = (learn(mdp, seeds=3, seed=5, **SHORT) for mdp in (dense, other))
    np.testing.assert_array_equal(first.q, second.q)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "sarsa"}, "unknown method 'sarsa'"),
        ({"method": "csv"}, "shift=None"),
        ({"shift": 1.0}, "only csv has it"),
        ({"method": "rvi_q", "gain_step_size": 0.1}, "gain_step_size=0.1: rvi_q has none"),
        ({"steps": 101}, "steps=101 must be a positive multiple"),
        ({"seeds": 0}, "seeds=0 is too small"),
        ({"epsilon": (1.0, 1.5)}, r"epsilon\[1\]=1.5 is not a probability"),
        ({"step_size": 0.0}, "step_size=0.0 is not positive"),
        ({"step_size": np.nan}, "step_size=nan is not positive"),
        ({"method": "r_learning", "gain_step_size": 0.0}, "gain_step_size=0.0 is not positive"),
    ],
)
def test_errors_name_the_option(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        learn(three_states(), **options)


@pytest.mark.long
@pytest.mark.parametrize("model", [riverswim, access_control])
@pytest.mark.parametrize("method", LEARNING_METHODS)
def test_every_seed_comes_within_two_percent(method: str, model: object) -> None:
    mdp = model()
    gain, _ = optimal(mdp)
    shift = SHIFTS[model.__name__] if method == "csv" else None
    found = learn(mdp, method, shift=shift)
    np.testing.assert_allclose(found.gains[:, -1], gain, rtol=0.02)
    for policy in found.policies[:, -1]:
        np.testing.assert_allclose(evaluated(mdp, policy)[0], gain, rtol=0.02)


@pytest.mark.long
@pytest.mark.parametrize("model", [riverswim, access_control])
def test_prediction_comes_within_two_percent(model: object) -> None:
    mdp = model()
    gain, policy = optimal(mdp)
    found = predict(mdp, policy)
    np.testing.assert_allclose(found.gains[:, -1], gain, rtol=0.02)
    matrix, _ = mdp.chain(policy)
    law = np.linalg.matrix_power(matrix.toarray() if mdp.is_sparse else matrix, 2**16)[0]
    bias = evaluated(mdp, policy)[1]
    errors = found.values - bias
    errors -= (errors @ law)[:, None]  # values are known up to a constant
    assert np.sqrt(errors**2 @ law).max() < 0.02 * np.ptp(bias)
