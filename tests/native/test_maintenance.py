"""The maintenance environment against the exact model of the same name."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from longrun.exact.tabular.models import maintenance
from longrun.learning.envs.native.control import Maintenance
from longrun.learning.envs.queueing.policies import average_reward
from longrun.tabular import evaluate

ARGUMENTS = (3, 0.25, 0.01, 7.0, 90.0)


@pytest.mark.parametrize("env", [Maintenance(), Maintenance(*ARGUMENTS), Maintenance(1, 1.0, 0.0)])
def test_the_law_is_the_exact_one(env: Maintenance) -> None:
    mdp = maintenance(**{name: getattr(env, name) for name in env.__dataclass_fields__})
    cuts = np.unique(np.concatenate([[0.0], env.below.ravel().clip(0, 1), [1.0]]))
    weights, uniforms = np.diff(cuts), jnp.array((cuts[1:] + cuts[:-1]) / 2, jnp.float32)
    after = jax.jit(jax.vmap(env.after, (None, None, 0)))
    for state in range(mdp.num_states):
        allowed = np.asarray(env.mask(jnp.array(state)))
        assert allowed.tolist() == mdp.available[state].tolist()
        for action in np.flatnonzero(allowed):
            found, rewards = after(jnp.array(state), jnp.array([action]), uniforms)
            row = np.bincount(np.asarray(found), weights, mdp.num_states)
            exact = mdp.kernel[[action * mdp.num_states + state]].toarray()[0]
            np.testing.assert_allclose(row, exact, atol=1e-7)
            assert np.unique(rewards).tolist() == [mdp.rewards[state, action]]


def test_a_machine_in_service_or_repair_cannot_be_serviced() -> None:
    """The action has no effect then: a repair does not become a service."""
    env = Maintenance(levels=2)
    for state in (3, 4):
        after, reward = env.after(jnp.array(state), jnp.array([1]), jnp.array(0.9))
        assert (int(after), float(reward)) == (state, 0)
    assert np.asarray(env.observation(jnp.array(4))).tolist() == [1, 0, 0, 0, 0, 0, 1]


def test_it_starts_as_new() -> None:
    state, obs = Maintenance().reset(jax.random.key(0))
    assert int(state) == 0 and np.asarray(obs).tolist() == [1, 1, 1, 0, 0, 0, 0, 0, 0, 0]


def test_it_earns_what_the_exact_model_says() -> None:
    env = Maintenance(*ARGUMENTS)
    policy = np.array([0, 0, 0, 1, 0, 0])
    found = average_reward(env, lambda s: jnp.array(policy)[s][None], steps=4000, chains=256)
    exact = evaluate(maintenance(*ARGUMENTS), policy).gain
    assert abs(found.mean - exact) < 2 * found.half_width < 0.01


def test_bad_arguments_are_refused_by_the_model() -> None:
    with pytest.raises(ValueError, match=r"repair_time=0\.5 is less than a step"):
        Maintenance(repair_time=0.5)
