"""The natural-gradient step under limits: known solutions, line search, policies."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from longrun.learning.envs.spaces import Spaces
from longrun.learning.learn.limited_step import limited_step
from longrun.learning.learn.policy_steps import trust_region_step
from longrun.learning.learn.types import Batch, CostBatch, Policy
from paper_config import paper_config
from quick import QUICK

FISHER = jnp.asarray([4.0, 1.0, 1.0])


def quadratic(x: jax.Array) -> jax.Array:
    return 0.5 * (FISHER * x) @ x


def step(surrogates: Any, excess: Any, mean_kl: Any = quadratic, **options: Any) -> Any:
    """The step from 0 in three dimensions within a KL of 0.5: x'Hx <= 1 with H = diag(4, 1, 1)."""
    defaults = {"approach": 1.0, "kl_limit": 0.5, "damping": 0.0}
    counts = {"cg_iterations": 10, "line_search_steps": 6}
    take = partial(limited_step, surrogates, mean_kl, **{**defaults, **counts, **options})
    run = jax.jit(take, compiler_options=QUICK)
    return run(jnp.zeros(3), jnp.asarray(excess, jnp.float32))


def linear(*rows: Any) -> Any:
    matrix = jnp.asarray(rows, jnp.float32)
    return lambda x: matrix @ x


def test_without_a_binding_limit_it_is_the_natural_step() -> None:
    new, found = step(linear([4, 1, 0], [0, 1, 0]), [-2.0])
    # H^-1 g = (1, 1, 0), of length sqrt(5)
    assert new == pytest.approx(np.array([1, 1, 0]) / np.sqrt(5), abs=1e-4)
    assert (float(found.price[0]), float(found.taken.fraction)) == (0, 1)
    assert not found.recovering


def test_a_binding_limit_by_hand() -> None:
    # With z = H^(1/2) x the reward is 2 z_1 + z_2 in the unit ball, and the limit is z_2 <= 0.3. So
    # it is for a limit of twice that distance, half of which may be used up.
    reward, cost = [4, 1, 0], [0, 2, 0]
    new, found = step(linear(reward, cost), [-0.6])
    z = np.array([np.sqrt(1 - 0.3**2), 0.3, 0])
    assert new * jnp.sqrt(FISHER) == pytest.approx(z, abs=1e-3)
    half, _ = step(linear(reward, cost), [-1.2], approach=0.5)
    assert half == pytest.approx(np.asarray(new), abs=1e-4)
    # The price is the slope of the reward: 2 sqrt(1 - z_2^2) + z_2, by the cost 2 z_2.
    assert float(found.price[0]) == pytest.approx((1 - 2 * 0.3 / np.sqrt(1 - 0.09)) / 2, rel=2e-3)
    assert found.taken.surrogate[1] == pytest.approx(0.6, abs=1e-3)


def test_recovery_lowers_the_cost_and_nothing_else() -> None:
    new, found = step(linear([4, 1, 0], [0, 2, 0]), [3.0])
    assert found.recovering
    assert new == pytest.approx([0, -1, 0], abs=1e-4)
    corrected, found = step(linear([4, 1, 0], [0, 2, 0]), [3.0], approach=0.1)
    assert not found.recovering  # a tenth of the excess can be corrected in one step
    assert found.taken.surrogate[1] == pytest.approx(-0.3, abs=1e-3)
    assert corrected[0] > 0.4


def test_inexact_directions_keep_the_limits_all_the_same() -> None:
    """With one iteration of conjugate gradient the directions are those of the gradients."""
    new, found = step(linear([1, 1, 1], [2, 0, 1]), [-0.2], cg_iterations=1)
    assert float(jnp.asarray([2.0, 0, 1]) @ new) == pytest.approx(0.2, abs=1e-3)
    assert float(found.taken.kl) == pytest.approx(0.5, rel=1e-3)


def test_a_step_that_breaks_a_limit_is_halved() -> None:
    # The cost is x_2 + x_1^2: the linear part of the full step uses up the limit.
    def curved(x: jax.Array) -> jax.Array:
        return jnp.stack([4 * x[0] + x[1], x[1] + x[0] ** 2])

    _, found = step(curved, [-0.1])
    assert 0 < float(found.taken.fraction) < 1
    assert float(found.taken.surrogate[1]) <= 0.1
    _, found = step(curved, [0.0], line_search_steps=2)  # there is no room for the curvature
    assert float(found.taken.fraction) == 0


def test_a_reward_may_fall_only_to_correct_a_cost() -> None:
    def peaked(x: jax.Array) -> jax.Array:
        return jnp.stack([x[0] - 100 * x[0] ** 2, x[1]])

    _, found = step(peaked, [-1.0], line_search_steps=2)
    assert float(found.taken.fraction) == 0
    _, found = step(peaked, [0.1], line_search_steps=2)
    assert float(found.taken.fraction) == 1
    assert found.taken.surrogate[0] < 0


@pytest.mark.parametrize("slope", [0.0, jnp.nan])
def test_without_a_good_step_the_parameters_are_unchanged_to_the_bit(slope: float) -> None:
    new, found = step(linear([slope, 0, 0], [0, slope, 0]), [-0.1])
    assert np.asarray(new).tobytes() == np.zeros(3, np.float32).tobytes()
    assert float(found.taken.fraction) == 0


# --- policies --------------------------------------------------------------------------------

SPACES = Spaces(3, 1, (4,))


def random_batch(seed: int, excess: list[float]) -> tuple[Policy, Batch]:
    rng = np.random.default_rng(seed)

    def normal(*shape: int) -> jax.Array:
        return jnp.asarray(rng.normal(size=shape), jnp.float32)

    policy = Policy(((normal(3, 4), normal(4)),), jnp.zeros(0))
    features, none = normal(64, 3), jnp.zeros((64, 0))
    action = jnp.asarray(rng.integers(4, size=(64, 1)), jnp.int32)
    costs = CostBatch(normal(64, len(excess)), jnp.asarray(excess), jnp.float32(2.0))
    advantage = normal(64)
    return policy, Batch(features, none, action, advantage, advantage, costs)


def take(policy: Policy, batch: Batch, limits: dict[str, float]) -> Any:
    config = paper_config("atrpo", limits=limits, hidden_sizes=(), limit_step_size=1.0)
    run = jax.jit(partial(trust_region_step, config, SPACES), compiler_options=QUICK)
    return run(policy, batch)


def test_policies_with_distant_limits_take_the_step_without_limits() -> None:
    policy, batch = random_batch(0, [-9.0, -9.0])
    new, metrics = take(policy, batch, {"a": 1.0, "b": 1.0})
    free, expected = take(policy, batch._replace(costs=None), {})
    for ours, theirs in zip(jax.tree.leaves(new), jax.tree.leaves(free), strict=True):
        assert ours == pytest.approx(np.asarray(theirs), abs=2e-4)
    assert metrics["policy_loss"] == pytest.approx(float(expected["policy_loss"]), rel=1e-3)
    assert (metrics["multiplier_a"], metrics["multiplier_b"], metrics["recovering"]) == (0, 0, 0)


def test_policies_keep_their_limits() -> None:
    policy, batch = random_batch(0, [0.0, -0.002])
    names = {"a": 1.0, "b": 1.0}
    _, metrics = take(policy, batch, names)
    assert metrics["kl"] <= 0.01
    assert metrics["step_fraction"] > 0
    assert max(metrics["multiplier_a"], metrics["multiplier_b"]) > 0
    _, metrics = take(policy, batch._replace(costs=batch.costs._replace(excess=jnp.ones(2))), names)
    assert metrics["recovering"] == 1
