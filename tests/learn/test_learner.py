"""One iteration of each algorithm: properties that hold for any input."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from longrun.learning.algorithms import AGENTS
from longrun.learning.envs.numpy_policy import NumpyPolicy, draw_noise
from longrun.learning.envs.spaces import Spaces
from longrun.learning.learn import learner, preparation
from longrun.learning.learn.acting import read
from longrun.learning.learn.criteria import init_criterion
from longrun.learning.learn.moments import Moments, init_moments, merge
from longrun.learning.learn.networks import apply_mlp
from longrun.learning.learn.policy_steps import clipped_surrogate, with_shorter_steps
from longrun.learning.learn.types import Batch, Metrics, Networks, Rollout, TrainState
from longrun.learning.options.acting import Acting
from longrun.learning.options.config import ALGORITHMS, Config
from longrun.learning.train.host import loop as host
from longrun.learning.train.host.replica import flat_weights
from paper_config import paper_config
from quick import QUICK
from tiny_envs import Drift

BOX = Spaces(3, 2, (), (-1.0, -1.0), (1.0, 1.0))
CHOICES = Spaces(3, 2, (2, 3))
families: Any = pytest.mark.parametrize("spaces", [BOX, CHOICES], ids=["Gaussian", "categorical"])
algorithms: Any = pytest.mark.parametrize("algorithm", ALGORITHMS)

SMALL: dict[str, Any] = {
    "num_envs": 2,
    "rollout_steps": 8,
    "minibatch_size": 4,
    "epochs": 2,
    "hidden_sizes": (),
    "learning_rate": 0.03,
}

quick_update = jax.jit(learner.update, static_argnums=1, compiler_options=QUICK)


def random_rollout(seed: int, config: Config, spaces: Spaces, scale: float = 1.0) -> Rollout:
    """A random rollout, with one termination and one time limit in each stream."""
    rng = np.random.default_rng(seed)
    t, n = config.rollout_steps, config.num_envs
    obs = scale * rng.normal(size=(t + 1, n, spaces.observation_size)).astype(np.float32)
    terminated, truncated = (np.zeros((t, n), bool) for _ in range(2))
    terminated[t // 3], truncated[2 * t // 3] = True, True
    next_obs = obs[1:].copy()
    ended = terminated | truncated
    next_obs[ended] = rng.normal(size=next_obs[ended].shape)
    if spaces.categories:
        action = np.stack([rng.integers(k, size=(t, n)) for k in spaces.categories], axis=-1)
    else:
        action = rng.normal(size=(t, n, spaces.action_size))
    return Rollout(
        obs=obs[:-1],
        action=action.astype(spaces.action_dtype),
        reward=rng.normal(size=(t, n)).astype(np.float32),
        next_obs=next_obs,
        terminated=terminated,
        truncated=truncated,
        resume_obs=obs[-1],
    )


def shuffles(seed: int, config: Config) -> Networks:
    rng = np.random.default_rng(seed)
    size = config.num_envs * config.rollout_steps
    orders = (
        np.stack([rng.permutation(size).astype(np.int32) for _ in range(config.epochs)])
        for _ in range(2)
    )
    return Networks(*orders)


@cache
def shapes_of_a_state(config: Config, spaces: Spaces) -> TrainState:
    """Traced once, since nearly every test needs it."""
    return jax.eval_shape(lambda: learner.init(config, spaces, jax.random.key(0)))


def fresh(config: Config, spaces: Spaces, seed: int = 0) -> TrainState:
    """A state like that of `learner.init`, with arbitrary weights and without compilation."""
    rng = np.random.default_rng(seed)
    shapes = shapes_of_a_state(config, spaces)
    zeros = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), shapes)
    weights = jax.tree.map(
        lambda x: np.asarray(0.5 * rng.normal(size=x.shape), x.dtype), zeros.params
    )
    moments = zeros.obs_moments._replace(variance=np.ones_like(zeros.obs_moments.variance))
    criterion = init_criterion(config)
    state = zeros._replace(params=weights, criterion=criterion, obs_moments=moments)
    return jax.device_put(state)


def iterate(
    config: Config, spaces: Spaces, state: TrainState, seed: int, progress: float = 0.0
) -> tuple[TrainState, Metrics]:
    """`learner.update` on a random rollout."""
    rollout = random_rollout(seed, config, spaces)
    return quick_update(config, spaces, state, rollout, shuffles(seed, config), progress)


def leaves(tree: Any) -> list[np.ndarray]:
    return [np.asarray(x) for x in jax.tree.leaves(tree)]


# --- the start -------------------------------------------------------------------------------


def test_a_new_replica() -> None:
    config = paper_config("apo", hidden_sizes=(6,))
    state = learner.init(config, BOX, jax.random.key(0))
    (w1, b1), (w2, b2) = state.params.policy.layers
    assert not np.any(state.params.policy.log_std)
    assert not np.any(b1)
    assert not np.any(b2)
    # Orthogonal rows (3 inputs to 6) of length sqrt 2; a policy output of .01.
    np.testing.assert_allclose(w1 @ w1.T, 2 * np.eye(3), atol=1e-5)
    np.testing.assert_allclose(w2.T @ w2, 1e-4 * np.eye(2), atol=1e-9)
    np.testing.assert_allclose(np.sum(state.params.value[-1][0] ** 2), 1.0, rtol=1e-5)
    assert (float(state.criterion.gain), bool(state.criterion.started)) == (0, False)
    buffers = [x.unsafe_buffer_pointer() for x in jax.tree.leaves(state) if x.size]
    assert len(set(buffers)) == len(buffers)  # otherwise they could not be donated
    other = learner.init(config, BOX, jax.random.key(1))
    assert not np.array_equal(other.params.policy.layers[0][0], w1)


@families
def test_a_gaussian_policy_starts_with_the_configured_standard_deviation(
    spaces: Spaces,
) -> None:
    config = paper_config("trpo", **SMALL, initial_log_std=-1.5)
    log_std = learner.init(config, spaces, jax.random.key(0)).params.policy.log_std
    assert log_std.tolist() == ([] if spaces.categories else [-1.5, -1.5])
    assert not log_std.weak_type  # otherwise the first update would be compiled twice


# --- the first ratio -------------------------------------------------------------------------


@families
@pytest.mark.parametrize("normalize", [False, pytest.param(True, marks=pytest.mark.shipped)])
def test_the_first_ratio_is_1_to_rounding(spaces: Spaces, normalize: bool) -> None:
    """Old log-probabilities come from a product with the whole batch, new ones from products with
    minibatches, which a machine may sum in another order. Sums of at most 64 terms of size 1 then
    differ by x <= 64 eps, the mean of (ratio - 1) - log(ratio) by x^2 / 2 and by exp's rounding
    near 1, half a unit.
    """
    eps = float(np.finfo(np.float32).eps)
    rounding = (64 * eps) ** 2 / 2 + eps / 2
    spaces = dataclasses.replace(spaces, observation_size=17)
    config = paper_config(
        "apo",
        num_envs=5,
        rollout_steps=40,
        minibatch_size=50,
        epochs=1,
        hidden_sizes=(64,),
        learning_rate=0.0,
        normalize_observations=normalize,
    )
    state = fresh(config, spaces)
    for seed in range(2):  # the second time there are moments, if enabled
        rollout = random_rollout(seed, config, spaces, scale=3.0)
        acting = NumpyPolicy(config.acting, spaces, flat_weights(state))
        batch, state, _ = preparation.prepare(config, spaces, state, rollout)
        # The learner's old policy is the one that acted, with the moments that it acted with.
        learnt_from = apply_mlp(config.acting, state.params.policy.layers, batch.features)
        acted = acting.outputs(rollout.obs.reshape(-1, 17))
        np.testing.assert_allclose(learnt_from, acted, rtol=1e-4, atol=1e-4)
        order = shuffles(seed, config).policy
        policy, _, metrics = learner.improve_policy(config, spaces, state, batch, order, 0.0)
        assert abs(float(metrics["kl"])) <= rounding
        assert float(metrics["clip_fraction"]) == 0.0
        assert all(map(np.array_equal, leaves(policy), leaves(state.params.policy)))
    moved = dataclasses.replace(config, learning_rate=1e-2)
    _, _, metrics = learner.improve_policy(moved, spaces, state, batch, order, 0.0)
    assert float(metrics["kl"]) > 1e-4  # far above rounding: a change of the policy is detected


def test_clipped_surrogate() -> None:
    ratio = jnp.asarray([0.5, 1.5, 0.5, 1.5, 1.125])
    advantage = jnp.asarray([1.0, 1.0, -1.0, -1.0, 2.0])
    # The clip removes only what lies beyond .75 or 1.25 in the advantage's direction.
    expected = [0.5, 1.25, -0.75, -1.5, 2.25]
    assert clipped_surrogate(ratio, advantage, 0.25).tolist() == expected


# --- from a rollout to a batch ---------------------------------------------------------------


def two_steps(algorithm: str = "apo", **options: Any) -> tuple[Config, TrainState, Rollout]:
    """One environment that terminates in its second step; a state's value is its observation."""
    config = paper_config(
        algorithm,
        num_envs=1,
        rollout_steps=2,
        minibatch_size=2,
        hidden_sizes=(),
        gae_lambda=0.5,
        value_constraint=0.5,
        **options,
    )
    spaces = Spaces(1, 1, (2,))
    state = fresh(config, spaces)
    value = ((jnp.ones((1, 1)), jnp.zeros(1)),)
    state = state._replace(params=state.params._replace(value=value))
    rollout = Rollout(
        obs=np.array([[[1.0]], [[2.0]]], np.float32),
        action=np.array([[[0]], [[1]]], np.int32),
        reward=np.array([[4.0], [0.0]], np.float32),
        next_obs=np.array([[[2.0]], [[99.0]]], np.float32),
        terminated=np.array([[False], [True]]),
        truncated=np.zeros((2, 1), bool),
        resume_obs=np.array([[3.0]], np.float32),
    )
    return config, state, rollout


@pytest.mark.shipped
def test_a_batch_and_its_metrics_by_hand() -> None:
    config, state, rollout = two_steps(termination="reset", reset_cost=2.0)
    batch, state, metrics = preparation.prepare(config, Spaces(1, 1, (2,)), state, rollout)
    # Rewards 4 and 0 - 2: gain 1. Values 1, 2, and 3 where the chain continues: offset 1.5.
    # TD errors 4 - 1 + 2 - 1 = 4 and -2 - 1 + 3 - 2 = -2; the first advantage is 4 - 2/2.
    assert batch.advantage.tolist() == [3, -2]
    assert batch.value_target.tolist() == [3.25, -0.75]  # 3 + 1 - .75 and -2 + 2 - .75
    assert batch.features.tolist() == [[1], [2]]
    assert batch.action.tolist() == [[0], [1]]
    assert int(state.iteration) == 1
    expected = {
        "reward": 2,
        "reward_min": 0,
        "reward_max": 4,
        "observation_size": 2.5**0.5,  # of observations 1 and 2
        "gain": 1,
        "value_offset": 1.5,
        "value_mean": 1.5,
        "reset_cost": 2,
        "terminations": 0.5,
        # errors 2.25 and -2.75 of variance 6.25, targets of variance 4
        "explained_variance": 1 - 6.25 / 4,
    }
    found = {name: float(metrics[name]) for name in expected}
    assert found == pytest.approx(expected, rel=1e-6)


def test_normalised_advantages_do_not_change_the_value_targets() -> None:
    config, state, rollout = two_steps(termination="reset", reset_cost=2.0)
    config = dataclasses.replace(config, normalize_advantages=True)
    batch, _, _ = preparation.prepare(config, Spaces(1, 1, (2,)), state, rollout)
    np.testing.assert_allclose(batch.advantage, [1, -1], rtol=1e-6)  # 3 and -2: .5 +- 2.5
    assert batch.value_target.tolist() == [3.25, -0.75]


def test_the_value_loss_is_half_the_mean_squared_error() -> None:
    config, state, rollout = two_steps(termination="reset", reset_cost=2.0, learning_rate=0.0)
    batch, state, _ = preparation.prepare(config, Spaces(1, 1, (2,)), state, rollout)
    order = np.tile(np.arange(2, dtype=np.int32), (config.epochs, 1))
    _, _, metrics = learner.fit_value(config, state, batch, order, 0.0)
    assert float(metrics["value_loss"]) == 3.15625  # (2.25^2 + 2.75^2) / 2 / 2


# --- every option has an effect --------------------------------------------------------------

RESET = {"termination": "reset"}


def init_linear(key: Any, inputs: int, outputs: int) -> Any:
    return {"matrix": 0.1 * jax.random.normal(key, (inputs, outputs))}


LINEAR = (init_linear, lambda params, x: x @ params["matrix"])
PERTURBED: dict[str, tuple[Any, dict[str, Any]]] = {
    # field: (another value, what both runs need so that it can matter)
    "gae_lambda": (0.5, {}),
    "learning_rate": (0.003, {}),
    "epochs": (3, {}),
    "minibatch_size": (8, {}),
    "hidden_sizes": ((3,), {}),
    "value_hidden_sizes": ((3,), {}),
    "activation": ("relu", {"hidden_sizes": (4,)}),
    "layer_norm": (True, {"hidden_sizes": (4,)}),
    "policy_network": (LINEAR, {}),
    "value_network": (LINEAR, {}),
    "normalize_observations": (True, {}),
    "normalize_advantages": (True, {}),
    "scale_rewards": (True, {}),
    "learning_rate_decay": (True, {}),  # half of the run is done
    "gain_step_size": (0.5, {}),
    "value_constraint": (0.5, {}),
    "termination": ("reset", {}),
    "reset_cost": (2.0, RESET),
    "reset_cost_step_size": (0.1, RESET),
    "termination_target": (0.25, RESET | {"reset_cost_step_size": 0.1}),  # 1/8 is too few now
    "discount": (0.5, {}),
    "clip_range": (0.01, {}),
    "entropy_coefficient": (0.5, {}),
    "kl_limit": (0.001, {}),
}
ROLLOUT_SHAPE = ("num_envs", "rollout_steps")
# The start's has a test of its own above; see test_actions.py for the bounds.
# For limits see test_learning_with_limits.py.
LIMITS = ("costs", "limits", "limit_step_size")
# For adaptive_lambda, which needs longer rollouts, see test_trace.py.
OTHERS = ("initial_log_std", "action_bounds", "adaptive_lambda")
ELSEWHERE = (*ROLLOUT_SHAPE, *LIMITS, *OTHERS)
# These act through the batch alone. That a batch changes what is learned, the numeric ones among
# the others show: gae_lambda, discount and the rest need no program of their own.
IN_THE_BATCH = (
    "normalize_observations",
    "normalize_advantages",
    "scale_rewards",
    "termination",
)
FIELDS = [(a, f.name) for a, kind in ALGORITHMS.items() for f in dataclasses.fields(kind)]


def three_programs(
    config: Config, spaces: Spaces, state: TrainState, seed: int, progress: float = 0.0
) -> tuple[TrainState, Metrics]:
    """An iteration as the host loop runs it: an option compiles only the programs that read it."""
    order = shuffles(seed, config)
    rollout = random_rollout(seed, config, spaces)
    config = with_shorter_steps(config, progress)
    batch, state, metrics = preparation.prepare(config, spaces, state, rollout)
    policy = learner.improve_policy(config, spaces, state, batch, order.policy, progress)
    value = learner.fit_value(config, state, batch, order.value, progress)
    state = state._replace(
        params=Networks(policy.params, value.params),
        opt_state=Networks(policy.opt_state, value.opt_state),
    )
    return state, metrics | policy.metrics | value.metrics


@cache
def parameters_after_two_updates(algorithm: str, options: tuple[tuple[str, Any], ...]) -> Any:
    config = paper_config(algorithm, **SMALL | dict(options))
    state = fresh(config, BOX)
    for seed in (0, 1):
        state, _ = three_programs(config, BOX, state, seed, progress=0.5)
    return np.concatenate([np.ravel(x) for x in leaves(state.params)])


@cache
def second_batch(algorithm: str, options: tuple[tuple[str, Any], ...]) -> Any:
    """What training reads of the second rollout; the first one moved averages and moments."""
    config = paper_config(algorithm, **SMALL | dict(options))
    state = fresh(config, BOX)
    for seed in (0, 1):
        batch, state, _ = preparation.prepare(config, BOX, state, random_rollout(seed, config, BOX))
    read_by_training = (batch.features, batch.advantage, batch.value_target)
    return np.concatenate([np.ravel(x) for x in read_by_training])


@pytest.mark.parametrize(
    ("algorithm", "field"),
    [
        # APO and TRPO together have all the options
        pytest.param(*f, marks=() if f[0] in ("apo", "trpo") else pytest.mark.slow)
        for f in FIELDS
        if f[1] not in ELSEWHERE
    ],
)
def test_every_option_changes_what_is_learned(algorithm: str, field: str) -> None:
    other, partner = PERTURBED[field]
    usual = {**SMALL, **partner}.get(field, getattr(paper_config(algorithm, **partner), field))
    assert other != usual
    learned = second_batch if field in IN_THE_BATCH else parameters_after_two_updates
    before = learned(algorithm, tuple(partner.items()))
    after = learned(algorithm, tuple((partner | {field: other}).items()))
    assert np.isfinite(before).all()
    assert np.isfinite(after).all()
    if before.shape == after.shape:
        assert np.abs(before - after).max() > 1e-4


# --- in which direction options act ----------------------------------------------------------


class Learned(NamedTuple):
    """What two iterations with some options have learned, the second one with all it was given."""

    config: Config
    before: TrainState
    """the second iteration"""
    rollout: Rollout
    batch: Batch
    after: TrainState
    metrics: Metrics

    @property
    def moved(self) -> float:
        """The distance of all parameters from those at the start."""
        pairs = zip(leaves(fresh(self.config, BOX).params), leaves(self.after.params), strict=True)
        return float(np.sqrt(sum(((one - other) ** 2).sum() for one, other in pairs)))

    @property
    def spread(self) -> float:
        return float(self.batch.advantage.std())

    @property
    def future(self) -> float:
        """How much more advantage there is where the successor has a larger value."""
        found = preparation.predict(
            self.config, BOX, self.before, self.before.params.value, self.rollout
        )
        goes_on = ~(self.rollout.terminated | self.rollout.truncated).ravel()
        values = np.asarray(found[0].successor).ravel()[goes_on]
        return float(np.cov(values, np.asarray(self.batch.advantage)[goes_on])[0, 1])

    @property
    def pull(self) -> float:
        """Of value targets away from the mean value: below 0 is towards a mean of 0."""
        offset = float(self.after.criterion.offset)
        values = self.batch.value_target - self.batch.advantage
        found = preparation.predict(
            self.config, BOX, self.before, self.before.params.value, self.rollout
        )
        return float((values - found[0].here.ravel()).mean() * np.sign(offset))


Measure = Callable[[Learned], float]


def metric(name: str) -> Measure:
    return lambda learned: float(learned.metrics[name])


def moved(learned: Learned) -> float:
    return learned.moved


DIRECTIONS: list[tuple[str, str, Any, Any, Measure, int, dict[str, Any]]] = [
    # algorithm, option, its lower and its higher value; what becomes larger (1) or smaller (-1) by
    # the higher one; other options
    ("apo", "learning_rate", 0.003, 0.03, moved, 1, {}),
    ("apo", "learning_rate", 0.0, 0.03, metric("value_loss"), -1, {}),
    ("apo", "learning_rate", 0.0, 0.03, metric("policy_loss"), -1, {}),
    ("apo", "learning_rate_decay", False, True, moved, -1, {}),
    ("apo", "epochs", 2, 3, moved, 1, {}),
    ("apo", "minibatch_size", 4, 8, moved, -1, {}),
    ("apo", "entropy_coefficient", 0.0, 1.0, metric("entropy"), 1, {}),
    ("ppo", "entropy_coefficient", 0.0, 1.0, metric("entropy"), 1, {}),
    ("apo", "clip_range", 0.001, 0.5, metric("kl"), 1, {}),
    ("apo", "gae_lambda", 0.0, 0.95, lambda learned: learned.spread, 1, {}),
    ("ppo", "discount", 0.0, 1.0, lambda learned: learned.future, 1, {"gae_lambda": 0.0}),
    ("apo", "value_constraint", 0.0, 0.5, lambda learned: learned.pull, -1, {}),
    (
        "apo",
        "gain_step_size",
        0.0,
        0.9,
        lambda learned: abs(float(learned.metrics["gain"] - learned.metrics["reward"])),
        -1,
        {},
    ),
    ("apo", "reset_cost", 0.0, 2.0, metric("gain"), -1, RESET),
    ("apo", "reset_cost_step_size", 0.0, 0.1, metric("reset_cost"), 1, RESET),
    (
        "apo",
        "termination_target",
        0.001,
        0.25,
        metric("reset_cost"),
        -1,
        RESET | {"reset_cost_step_size": 0.1, "reset_cost": 1.0},
    ),
    ("trpo", "kl_limit", 0.001, 0.01, metric("kl"), 1, {}),
    ("trpo", "learning_rate_decay", False, True, metric("kl"), -1, {}),
]


@cache
def learned_with(algorithm: str, options: tuple[tuple[str, Any], ...]) -> Learned:
    config = paper_config(algorithm, **SMALL | dict(options))
    state = fresh(config, BOX)
    for seed in (0, 1):
        before, rollout = state, random_rollout(seed, config, BOX)
        batch, _, _ = preparation.prepare(config, BOX, before, rollout)
        state, metrics = three_programs(config, BOX, before, seed, progress=0.5)
    return Learned(config, before, rollout, batch, state, metrics)


def test_the_direction_in_which_options_act() -> None:
    wrong = []
    for algorithm, option, low, high, measure, sign, others in DIRECTIONS:
        less, more = (
            measure(learned_with(algorithm, tuple((others | {option: value}).items())))
            for value in (low, high)
        )
        if not sign * (more - less) > 1e-3 * max(abs(less), abs(more)):
            wrong.append(f"{algorithm} {option}: {less:.6g} with {low}, {more:.6g} with {high}")
    assert not wrong, "\n".join(wrong)


def test_the_scale_of_rewards_takes_out_their_unit() -> None:
    """With values of 0, so that advantages are in proportion to rewards."""
    config = paper_config("ppo", **SMALL, scale_rewards=True)
    rollout, spreads = random_rollout(0, config, BOX), []
    for unit in (1, 10):
        state = fresh(config, BOX)
        no_values = jax.tree.map(jnp.zeros_like, state.params.value)
        state = state._replace(params=state.params._replace(value=no_values))
        paid = rollout._replace(reward=np.float32(unit) * rollout.reward)
        batch, _, _ = preparation.prepare(config, BOX, state, paid)
        spreads.append(float(batch.advantage.std()))
    assert spreads[1] == pytest.approx(spreads[0], rel=1e-4)


APART = ("policy_network", "value_network")
"""Options that exclude some of the others."""


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("algorithm", ["apo", "trpo"])  # together they have all the options
def test_a_whole_update_is_its_three_programs(algorithm: str, apart: bool) -> None:
    """With all options changed at once: what each of them changes above, it changes here, too."""
    fields = {field for name, field in FIELDS if name == algorithm} - {*ELSEWHERE}
    fields &= {*APART} if apart else fields - {*APART}
    changed = {field: PERTURBED[field][0] for field in fields}
    config = paper_config(algorithm, **SMALL | changed)
    whole = parts = fresh(config, BOX)
    for seed in (0, 1):
        whole, metrics = iterate(config, BOX, whole, seed, progress=0.5)
        parts, expected = three_programs(config, BOX, parts, seed, progress=0.5)
    assert metrics.keys() == expected.keys()
    for one, another in zip(leaves((whole, metrics)), leaves((parts, expected)), strict=True):
        np.testing.assert_allclose(one, another, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("algorithm", "field"), [f for f in FIELDS if f[1] in ROLLOUT_SHAPE])
def test_the_options_for_the_shape_of_a_rollout_change_it(
    algorithm: str, field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Opened(Exception):
        pass

    def open_pool(plan: Any, *_: Any) -> Any:
        raise Opened(plan.memory()["reward"][0])

    monkeypatch.setattr(host, "open_pool", open_pool)
    agent = AGENTS[algorithm](Drift, num_workers=0, **SMALL | {field: 9})
    with pytest.raises(Opened) as opened:
        agent.learn(1)
    shape = {"rollout_steps": 8, "num_envs": 2} | {field: 9}
    assert opened.value.args[0] == (1, shape["rollout_steps"], shape["num_envs"])


def test_learning_rate_decay_scales_the_learning_rate_by_what_remains() -> None:
    # Adam's first step is the learning rate itself, in every weight that has a gradient.
    options = SMALL | {"epochs": 1, "minibatch_size": 16}
    config = paper_config("ppo", **options, learning_rate_decay=True)
    state = fresh(config, BOX)
    for progress, rate in ((0.0, 0.03), (0.75, 0.0075)):
        after, _ = iterate(config, BOX, state, seed=0, progress=progress)
        moved = np.abs(after.params.value[-1][1] - state.params.value[-1][1])
        assert float(moved[0]) == pytest.approx(rate, rel=1e-4)


# --- the criteria inside the whole update ----------------------------------------------------


@pytest.mark.shipped
@families
def test_apo_with_the_gain_frozen_at_0_learns_as_ppo_without_discount_to_the_bit(
    spaces: Spaces,
) -> None:
    apo = paper_config("apo", **SMALL, gain_step_size=0, value_constraint=0)
    ppo = paper_config("ppo", **SMALL, discount=1)
    average, discounted = fresh(apo, spaces), fresh(ppo, spaces)
    started = average.criterion._replace(started=jnp.ones((), bool))
    average = average._replace(criterion=started)
    for seed in range(3):
        average, _ = iterate(apo, spaces, average, seed)
        discounted, _ = iterate(ppo, spaces, discounted, seed)
    assert all(map(np.array_equal, leaves(average.params), leaves(discounted.params)))


def lifted(state: TrainState, by: float) -> TrainState:
    *hidden, (weights, bias) = state.params.value
    value = (*hidden, (weights, bias + by))
    return state._replace(params=state.params._replace(value=value))


@pytest.mark.parametrize("lift", [5.0, -5.0])
def test_the_value_constraint_pulls_the_mean_value_towards_0(lift: float) -> None:
    free, pulled = (
        paper_config("apo", **SMALL | {"gae_lambda": 0.0}, value_constraint=nu) for nu in (0, 0.5)
    )
    means = {}
    for name, config in (("free", free), ("pulled", pulled)):
        state = lifted(fresh(config, BOX), lift)
        for seed in range(60):
            rollout = random_rollout(seed, config, BOX)
            rollout = rollout._replace(terminated=np.zeros_like(rollout.terminated))
            order = shuffles(seed, config)
            state, metrics = quick_update(config, BOX, state, rollout, order, 0.0)
        means[name] = float(metrics["value_mean"])
    # Without terminations the level of the values is free: only the constraint determines it.
    assert abs(means["free"] - lift) < 2.5
    assert abs(means["pulled"]) < 1.0


def test_epochs_are_passes_one_after_another() -> None:
    config = paper_config("apo", **SMALL | {"epochs": 3})
    batch, state, _ = preparation.prepare(config, BOX, fresh(config, BOX), rollout_of(config))
    orders = shuffles(0, config).value
    whole = learner.fit_value(config, state, batch, orders, 0.0)
    for row in range(3):
        value = learner.fit_value(config, state, batch, orders[row : row + 1], 0.0)
        state = state._replace(
            params=state.params._replace(value=value.params),
            opt_state=state.opt_state._replace(value=value.opt_state),
        )
    for one, other in zip(leaves(whole.params), leaves(value.params), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_gradients_are_clipped_by_the_norm_of_each_network() -> None:
    config = paper_config("ppo", **SMALL | {"epochs": 1, "minibatch_size": 16})
    for scale, is_clipped in ((0.1, False), (1e4, True)):
        rollout = rollout_of(config)
        rollout = rollout._replace(reward=np.float32(scale) * rollout.reward)
        state, _ = quick_update(config, BOX, fresh(config, BOX), rollout, shuffles(0, config), 0.0)
        for opt_state in state.opt_state:
            [moments] = [x for x in opt_state if hasattr(x, "mu")]
            size = float(np.linalg.norm(moments.mu)) * 10  # Adam's first moment is a tenth
            assert size == pytest.approx(10, rel=1e-4) if is_clipped else 0 < size < 10


def rollout_of(config: Config) -> Rollout:
    return random_rollout(0, config, BOX)


# --- replicas and compilation ----------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["apo", "trpo"])
def test_an_update_of_stacked_replicas_is_the_update_of_each(algorithm: str) -> None:
    options: list[dict[str, Any]] = [{}, {"gae_lambda": 0.5}, {"learning_rate": 0.01}]
    if algorithm == "apo":
        options[0] = {"value_constraint": 0.7, "clip_range": 0.05}
    else:
        options[0] = {"discount": 0.5, "kl_limit": 0.1}
    configs = [paper_config(algorithm, **SMALL | changed) for changed in options]
    states = [fresh(config, BOX, seed) for seed, config in enumerate(configs)]
    rollouts = [random_rollout(seed, config, BOX) for seed, config in enumerate(configs)]
    orders = [shuffles(seed, config) for seed, config in enumerate(configs)]

    def stack(*trees: Any) -> Any:
        return jax.tree.map(lambda *x: jnp.stack(x), *trees)

    together = jax.jit(
        jax.vmap(lambda c, s, r, o: learner.update(c, BOX, s, r, o)), compiler_options=QUICK
    )
    stacked = [stack(*x) for x in (configs, states, rollouts, orders)]
    for _ in range(2):
        stacked[1], metrics = together(*stacked)
        alone = [
            quick_update(config, BOX, *facts, 0.0)
            for config, *facts in zip(configs, states, rollouts, orders, strict=True)
        ]
        states = [state for state, _ in alone]
    for found, expected in zip(leaves(stacked[1]), leaves(stack(*states)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    for name, found in metrics.items():
        expected = [m[name] for _, m in alone]
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5, err_msg=name)


PROGRAMS = (preparation._prepare, learner._improve_policy, learner._fit_value)


@pytest.mark.parametrize("algorithm", ["apo", "trpo"])  # together they have all the options
def test_neither_another_iteration_nor_another_number_recompiles(algorithm: str) -> None:
    def update(config: Config, state: TrainState, seed: int, progress: float) -> TrainState:
        rollout, orders = random_rollout(seed, config, BOX), shuffles(seed, config)
        return learner.update(config, BOX, state, rollout, orders, progress)[0]

    config = paper_config(algorithm, **SMALL)
    state = update(config, fresh(config, BOX), 0, 0.0)
    compiled = [program._cache_size() for program in PROGRAMS]
    update(config, state, 1, 0.5)
    assert [program._cache_size() for program in PROGRAMS] == compiled
    for option in dataclasses.fields(config):
        # a reset cost needs termination="reset", which is another program; see below
        if option.metadata.get("numeric") and not option.name.startswith("reset_cost"):
            middle = (option.metadata["low"] + min(option.metadata["high"], 2.0)) / 2
            changed = dataclasses.replace(config, **{option.name: middle})
            update(changed, fresh(changed, BOX), 0, 0.0)
            assert [program._cache_size() for program in PROGRAMS] == compiled, option.name


def test_another_reset_cost_does_not_recompile() -> None:
    config = paper_config("apo", **SMALL, termination="reset")
    state = fresh(config, BOX)
    preparation.prepare(config, BOX, state, random_rollout(0, config, BOX))
    compiled = preparation._prepare._cache_size()
    changed = dataclasses.replace(config, reset_cost=3.0, reset_cost_step_size=0.1)
    preparation.prepare(changed, BOX, fresh(changed, BOX), random_rollout(1, config, BOX))
    assert preparation._prepare._cache_size() == compiled


# --- observation moments ---------------------------------------------------------------------


def test_merged_moments_are_those_of_all_samples() -> None:
    rng = np.random.default_rng(0)
    batches = [rng.normal(m, s, (n, 3)) for m, s, n in ((0, 1, 5), (7, 0.1, 300), (-3, 9, 1))]
    moments = init_moments((3,))
    for batch in batches:
        moments = merge(moments, jnp.asarray(batch, jnp.float32))
    everything = np.concatenate(batches)
    np.testing.assert_allclose(moments.mean, everything.mean(0), rtol=1e-5)
    np.testing.assert_allclose(moments.variance, everything.var(0), rtol=1e-5)
    assert float(moments.size) == 306


def test_moments_of_a_large_number_with_little_spread_are_not_lost_in_rounding() -> None:
    rng = np.random.default_rng(0)
    batches = 1000 + rng.normal(size=(20, 50)).astype(np.float32)
    moments = init_moments()
    for batch in batches:
        moments = merge(moments, jnp.asarray(batch))
    assert float(moments.variance) == pytest.approx(batches.var(dtype=np.float64), rel=1e-3)


def test_an_update_merges_the_observations_that_it_has_seen() -> None:
    config = paper_config("apo", **SMALL, normalize_observations=True)
    state = fresh(config, BOX)
    rollouts = [random_rollout(seed, config, BOX, scale=5.0) for seed in range(2)]
    for rollout in rollouts:
        _, state, _ = preparation.prepare(config, BOX, state, rollout)
    seen = np.concatenate([rollout.obs.reshape(-1, 3) for rollout in rollouts])
    np.testing.assert_allclose(state.obs_moments.mean, seen.mean(0), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(state.obs_moments.variance, seen.var(0), rtol=1e-5)
    assert float(state.obs_moments.size) == 32


def test_without_normalisation_no_moments_are_kept() -> None:
    config = paper_config("ppo", **SMALL)
    state, _ = iterate(config, BOX, fresh(config, BOX), seed=0)
    assert float(state.obs_moments.size) == 0


def test_standardised_observations() -> None:
    config = paper_config("ppo", normalize_observations=True)
    moments = Moments(jnp.asarray([1.0, 0.0]), jnp.asarray([4.0, 0.01]), jnp.asarray(9.0))
    found = read(
        config.acting, Spaces(2, 1, (2,)), moments, jnp.asarray([[2.0, 0.05], [-7.0, 2.0]])
    ).features
    # (2 - 1) / 2, .05 / .1; (-7 - 1) / 2, and 2 / .1 is clipped to 10
    np.testing.assert_allclose(found, [[0.5, 0.5], [-4, 10]], rtol=1e-5)


# --- acting on the host ----------------------------------------------------------------------


def spread(tree: Any) -> Any:
    """Parameters far from the initial ones, so that outputs differ clearly."""
    rng = np.random.default_rng(0)
    return jax.tree.map(lambda x: (x + 0.5 * rng.normal(size=x.shape)).astype(np.float32), tree)


@families
@pytest.mark.parametrize("normalize", [False, True])
def test_numpy_policy_agrees_with_the_network_and_rows_do_not_depend_on_each_other(
    spaces: Spaces, normalize: bool
) -> None:
    config = paper_config("apo", hidden_sizes=(16, 8), normalize_observations=normalize)
    rng = np.random.default_rng(1)
    state = fresh(config, spaces)
    moments = Moments(
        jnp.asarray(rng.normal(size=3), jnp.float32),
        jnp.asarray(rng.uniform(0.5, 4, size=3), jnp.float32),
        jnp.asarray(50.0),
    )
    state = state._replace(params=spread(state.params), obs_moments=moments)
    obs = rng.normal(0, 3, (13, 3)).astype(np.float32)
    obs[0] = 200.0  # beyond the clip
    policy = NumpyPolicy(config.acting, spaces, flat_weights(state))

    standardised = read(config.acting, spaces, moments, jnp.asarray(obs)).features
    network = apply_mlp(config.acting, state.params.policy.layers, standardised)
    together = policy.outputs(obs)
    np.testing.assert_allclose(together, network, rtol=1e-5, atol=1e-5)

    noise = np.concatenate([draw_noise(rng, spaces, 1) for _ in obs])
    actions = policy.act(obs, noise)
    for i in range(len(obs)):
        for mates in ([i], [i, 0, 5], list(range(i, 13))):
            assert np.array_equal(policy.outputs(obs[mates])[0], together[i])
            assert np.array_equal(policy.act(obs[mates], noise[mates])[0], actions[i])


def literal_policy(spaces: Spaces, outputs: list[float], log_std: list[float]) -> NumpyPolicy:
    """No hidden layer, no weights: the outputs are the bias."""
    size = spaces.observation_size
    flat = [0.0] * size + [1.0] * size + log_std + [0.0] * size * len(outputs) + outputs
    return NumpyPolicy(Acting(()), spaces, np.asarray(flat, np.float32))


def test_gaussian_actions_are_the_mean_and_noise_times_the_standard_deviation() -> None:
    policy = literal_policy(BOX, outputs=[1.0, -2.0], log_std=[0.0, np.log(4.0)])
    obs = np.zeros((2, 3), np.float32)
    noise = np.array([[0.5, 1.0], [-1.0, 0.0]], np.float32)
    np.testing.assert_allclose(policy.act(obs, noise), [[1.5, 2.0], [0.0, -2.0]], rtol=1e-6)
    np.testing.assert_allclose(policy.act(obs, None), [[1.0, -2.0]] * 2, rtol=1e-6)


def test_categorical_actions_invert_the_cumulative_distribution() -> None:
    # (1/4, 3/4) and (1/2, 1/4, 1/4)
    policy = literal_policy(CHOICES, [0.0, np.log(3.0), np.log(2.0), 0.0, 0.0], log_std=[])
    noise = np.array([[0.24, 0.49], [0.26, 0.51], [0.99, 0.76], [0.0, 0.9999999]], np.float32)
    obs = np.zeros((4, 3), np.float32)
    assert policy.act(obs, noise).tolist() == [[0, 0], [1, 1], [1, 2], [0, 2]]
    assert policy.act(obs, None).tolist() == [[1, 0]] * 4
