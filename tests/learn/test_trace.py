"""A lambda that adapts: longer traces where values are wrong, and only there."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from longrun.learning.envs.spaces import Spaces
from longrun.learning.learn import learner, preparation
from longrun.learning.learn.trace import (
    COMPARED,
    FIRST,
    _gradients_of_halves,
    init_trace,
    start_trace,
    with_current_lambda,
)
from longrun.learning.learn.types import Networks, Rollout, TrainState
from longrun.learning.options.config import Config
from longrun.learning.options.config_options import make_config
from paper_config import paper_config

BOX = Spaces(16, 1, (), (-1.0,), (1.0,))
STEPS, DELAY = 400, 15


UNDECIDED = FIRST + COMPARED


def config_with(algorithm: str = "apo", **options: Any) -> Config:
    sizes = {"num_envs": 2, "rollout_steps": STEPS, "hidden_sizes": (), "minibatch_size": 100}
    adaptive = {"gae_lambda": 0.9, "adaptive_lambda": True}
    return paper_config(algorithm, **sizes | adaptive | options)


def started(config: Config) -> TrainState:
    """With values of 0: what is not in the rewards at once, only a trace can tell."""
    state = learner.init(config, BOX, jax.random.key(0))
    no_values = jax.tree.map(np.zeros_like, state.params.value)
    return state._replace(params=Networks(state.params.policy, no_values))


def rollout(seed: int, config: Config, effect: float) -> Rollout:
    """Rewards are noise, and the action of `DELAY` steps before times `effect`."""
    rng = np.random.default_rng(seed)
    shape = config.rollout_steps, config.num_envs
    obs = rng.normal(size=(shape[0] + 1, shape[1], 16)).astype(np.float32)
    action = rng.normal(size=shape).astype(np.float32)
    reward = rng.normal(size=shape).astype(np.float32)
    reward[DELAY:] += effect * action[:-DELAY]
    never = np.zeros(shape, bool)
    return Rollout(obs[:-1], action[..., None], reward, obs[1:], never, never, obs[-1])


def lambdas(config: Config, effect: float, batches: int = 40) -> list[float]:
    """Lambda after each batch. The policy and the values stay as they are."""
    state, found = started(config), []
    for seed in range(batches):
        _, state, metrics = preparation.prepare(config, BOX, state, rollout(seed, config, effect))
        found.append(float(metrics["lambda"]))
    return found


@pytest.mark.parametrize(
    ("envs", "steps"),
    [(1, 2 * STEPS), pytest.param(2, STEPS, marks=pytest.mark.shipped), (3, STEPS)],
)
def test_lambda_starts_long_where_rewards_come_late(envs: int, steps: int) -> None:
    """Traces of 10 steps reach a fifth of what comes after 15, traces of 20 nearly a half."""
    found = lambdas(config_with(num_envs=envs, rollout_steps=steps), effect=3)
    watched, falling = found[: UNDECIDED - 1], found[UNDECIDED - 1 :]
    assert watched == pytest.approx([0.9] * (UNDECIDED - 1))
    lengths = 1 / (1 - np.array(falling))
    # from a whole rollout to 10 steps in 150 iterations, by the same factor in each
    expected = steps * (10 / steps) ** (np.arange(len(falling)) / 150)
    np.testing.assert_allclose(lengths, expected, rtol=1e-2)


def test_a_half_has_earlier_and_later_steps_of_alternating_environments() -> None:
    """With an action of 1 and a mean of 0 the gradient of a bias is a sum of advantages."""
    steps, envs = 4, 3
    config = config_with(rollout_steps=100, num_envs=envs)
    state = started(config)
    silent = jax.tree.map(np.zeros_like, state.params.policy)
    state = state._replace(params=state.params._replace(policy=silent))
    facts = rollout(0, config, 0)
    facts = jax.tree.map(lambda x: x[:steps] if len(x) == 100 else x, facts)
    facts = facts._replace(action=np.ones_like(facts.action))
    halves = np.zeros((steps, envs), int)
    for place in np.ndindex(steps, envs):
        advantage = np.zeros((steps, envs), np.float32)
        advantage[place] = 1
        first, second = (
            float(half.layers[-1][1][0])
            for half in _gradients_of_halves(config, BOX, state, facts, jnp.asarray(advantage))
        )
        # Of mean 0: the place itself has 11/12, the other five of its half have -1/12 each.
        assert sorted([first, second]) == pytest.approx([-0.5, 0.5])
        halves[place] = int(second > first)
    assert halves.tolist() == [[0, 1, 0], [0, 1, 0], [1, 0, 1], [1, 0, 1]]


def test_what_is_compared_does_not_depend_on_the_unit_of_rewards() -> None:
    config = config_with()
    facts = rollout(0, config, 2)
    found = []
    for unit in (1.0, 100.0):
        state = about_to_choose(started(config))
        paid = facts._replace(reward=np.float32(unit) * facts.reward)
        _, state, _ = preparation.prepare(config, BOX, state, paid)
        found.append([float(state.trace.shared), float(state.trace.own)])
    assert found[0][1] > 0
    assert found[1] == pytest.approx(found[0], rel=1e-3)


def test_lambda_that_fell_to_gae_lambda_stays_there() -> None:
    config = config_with()
    state = started(config)
    trace = state.trace._replace(gae_lambda=np.float32(0.901), undecided=np.int32(0))
    state = state._replace(trace=trace)
    for seed in range(3):
        _, state, metrics = preparation.prepare(config, BOX, state, rollout(seed, config, 3))
        assert float(metrics["lambda"]) == pytest.approx(0.9)


def test_lambda_stays_where_later_rewards_are_noise() -> None:
    assert lambdas(config_with(), effect=0) == pytest.approx([0.9] * 40)


def test_batches_before_the_values_are_learned_do_not_count() -> None:
    """Of the first batches the late reward says nothing: any values are wrong there."""
    config = config_with()
    state, found = started(config), []
    for seed in range(UNDECIDED):
        facts = rollout(seed, config, 3 if seed < 5 else 0)
        _, state, metrics = preparation.prepare(config, BOX, state, facts)
        found.append(float(state.trace.own))
    assert found[:5] == [0] * 5 and min(np.diff(found[4:])) > 0
    assert float(metrics["lambda"]) == pytest.approx(0.9)


ORDER = np.arange(2 * STEPS, dtype=np.int32)[None].repeat(2, 0)


@pytest.mark.parametrize(
    "options",
    [{}, {"algorithm": "atrpo"}],
    ids=["clipped", "trust region"],
)
def test_only_the_values_are_learned_until_lambda_is_chosen(options: dict[str, Any]) -> None:
    config = config_with(epochs=2, **options)
    state = started(config)
    for before, learns in ((state, False), (about_to_choose(state), True)):
        after, metrics = updated(config, before, rollout(0, config, 2))
        moved = jax.tree.map(lambda x, y: not np.array_equal(x, y), before.params, after.params)
        assert any(jax.tree.leaves(moved.policy)) is learns
        assert any(jax.tree.leaves(moved.value))
        assert (float(metrics["kl"]) > 0) is learns
        if not learns:
            jax.tree.map(
                np.testing.assert_array_equal, before.opt_state.policy, after.opt_state.policy
            )


def test_the_policy_rests_in_the_first_14_iterations() -> None:
    config = config_with(epochs=1)
    state, kls = started(config), []
    for seed in range(16):
        batch, state, _ = preparation.prepare(config, BOX, state, rollout(seed, config, 0))
        policy = learner.improve_policy(config, BOX, state, batch, ORDER[:1], 0.0)
        kls.append(float(policy.metrics["kl"]))
    assert kls[:14] == [0] * 14 and min(kls[14:]) > 0


def updated(config: Config, state: TrainState, facts: Rollout) -> tuple[TrainState, dict[str, Any]]:
    """One iteration as the host makes it."""
    batch, state, _ = preparation.prepare(config, BOX, state, facts)
    policy = learner.improve_policy(config, BOX, state, batch, ORDER, 0.0)
    value = learner.fit_value(config, state, batch, ORDER, 0.0)
    networks = Networks(policy.params, value.params), Networks(policy.opt_state, value.opt_state)
    return state._replace(params=networks[0], opt_state=networks[1]), policy.metrics


def test_a_rollout_too_short_for_longer_traces_keeps_lambda() -> None:
    config = config_with(rollout_steps=100, gae_lambda=0.99)  # traces of .99 are as long as it is
    assert lambdas(config, effect=2, batches=20) == pytest.approx([0.99] * 20)


@pytest.mark.parametrize("gae_lambda", [0.0, 1.0])
def test_lambda_is_finite_at_the_ends_of_its_range(gae_lambda: float) -> None:
    config = config_with(gae_lambda=gae_lambda, rollout_steps=100)
    state = started(config)
    for seed in range(UNDECIDED + 3):
        _, state, metrics = preparation.prepare(config, BOX, state, rollout(seed, config, 0))
        assert float(metrics["lambda"]) == pytest.approx(gae_lambda)
        assert metrics["criterion_finite"]


MASKED = Spaces(19, 1, (3,), masked=True)
ENERGY = {"action_energy": 0.1}
CASES: dict[str, tuple[str, Spaces, dict[str, Any]]] = {
    "masked choices": ("apo", MASKED, {}),
    "limits": ("apo", BOX, {"limits": ENERGY}),
    "discounted": ("ppo", BOX, {}),
    "limits, trust region": ("atrpo", BOX, {"limits": ENERGY}),
}


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(name, marks=() if place < 2 else pytest.mark.slow)
        for place, name in enumerate(CASES)
    ],
)
def test_lambda_adapts_in_each_of_several_replicas(case: str) -> None:
    """Vmapped over replicas that differ in gae_lambda, as on a device."""
    algorithm, spaces, options = CASES[case]
    shared = {"rollout_steps": 100, "num_envs": 2, "hidden_sizes": (), "adaptive_lambda": True}
    configs = [paper_config(algorithm, **shared | options, gae_lambda=x) for x in (0.2, 0.5)]
    facts = rollout(0, configs[0], 2)
    if spaces.categories:
        choice = (facts.action > 0).astype(np.int32)
        allowed = np.ones((*choice.shape[:2], 3), np.float32)
        widened = {
            name: np.concatenate([allowed[: len(obs)].reshape(*obs.shape[:-1], 3), obs], -1)
            for name, obs in (("obs", facts.obs), ("next_obs", facts.next_obs))
        }
        resume = np.concatenate([allowed[0], facts.resume_obs], -1)
        facts = facts._replace(action=choice, resume_obs=resume, **widened)
    if configs[0].recorded:
        facts = facts._replace(costs=facts.action**2)
    facts = facts._replace(truncated=np.arange(100)[:, None] % 50 == np.full((1, 2), 49))
    states = [about_to_choose(learner.init(c, spaces, jax.random.key(0))) for c in configs]
    stacked = jax.tree.map(lambda *x: jnp.stack([jnp.asarray(y) for y in x]), *configs)
    prepare = jax.vmap(lambda c, s: preparation.prepare(c, spaces, s, facts))
    _, together, _ = prepare(stacked, jax.tree.map(lambda *x: jnp.stack(x), *states))
    for place, (config, state) in enumerate(zip(configs, states, strict=True)):
        _, alone, _ = preparation.prepare(config, spaces, state, facts)
        assert float(alone.trace.own) > 0
        for name, found in together.trace._asdict().items():
            expected = float(getattr(alone.trace, name))
            tolerance = 1e-4 * float(alone.trace.own)  # a product may be a small difference
            assert float(found[place]) == pytest.approx(expected, rel=1e-4, abs=tolerance), name


def about_to_choose(state: TrainState) -> TrainState:
    return state._replace(trace=state.trace._replace(undecided=jnp.int32(1)))


def test_advantages_and_targets_are_those_of_the_adapted_lambda() -> None:
    config = config_with()
    state = started(config)
    for seed in range(30):
        before = state
        batch, state, metrics = preparation.prepare(config, BOX, before, rollout(seed, config, 2))
    adapted = float(metrics["lambda"])
    assert adapted > 0.95
    fixed = dataclasses.replace(config, gae_lambda=adapted, adaptive_lambda=False)
    same, _, other = preparation.prepare(
        fixed, BOX, before._replace(trace=None), rollout(29, config, 2)
    )
    np.testing.assert_allclose(batch.advantage, same.advantage, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(batch.value_target, same.value_target, rtol=1e-4, atol=1e-5)
    assert "lambda" not in other


def test_the_whole_update_adapts_as_the_separate_programs_do() -> None:
    config = config_with(epochs=2)
    state, facts = started(config), rollout(0, config, 2)
    state = about_to_choose(state)
    _, prepared, _ = preparation.prepare(config, BOX, state, facts)
    whole, _ = learner.update(config, BOX, state, facts, Networks(ORDER, ORDER))
    assert float(prepared.trace.own) > 0
    for name in prepared.trace._fields:
        expected, found = (float(getattr(x.trace, name)) for x in (prepared, whole))
        assert found == pytest.approx(expected, rel=1e-4), name


def test_in_a_short_run_lambda_and_policy_do_not_wait() -> None:
    config = config_with()
    state = started(config)
    assert start_trace(config, state, 300) is state
    short = start_trace(config, state, 299)
    assert float(short.trace.gae_lambda) == pytest.approx(0.9)
    assert int(short.trace.undecided) == 0
    resumed = state._replace(iteration=jnp.int32(1))
    assert start_trace(config, resumed, 299) is resumed
    fixed = config_with(adaptive_lambda=False)
    assert start_trace(fixed, started(fixed), 10).trace is None


def test_a_lambda_that_is_given_is_fixed() -> None:
    assert make_config("apo").adapts_lambda
    assert not make_config("apo", gae_lambda=0.9).adapts_lambda
    assert not make_config("atrpo", "paper").adapts_lambda
    assert not make_config("ppo").adapts_lambda
    assert make_config("ppo", adaptive_lambda=True).adapts_lambda
    both = make_config("apo", gae_lambda=0.8, adaptive_lambda=True)
    assert (both.adapts_lambda, both.gae_lambda) == (True, 0.8)


def test_a_fixed_lambda_keeps_nothing() -> None:
    config = config_with(adaptive_lambda=False)
    assert init_trace(config) is None
    assert init_trace(config_with(rollout_steps=99)) is None  # no room for longer traces
    assert init_trace(config_with(rollout_steps=100)) is not None
    assert init_trace(paper_config("ppo")) is None
    assert with_current_lambda(config, None) is config
    assert learner.init(config, BOX, jax.random.key(0)).trace is None
