"""What changes over a run: lambda, from traces of a whole rollout to those of `gae_lambda`."""

from __future__ import annotations

import csv
import dataclasses
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from longrun import APO, PPO
from longrun.agent import Agent
from longrun.config import Config
from longrun.envs.spaces import Spaces
from longrun.learn import learner, preparation
from longrun.learn.schedules import with_longer_traces
from longrun.learn.types import Networks, Rollout
from longrun.train.job import make_job
from paper_config import paper_config
from tiny_envs import TINY, bits

BOX = Spaces(3, 1, (), (-1.0,), (1.0,))
STEPS = 100


def config_with(**options: Any) -> Config:
    sizes = {"num_envs": 2, "rollout_steps": STEPS, "hidden_sizes": (4,), "minibatch_size": 50}
    usual = {"gae_lambda": 0.9, "lambda_decay": True, "scale_rewards": True}
    return paper_config("apo", **sizes | usual | options)


def rollout(config: Config) -> Rollout:
    rng = np.random.default_rng(0)
    shape = config.rollout_steps, config.num_envs
    obs = rng.normal(size=(shape[0] + 1, shape[1], 3)).astype(np.float32)
    action, reward = rng.normal(size=(2, *shape)).astype(np.float32)
    never = np.zeros(shape, bool)
    return Rollout(obs[:-1], action[..., None], reward, obs[1:], never, never, obs[-1])


def test_traces_fall_from_a_rollout_to_those_of_gae_lambda_by_the_same_factor() -> None:
    config = config_with(rollout_steps=1000)
    for run, end in ((5000, 100), (1000, 100), (300, 30)):  # iterations
        when = (0, end // 2, end, end + 1, 10 * end)
        found = [with_longer_traces(config, jnp.int32(i), run).gae_lambda for i in when]
        lengths = 1 / (1 - np.array(found))
        np.testing.assert_allclose(lengths, [1000, 100, 10, 10, 10], rtol=1e-3)


@pytest.mark.parametrize(
    ("gae_lambda", "steps", "start"),
    [(0.0, 100, 0.99), (1.0, 100, 1.0), (0.999, 100, 0.999), (0.9, 5, 0.9)],
    ids=["no trace", "an endless trace", "longer than a rollout", "a rollout of few steps"],
)
def test_lambda_is_never_below_gae_lambda(gae_lambda: float, steps: int, start: float) -> None:
    config = config_with(gae_lambda=gae_lambda, rollout_steps=steps, minibatch_size=5)
    found = [float(with_longer_traces(config, i, 2000).gae_lambda) for i in (0, 30, 100, 500)]
    assert found == sorted(found, reverse=True)
    assert (found[0], found[-1]) == pytest.approx((start, gae_lambda), abs=1e-6)


def test_a_fixed_lambda_has_no_schedule() -> None:
    config = config_with(lambda_decay=False)
    assert with_longer_traces(config, jnp.int32(0), 1000) is config
    state = learner.init(config, BOX, jax.random.key(0))
    assert "lambda" not in preparation.prepare(config, BOX, state, rollout(config), 1000)[2]


def test_advantages_and_targets_are_those_of_the_lambda_of_the_iteration() -> None:
    """The scale of rewards keeps the decay of `gae_lambda`, so that values keep their unit."""
    config = config_with()
    state, facts = learner.init(config, BOX, jax.random.key(0)), rollout(config)
    state = state._replace(iteration=jnp.int32(50))
    batch, long_state, metrics = preparation.prepare(config, BOX, state, facts, 1000)
    usual, usual_state, _ = preparation.prepare(config, BOX, state, facts, 100)
    assert float(metrics["lambda"]) == pytest.approx(1 - 1 / np.sqrt(1000))
    # Without a scale a fixed lambda of the same size gives the same.
    plain = dataclasses.replace(config, scale_rewards=False)
    fixed = dataclasses.replace(plain, gae_lambda=float(metrics["lambda"]), lambda_decay=False)
    one, _, _ = preparation.prepare(plain, BOX, state, facts, 1000)
    other, _, _ = preparation.prepare(fixed, BOX, state, facts, 1000)
    np.testing.assert_allclose(one.advantage, other.advantage, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(one.value_target, other.value_target, rtol=1e-4, atol=1e-5)
    assert float(jnp.abs(batch.advantage - usual.advantage).max()) > 0.1
    assert bits(long_state.criterion) == bits(usual_state.criterion)


@pytest.mark.parametrize("options", [{}, {"recompute_advantages": True, "joint_optimizer": True}])
def test_the_whole_update_has_the_same_lambda(options: dict[str, Any]) -> None:
    """Also before each later pass: advantages of lambda 1 need no values but the last."""
    config = config_with(epochs=2, **options)
    state, facts = learner.init(config, BOX, jax.random.key(0)), rollout(config)
    order = np.arange(2 * STEPS, dtype=np.int32)[None].repeat(2, 0)
    orders = Networks(order, order)
    fixed = dataclasses.replace(config, lambda_decay=False, gae_lambda=0.99, scale_rewards=False)
    config = dataclasses.replace(config, scale_rewards=False)
    found, metrics = learner.update(config, BOX, state, facts, orders, 0.0, 1000)
    expected, _ = learner.update(fixed, BOX, state, facts, orders, 0.0, 1000)
    assert float(metrics["lambda"]) == pytest.approx(0.99)
    for one, other in zip(*map(jax.tree.leaves, (found.params, expected.params)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", [APO, PPO])
def test_a_run_starts_with_long_traces_and_another_one_does_not(
    kind: type[Agent], tmp_path: Path
) -> None:
    """Iterations of earlier runs count."""
    options = TINY | {"lambda_decay": True, "gae_lambda": 0.5}
    agent = kind("EndlessDrift-v0", num_workers=0, **options)
    steps = agent.config.steps_per_iteration
    agent.learn(20 * steps, log_dir=tmp_path / "run", eval_every=0)
    agent.learn(20 * steps, log_dir=tmp_path / "run", eval_every=0)
    with (tmp_path / "run" / "metrics.csv").open(newline="") as file:
        found = [float(row["lambda"]) for row in csv.DictReader(file)]
    longest = 1 - 1 / agent.config.rollout_steps
    middle = 1 - np.sqrt(0.5 * (1 - longest))
    assert found[:3] == pytest.approx([longest, middle, 0.5], abs=1e-5)
    assert found[3:] == pytest.approx([0.5] * 37)


def test_the_length_of_a_run_is_that_of_the_whole_run_where_it_is_resumed() -> None:
    """`begins` is where the run began, not where it was resumed."""
    job = make_job([config_with()], [0], 40 * 2 * STEPS, done=10)
    assert job.length == 40
    assert [job.progress(i) for i in (10, 20)] == [0, 0.25]
