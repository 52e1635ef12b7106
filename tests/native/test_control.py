"""Access control and inventory against the exact models of the same name."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from longrun.exact.tabular.models import access_control, inventory
from longrun.learning.envs.native.control import AccessControl, Inventory
from longrun.learning.envs.queueing.policies import average_reward
from longrun.tabular import evaluate, solve


def middles(cuts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of the parts of [0, 1), and a number in each."""
    cuts = np.unique(np.concatenate([[0.0], cuts, [1.0]]))
    return np.diff(cuts), (cuts[1:] + cuts[:-1]) / 2


@pytest.mark.parametrize("env", [AccessControl(4, 0.3, (1.0, 2.0, 4.0)), AccessControl(2, 0.06)])
def test_access_control_has_the_exact_law(env: AccessControl) -> None:
    kinds = len(env.priorities)
    mdp = access_control(env.servers, env.free_probability, env.priorities)
    kernel = mdp.kernel.toarray() if mdp.is_sparse else mdp.kernel
    freed, first = middles(env.freed_below.ravel().clip(0, 1))
    head, second = middles(np.arange(kinds) / kinds)
    uniforms = jnp.array([(u, v) for u in first for v in second], jnp.float32)
    weights = np.outer(freed, head).ravel()
    after, reward = jax.jit(jax.vmap(env.after, (None, None, 0))), jax.jit(env.reward)
    for s in range(mdp.num_states):
        state = jnp.array(np.unravel_index(s, mdp.shape), jnp.int32)
        assert np.asarray(env.mask(state)).tolist() == mdp.available[s].tolist()
        for a in np.flatnonzero(mdp.available[s]):
            found = np.asarray(after(state, jnp.array([a]), uniforms))
            row = np.bincount(np.ravel_multi_index(found.T, mdp.shape), weights, mdp.num_states)
            np.testing.assert_allclose(row, kernel[a * mdp.num_states + s], atol=1e-7)
            assert reward(state, jnp.array([a])) == pytest.approx(mdp.rewards[s, a])


def test_access_control_accepts_nobody_without_a_server() -> None:
    env, state = AccessControl(), jnp.array([0, 3])
    assert float(env.reward(state, jnp.array([1]))) == 0
    assert env.after(state, jnp.array([1]), jnp.array([0.0, 0.0])).tolist() == [0, 0]
    assert np.asarray(env.observation(state)).tolist() == [1, 0, 0, 0, 0, 0, 1]


def test_access_control_pays_the_exact_gain() -> None:
    mdp = access_control()
    best = solve(mdp).policy.reshape(mdp.shape)
    table = jnp.array(best)
    found = average_reward(
        AccessControl(), lambda s: table[s[0], s[1]][None], steps=5000, chains=256
    )
    assert abs(found.mean - 2.747642) < 2 * found.half_width < 0.03


def test_inventory_has_the_exact_law() -> None:
    env = Inventory(6, 2.5, 3.0, 2.0, 1.0, 4.0)
    mdp = inventory(6, 2.5, 3.0, 2.0, 1.0, 4.0)
    weights, uniforms = middles(env.demand_below)
    demands = jax.vmap(env.demand)(jnp.array(uniforms, jnp.float32))
    assert demands.tolist() == list(range(len(weights)))
    after = jax.jit(jax.vmap(env.after, (None, None, 0)))
    for stock in range(7):
        assert np.asarray(env.mask(jnp.array(stock))).tolist() == mdp.available[stock].tolist()
        for order in range(7 - stock):
            left, rewards = after(jnp.array(stock), jnp.array([order]), demands)
            row = np.bincount(np.asarray(left), weights, 7)
            np.testing.assert_allclose(row, mdp.kernel[order * 7 + stock], atol=1e-7)
            assert weights @ np.asarray(rewards) == pytest.approx(
                mdp.rewards[stock, order], rel=1e-5
            )


def test_an_order_is_cut_at_capacity() -> None:
    env = Inventory(capacity=5)
    stock, reward = env.after(jnp.array(3), jnp.array([4]), jnp.array(0))
    assert int(stock) == 5 and float(reward) == -(10 + 2 * 2 + 5)


def test_inventory_costs_what_the_exact_model_says() -> None:
    exact = evaluate(inventory(), np.where(np.arange(21) < 6, 15 - np.arange(21), 0)).gain
    found = average_reward(
        Inventory(), lambda s: jnp.where(s < 6, 15 - s, 0)[None], steps=2000, chains=256
    )
    assert abs(found.mean - exact) < 2 * found.half_width < 0.1


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: AccessControl(free_probability=1.5), "free_probability=1.5 is not a probability"),
        (lambda: AccessControl(priorities=()), r"priorities=\(\) is empty"),
        (lambda: Inventory(mean_demand=0), "mean_demand=0 is not positive"),
        (lambda: Inventory(holding_cost=-1), "holding_cost=-1 is negative or infinite"),
    ],
)
def test_bad_parameters(build: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()  # type: ignore[operator]
