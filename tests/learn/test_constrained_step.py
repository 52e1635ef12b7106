"""The linearised step under limits: closed forms, and a general solver on random problems."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize

from longrun.learning.learn.limited_step import ball_step

SOLVE = jax.jit(ball_step)


def solved(gradient: Any, normals: Any, excess: Any) -> tuple[np.ndarray, np.ndarray, bool]:
    arrays = (jnp.asarray(x, jnp.float32) for x in (gradient, normals, excess))
    step, price, recovering = SOLVE(*arrays)
    return np.asarray(step, float), np.asarray(price, float), bool(recovering)


# --- by hand ---------------------------------------------------------------------------------


def test_a_limit_that_is_far_away_has_no_price() -> None:
    step, price, recovering = solved([3, 4], [[0, 1]], [-1.1])
    assert step == pytest.approx([0.6, 0.8], abs=1e-5)
    assert (price.tolist(), recovering) == ([0], False)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_a_limit_that_binds(scale: float) -> None:
    # y_2 <= -d on the unit circle: the step is (sqrt(1 - d^2), -d), and by g = s y + m e_2 its
    # price is m = g_2 + g_1 d / sqrt(1 - d^2). Another unit of the cost divides it by the unit.
    for d in (-0.6, 0.0, 0.6):
        step, price, recovering = solved([3, 4], [[0, scale]], [d * scale])
        assert step == pytest.approx([np.sqrt(1 - d * d), -d], abs=1e-4)
        assert price[0] * scale == pytest.approx(4 + 3 * d / np.sqrt(1 - d * d), rel=1e-3)
        assert not recovering


def test_a_limit_out_of_reach_is_approached_whatever_the_gradient() -> None:
    step, price, recovering = solved([3, 4], [[0, 2]], [2.1])
    assert step == pytest.approx([0, -1], abs=1e-5)
    assert (price.tolist(), recovering) == ([0], True)


def test_two_limits_out_of_reach_are_approached_on_the_shortest_way() -> None:
    step, _, recovering = solved([1, 1, 1], [[1, 0, 0], [0, 3, 0]], [2.0, 12.0])
    assert step == pytest.approx(np.array([-2, -4, 0]) / np.sqrt(20), abs=1e-4)
    assert recovering


def test_contradictory_limits_are_a_compromise() -> None:
    step, _, recovering = solved([0, 1], [[1, 0], [-1, 0]], [3.0, 1.0])
    assert step == pytest.approx([-1, 0], abs=1e-3)
    assert recovering


def test_a_gradient_that_only_a_limit_opposes_stops_at_the_limit() -> None:
    step, price, _ = solved([0, 2], [[0, 1]], [-0.3])
    assert step == pytest.approx([0, 0.3], abs=1e-3)
    assert price == pytest.approx([2.0], rel=1e-3)


@pytest.mark.parametrize("excess", [-0.5, 0.5])
def test_a_cost_or_a_reward_without_a_gradient(excess: float) -> None:
    step, price, recovering = solved([0, 1], [[0, 0]], [excess])
    assert recovering == (excess > 0)  # nothing can be done about it
    assert step == pytest.approx([0, float(excess < 0)], abs=1e-5)
    assert price.tolist() == [0]
    step, _, _ = solved([0, 0], [[1, 0]], [excess])
    assert step == pytest.approx([-max(excess, 0), 0], abs=1e-4)


# --- against a general solver ----------------------------------------------------------------


def reference(gradient: Any, normals: Any, excess: Any, start: Any) -> Any:
    """SLSQP in double precision."""
    sizes = np.linalg.norm(normals, axis=1)
    normals, excess = normals / sizes[:, None], excess / sizes
    gradient = gradient / np.linalg.norm(gradient)
    constraints = [
        {"type": "ineq", "fun": lambda y: 1 - y @ y, "jac": lambda y: -2 * y},
        {"type": "ineq", "fun": lambda y: -excess - normals @ y, "jac": lambda y: -normals},
    ]
    return optimize.minimize(
        lambda y: -gradient @ y,
        start,
        jac=lambda y: -gradient,
        method="SLSQP",
        constraints=constraints,
        options={"ftol": 1e-9, "maxiter": 200},
    )


def nearest(normals: Any, excess: Any) -> tuple[np.ndarray, float]:
    """The shortest step that keeps the limits, and its length (Lawson and Hanson's LDP)."""
    sizes = np.linalg.norm(normals, axis=1)
    system = np.vstack([-normals.T / sizes, excess / sizes])
    goal = np.append(np.zeros(len(system) - 1), 1.0)
    weights, rest = optimize.nnls(system, goal)
    residual = system @ weights - goal
    if rest < 1e-8:  # contradictory
        return goal[:-1], np.inf
    step = residual[:-1] / -residual[-1]
    return step, float(np.linalg.norm(step))


def random_problem(rng: np.random.Generator, costs: int, redundant: bool) -> tuple[Any, Any, Any]:
    n = costs + 1
    gradient = rng.normal(size=n) * 10.0 ** rng.uniform(-2, 2)
    normals = rng.normal(size=(costs, n)) * 10.0 ** rng.uniform(-2, 2, size=(costs, 1))
    excess = rng.uniform(-1.2, 1.1, size=costs) * np.linalg.norm(normals, axis=1)
    if redundant:  # the last limit says what the first does, in other units, or a little less
        normals[-1], excess[-1] = 3 * normals[0], 3 * excess[0] - rng.choice([0.0, 0.1])
    return gradient, normals, excess


@pytest.mark.parametrize("redundant", [False, True], ids=["general", "redundant"])
@pytest.mark.parametrize("costs", [1, 2, 3])
def test_random_problems(costs: int, redundant: bool) -> None:
    rng = np.random.default_rng(100 + costs)
    feasible = infeasible = 0
    for _ in range(60):
        gradient, normals, excess = random_problem(rng, costs, redundant and costs > 1)
        start, distance = nearest(normals, excess)
        if abs(distance - 1) < 1e-3:  # single precision may decide either way
            continue
        step, price, recovering = solved(gradient, normals, excess)
        assert recovering == (distance > 1)
        assert np.linalg.norm(step) <= 1 + 1e-4
        if recovering:
            infeasible += 1
            # Limits that nearly contradict each other: the ridge turns the direction a little.
            assert step == pytest.approx(start / distance, abs=5e-3)
            continue
        feasible += 1
        found = reference(gradient, normals, excess, start)
        assert found.status in (0, 8), found.message  # 8: no descent is left at its last point
        size, sizes = np.linalg.norm(gradient), np.linalg.norm(normals, axis=1)
        assert np.all((excess + normals @ step) / sizes <= 1e-3)
        assert gradient @ step == pytest.approx(-found.fun * size, abs=2e-3 * size)
        # The dual certifies it without the solver: no multipliers give a lower bound.
        bound = np.linalg.norm(gradient - price @ normals) - price @ excess
        assert price.min() >= 0
        assert bound == pytest.approx(gradient @ step, abs=3e-3 * size)
    assert feasible > 15
    assert infeasible > 0


def test_it_is_vmapped() -> None:
    rng = np.random.default_rng(0)
    problems = [random_problem(rng, 2, False) for _ in range(5)]
    stacked = [jnp.asarray(np.stack(x), jnp.float32) for x in zip(*problems, strict=True)]
    steps, prices, recovering = jax.jit(jax.vmap(ball_step))(*stacked)
    for k, problem in enumerate(problems):
        step, price, is_far = solved(*problem)
        assert steps[k] == pytest.approx(step, abs=1e-5)
        assert prices[k] == pytest.approx(price, rel=1e-4, abs=1e-6)
        assert bool(recovering[k]) == is_far
