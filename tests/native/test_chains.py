"""Batching, time limits and resets of JAX-native environments."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from probes import Choice, Count

from longrun.learning.envs.native import batching as chains
from longrun.learning.learn import learner
from longrun.learning.options.config_options import make_config
from longrun.learning.train.device import program as device


def walk(env: Count, steps: int, count: int = 4) -> tuple[chains.Chains, Any]:
    """The chains at the end, and facts [steps, count] with the observations acted on."""
    spares = chains.spare_starts(env, jax.random.key(7), count)

    def one(running: chains.Chains, key: jax.Array) -> Any:
        after, facts = chains.step(env, key, running, jnp.full((count, 1), 0.25), spares)
        return after, (running.obs, facts)

    @jax.jit
    def whole() -> Any:
        start = chains.start(env, jax.random.key(0), count)
        return jax.lax.scan(one, start, jax.random.split(jax.random.key(1), steps))

    return whole()


@pytest.mark.parametrize("costly", [False, True])
def test_a_reset_does_not_replace_the_successor(costly: bool) -> None:
    _, (obs, facts) = walk(Count(end=5, costly_reset=costly), 12)
    obs, successor = obs[..., 0], facts.next_obs[..., 0]
    np.testing.assert_array_equal(successor, obs + 1)  # the count continues up to the end
    ended = np.zeros((12, 4), bool)
    ended[[4, 9]] = True
    np.testing.assert_array_equal(facts.terminated, ended)
    assert not facts.truncated.any()
    assert (np.asarray(obs)[[5, 10]] % 100 == 0).all()  # and the chain continues from a start
    assert (np.asarray(facts.reward) == 0.25).all()


def test_a_time_limit_truncates_and_starts_a_new_episode() -> None:
    last, (_, facts) = walk(Count(time_limit=3), 8)
    ended = np.zeros((8, 4), bool)
    ended[[2, 5]] = True
    np.testing.assert_array_equal(facts.truncated, ended)
    assert not facts.terminated.any()
    np.testing.assert_array_equal(
        facts.next_obs[..., 0] % 100, np.tile([1, 2, 3] * 3, (4, 1)).T[:8]
    )
    assert last.age.tolist() == [2] * 4


def test_a_termination_at_the_time_limit_is_a_termination() -> None:
    _, (_, facts) = walk(Count(time_limit=5, end=5), 5)
    assert facts.terminated[-1].all()
    assert not facts.truncated.any()


def test_starts_differ_between_episodes_except_within_a_rollout_with_costly_resets() -> None:
    _, (obs, _) = walk(Count(time_limit=2), 40, count=3)
    assert all(len(set(column)) > 3 for column in np.asarray(obs)[2::2, :, 0].T)
    _, (obs, _) = walk(Count(time_limit=2, costly_reset=True), 40, count=3)
    assert all(len(set(column)) == 1 for column in np.asarray(obs)[2::2, :, 0].T)


def test_an_environment_that_never_ends_is_never_reset() -> None:
    last, (obs, facts) = walk(Count(), 300)
    assert (facts.next_obs[-1, :, 0] - obs[0, :, 0]).tolist() == [300] * 4
    assert not facts.truncated.any()
    assert last.age.tolist() == [0] * 4


def rollout_of(env: Any, explore: bool = True, **options: Any) -> Any:
    config = make_config("apo", num_envs=6, rollout_steps=40, minibatch_size=40, **options)
    learned = learner.init(config, env.spaces, jax.random.key(0))
    start = chains.start(env, jax.random.key(1), 6)
    collect = jax.jit(partial(device.collect, env, config, steps=40, explore=explore))
    rollout, last = collect(learned, start, jax.random.key(2))
    return rollout, last


def test_a_rollout_holds_facts() -> None:
    rollout, last = rollout_of(Count(time_limit=7))
    assert rollout.obs.shape == rollout.next_obs.shape == (40, 6, 1)
    np.testing.assert_array_equal(rollout.resume_obs, last.obs)
    going_on = ~np.asarray(rollout.truncated)[:-1]
    np.testing.assert_array_equal(
        np.asarray(rollout.next_obs)[:-1][going_on], np.asarray(rollout.obs)[1:][going_on]
    )


@pytest.mark.parametrize("bounds", ["clip", "raw"])
def test_bounds_apply_to_what_environments_get_and_not_to_the_rollout(
    bounds: str,
) -> None:
    rollout, _ = rollout_of(Count(), action_bounds=bounds, initial_log_std=0.0)
    drawn = np.asarray(rollout.action)[..., 0]
    assert drawn.min() < -1
    assert drawn.max() > 0.5
    given = drawn.clip(-1, 0.5) if bounds == "clip" else drawn
    np.testing.assert_array_equal(rollout.reward, given)


def test_the_deterministic_policy_is_the_networks_mode() -> None:
    rollout, _ = rollout_of(Count(), explore=False)
    again, _ = rollout_of(Count(), explore=False)
    np.testing.assert_array_equal(rollout.action, again.action)
    assert abs(np.asarray(rollout.action)).max() < 0.5  # no noise of standard deviation 1


def test_a_masked_choice_is_never_sampled_and_others_are() -> None:
    forbidden, _ = rollout_of(Choice("best"))
    assert set(np.asarray(forbidden.action).ravel()) == {0, 1}
    free, _ = rollout_of(Choice())
    assert set(np.asarray(free.action).ravel()) == {0, 1, 2}
