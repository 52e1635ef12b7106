"""The natural-gradient step on problems with known solutions, and its general properties."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from longrun import ATRPO
from longrun.learning.envs.spaces import Spaces
from longrun.learning.learn import learner
from longrun.learning.learn.distributions import GAUSSIAN, categorical
from longrun.learning.learn.networks import apply_mlp
from longrun.learning.learn.policy_steps import with_shorter_steps
from longrun.learning.learn.trust_region import conjugate_gradient, fisher_product, natural_step
from longrun.learning.learn.types import Batch, Networks, Policy, TrainState
from longrun.learning.options.acting import Acting
from longrun.learning.options.config import ATRPOConfig
from paper_config import paper_config
from quick import QUICK
from tiny_envs import ITERATION, TINY, Drift

examples = settings(max_examples=40, deadline=None, derandomize=True, database=None)


def vector(*values: float) -> jax.Array:
    return jnp.asarray(values, jnp.float32)


def step(surrogate: Any, mean_kl: Any, start: Any, **options: Any) -> Any:
    defaults = {"kl_limit": 0.02, "damping": 0.0, "cg_iterations": 10, "line_search_steps": 10}
    take = partial(natural_step, surrogate, mean_kl, **defaults | options)
    return jax.jit(take, compiler_options=QUICK)(start)


def half_square(x: jax.Array) -> jax.Array:
    """A divergence from 0 whose Fisher matrix is the identity."""
    return 0.5 * x @ x


# --- Fisher-vector products ------------------------------------------------------------------


def test_fisher_product_of_a_softmax() -> None:
    # At probabilities (1/4, 3/4) of the logits' own: diag(p) - p p' = 3/16 [[1, -1], [-1, 1]].
    old = vector(0, math.log(3))
    kl = categorical((2,)).kl
    product = fisher_product(
        lambda new: kl(old, jnp.zeros(0), new, jnp.zeros(0)), old, vector(2, 1), damping=0.5
    )
    # 3/16 (1, -1) + (2, 1) / 2
    np.testing.assert_allclose(product, [1.1875, 0.3125], rtol=1e-6)


def test_fisher_product_of_a_linear_gaussian_policy() -> None:
    # Mean w x + c of standard deviation 2, at x = 1 and 3: the means of x^2 and x are 5 and 2.
    # F = [[5/4, 2/4, 0], [2/4, 1/4, 0], [0, 0, 2]] in (w, c, log std).
    policy = Policy(((jnp.asarray([[0.7]]), vector(-0.3)),), vector(math.log(2)))
    obs = jnp.asarray([[1.0], [3.0]])
    old_mean = apply_mlp(Acting(), policy.layers, obs)

    def mean_kl(new: Policy) -> jax.Array:
        mean = apply_mlp(Acting(), new.layers, obs)
        return GAUSSIAN.kl(old_mean, policy.log_std, mean, new.log_std).mean()

    along = Policy(((jnp.asarray([[1.0]]), vector(2)),), vector(3))
    product = fisher_product(mean_kl, policy, along, damping=0.0)
    ((weights, bias),) = product.layers
    assert float(weights[0, 0]) == pytest.approx(2.25, rel=1e-5)  # 5/4 + 2 * 2/4
    assert float(bias[0]) == pytest.approx(1.0, rel=1e-5)  # 2/4 + 2 * 1/4
    assert float(product.log_std[0]) == pytest.approx(6.0, rel=1e-5)  # 3 * 2
    damped = fisher_product(mean_kl, policy, along, damping=0.1)
    assert float(damped.log_std[0]) == pytest.approx(6.3, rel=1e-5)


# --- steps with a known solution -------------------------------------------------------------


def test_conjugate_gradient_solves_in_as_many_iterations_as_there_are_eigenvalues() -> None:
    random = np.random.default_rng(0)
    axes, _ = np.linalg.qr(random.normal(size=(6, 6)))
    matrix = axes * np.array([1.0, 1, 4, 4, 9, 9]) @ axes.T
    right = random.normal(size=6)
    found = conjugate_gradient(
        lambda v: jnp.asarray(matrix, jnp.float32) @ v, jnp.asarray(right), 3
    )
    np.testing.assert_allclose(found, np.linalg.solve(matrix, right), rtol=1e-4)


def test_conjugate_gradient_never_multiplies_zeros() -> None:
    """Of constant zeros XLA returned uninitialised memory on CPUs."""

    def product(v: jax.Array) -> jax.Array:
        return jnp.where((v == 0).all(), jnp.nan, 2 * v)

    np.testing.assert_allclose(conjugate_gradient(product, jnp.array([2.0, -4.0]), 5), [1.0, -2.0])
    np.testing.assert_array_equal(conjugate_gradient(product, jnp.zeros(2), 5), 0)


@pytest.mark.shipped
def test_natural_step_solves_a_linear_problem_in_a_quadratic_region() -> None:
    # F = diag(3, 1/2), damping 1/2: (F + I/2) d = (3.5, 1) has the solution d = (1, 1), of squared
    # length 4.5. With a KL limit of .09 the step is sqrt(2 * .09 / 4.5) = .2 of it.
    gradient, fisher = vector(3.5, 1), vector(3, 0.5)
    start = vector(10, -7)
    new, taken = step(
        lambda x: gradient @ (x - start),
        lambda x: 0.5 * (fisher * (x - start)) @ (x - start),
        start,
        kl_limit=0.09,
        damping=0.5,
    )
    np.testing.assert_allclose(new, [10.2, -6.8], rtol=1e-6)
    assert float(taken.fraction) == 1.0
    assert float(taken.surrogate) == pytest.approx(0.9, rel=1e-5)  # .2 * 4.5
    assert float(taken.kl) == pytest.approx(0.07, rel=1e-5)  # (3 + 1/2) / 2 * .2^2


def test_one_iteration_of_conjugate_gradient_only_scales_the_gradient() -> None:
    gradient, fisher = vector(4, 1), vector(4, 1)
    new, _ = step(
        lambda x: gradient @ x, lambda x: 0.5 * (fisher * x) @ x, vector(0, 0), cg_iterations=1
    )
    assert float(new[0] / new[1]) == pytest.approx(4.0, rel=1e-5)
    new, _ = step(
        lambda x: gradient @ x, lambda x: 0.5 * (fisher * x) @ x, vector(0, 0), cg_iterations=2
    )
    assert float(new[0] / new[1]) == pytest.approx(1.0, rel=1e-5)


def test_a_step_over_the_kl_limit_is_halved() -> None:
    # The full step is sqrt(2 * .02) = .2, where the divergence is .02 + 10 * .2^4 = .036;
    # at .1 it is .005 + .001.
    new, taken = step(
        lambda x: x[0], lambda x: 0.5 * x @ x + 10 * jnp.sum(x**4), vector(0), kl_limit=0.02
    )
    assert float(new[0]) == pytest.approx(0.1, rel=1e-5)
    assert float(taken.kl) == pytest.approx(0.006, rel=1e-4)
    assert float(taken.fraction) == 0.5


def test_a_step_that_does_not_improve_is_halved() -> None:
    # x - 8 x^2 is -.12 at the full step .2 and .02 at .1.
    new, taken = step(lambda x: x[0] - 8 * x[0] ** 2, half_square, vector(0))
    assert float(new[0]) == pytest.approx(0.1, rel=1e-5)
    assert float(taken.surrogate) == pytest.approx(0.02, rel=1e-4)
    assert float(taken.fraction) == 0.5


@pytest.mark.parametrize(("halvings", "fraction"), [(2, 0.0), (3, 0.125), (10, 0.125)])
def test_the_line_search_gives_up_after_line_search_steps_halvings(
    halvings: int, fraction: float
) -> None:
    # x - 30 x^2 is negative at .2, .1 and .05, and .00625 at .025: it takes three halvings.
    new, taken = step(
        lambda x: x[0] - 30 * x[0] ** 2, half_square, vector(0), line_search_steps=halvings
    )
    assert float(taken.fraction) == fraction
    assert float(new[0]) == pytest.approx(0.2 * fraction, rel=1e-5)


# --- when there is no good step --------------------------------------------------------------

HOPELESS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "constant": lambda x: 0 * x[0] + 3.0,
    "at its best already": lambda x: -jnp.sum((x - START["w"]) ** 2),
    "falls wherever one goes, against its gradient": lambda x: jnp.where(
        jnp.all(x == START["w"]), x[0], x[0] - 100
    ),
    "NaN": lambda x: x[0] * jnp.nan,
    "NaN wherever one goes": lambda x: jnp.where(jnp.all(x == START["w"]), x[0], x[0] * jnp.nan),
    "infinite gradient": lambda x: x[0] * jnp.inf,
}
START = {"w": vector(0.1, -0.0, 1e-30), "b": vector(7.7)}


@pytest.mark.parametrize("name", HOPELESS)
def test_without_an_improving_step_the_parameters_are_unchanged_to_the_bit(name: str) -> None:
    def mean_kl(params: Any) -> jax.Array:
        return half_square(params["w"] - START["w"]) + half_square(params["b"] - START["b"])

    new, taken = step(lambda p: HOPELESS[name](p["w"]), mean_kl, START, damping=0.1)
    for leaf in START:
        assert np.asarray(new[leaf]).tobytes() == np.asarray(START[leaf]).tobytes()
    assert (float(taken.fraction), float(taken.kl)) == (0, 0)


def test_a_kl_of_nan_is_not_within_the_limit() -> None:
    new, taken = step(
        lambda x: x[0], lambda x: jnp.where(x[0] == 0, half_square(x), jnp.nan), vector(0)
    )
    assert (float(new[0]), float(taken.fraction)) == (0, 0)


# --- what holds for any policy ---------------------------------------------------------------

SIZE = 24
BOX = Spaces(3, 2, (), (-1.0, -1.0), (1.0, 1.0))
CHOICES = Spaces(3, 2, (2, 3))


def policy_step(config: Any, spaces: Spaces, policy: Policy, batch: Batch) -> Any:
    state = TrainState(Networks(policy, ()), Networks((), ()), (), (), ())  # all that it needs
    order = np.zeros((config.epochs, SIZE), np.int32)  # a trust-region step does not shuffle
    new, _, metrics = learner.improve_policy(config, spaces, state, batch, order, 0.0)
    return new, metrics


def random_policy(rng: np.random.Generator, spaces: Spaces) -> Policy:
    sizes = (spaces.observation_size, 4, spaces.policy_outputs)
    layers = tuple(
        (rng.normal(size=(a, b)).astype(np.float32), rng.normal(size=b).astype(np.float32))
        for a, b in pairwise(sizes)
    )
    return Policy(layers, rng.normal(size=0 if spaces.categories else 2).astype(np.float32))


def outputs(policy: Policy, obs: np.ndarray) -> np.ndarray:
    (w1, b1), (w2, b2) = jax.tree.map(lambda x: np.asarray(x, np.float64), policy.layers)
    return np.tanh(obs @ w1 + b1) @ w2 + b2


def exact_kl(spaces: Spaces, old: Policy, new: Policy, obs: np.ndarray) -> float:
    """The mean KL(old || new), by SciPy and in float64."""
    p, q = outputs(old, obs), outputs(new, obs)
    if spaces.categories:
        kl = sum(
            stats.entropy(*(special.softmax(x[:, part], axis=1) for x in (p, q)), axis=1)
            for part in np.s_[:2, 2:]
        )
        return float(np.mean(kl))
    s, r = (np.asarray(x.log_std, np.float64) for x in (old, new))
    return float(
        np.mean(np.sum(r - s + (np.exp(2 * s) + (p - q) ** 2) / (2 * np.exp(2 * r)) - 0.5, axis=1))
    )


@pytest.mark.parametrize("spaces", [BOX, CHOICES], ids=["Gaussian", "categorical"])
@examples
@given(
    seed=st.integers(0, 10_000),
    kl_limit=st.sampled_from([1e-4, 1e-2, 0.1, 3.0]),
)
def test_a_policy_step_keeps_the_kl_limit(spaces: Spaces, seed: int, kl_limit: float) -> None:
    rng = np.random.default_rng(seed)
    config = paper_config("trpo", kl_limit=kl_limit, num_envs=SIZE, hidden_sizes=(4,))
    policy = random_policy(rng, spaces)
    obs = rng.normal(size=(SIZE, 3)).astype(np.float32)
    action = (
        np.stack([rng.integers(n, size=SIZE) for n in spaces.categories], axis=1).astype(np.int32)
        if spaces.categories
        else (outputs(policy, obs) + np.exp(policy.log_std) * rng.normal(size=(SIZE, 2))).astype(
            np.float32
        )
    )
    advantage = rng.normal(size=SIZE).astype(np.float32)
    none = obs[:, :0]
    batch = Batch(obs, none, action, advantage, advantage)
    new, metrics = policy_step(config, spaces, policy, batch)
    moved = exact_kl(spaces, policy, new, obs)
    assert moved <= kl_limit * 1.001 + 1e-6  # float32 against float64
    assert float(metrics["kl"]) == pytest.approx(moved, rel=1e-3, abs=1e-6)
    if metrics["step_fraction"] > 0:
        assert float(metrics["policy_loss"]) < -advantage.mean() + 1e-6
        assert moved > 0
    else:
        assert all(map(np.array_equal, jax.tree.leaves(policy), jax.tree.leaves(new)))


# --- steps that get shorter ------------------------------------------------------------------


def test_decay_shortens_steps_and_what_they_correct_of_a_cost() -> None:
    config = paper_config("atrpo", kl_limit=0.04, limit_step_size=0.4, learning_rate_decay=True)
    later = with_shorter_steps(config, 0.75)
    assert isinstance(later, ATRPOConfig)
    assert (later.kl_limit, later.limit_step_size) == pytest.approx((0.04 / 16, 0.1))
    assert config.kl_limit == 0.04
    for other in (paper_config("atrpo"), paper_config("apo")):
        assert with_shorter_steps(other, 0.75) is other


def test_steps_of_a_run_get_shorter() -> None:
    options = TINY | {"kl_limit": 0.01, "learning_rate_decay": True}
    divergences: list[float] = []
    agent = ATRPO(Drift, num_workers=0, **options)
    agent.learn(4 * ITERATION, on_log=lambda p: divergences.append(p.metrics["kl"]))
    limits = [0.01 * (1 - k / 4) ** 2 for k in range(4)]
    assert 0 < divergences[3] <= 1.001 * limits[3]
    assert divergences[0] > limits[3]  # the last limit would have been kept by no step so far
    assert all(kl <= 1.001 * limit for kl, limit in zip(divergences, limits, strict=True))
