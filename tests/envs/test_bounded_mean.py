"""Policies with a bounded mean, as in the authors' code."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces as gym_spaces

from longrun import APO
from longrun.learning.algorithms import agent_of
from longrun.learning.envs.numpy_policy import NumpyPolicy
from longrun.learning.envs.spaces import Spaces
from longrun.learning.learn import learner
from longrun.learning.learn.acting import act, policy_outputs
from longrun.learning.learn.types import Policy
from longrun.learning.options.acting import Acting
from longrun.learning.options.config_options import make_config
from longrun.learning.train.host.replica import flat_weights
from tiny_envs import ITERATION, TINY, Drift, Sampler, bits

LOW, HIGH = np.array([-0.5, 0.0], np.float32), np.array([0.5, 3.0], np.float32)
UNEVEN = Spaces(2, 2, (), tuple(LOW.tolist()), tuple(HIGH.tolist()))
FORGIVING = partial(Drift, limit=9, wall=1.5, forgiving=True)


def bounded_policy(seed: int = 0) -> tuple[Any, Any]:
    config = make_config("ppo-authors", "paper", hidden_sizes=(8,))
    state = learner.init(config, UNEVEN, jax.random.key(seed))
    rng = np.random.default_rng(seed)
    params = jax.tree.map(lambda x: jnp.asarray(rng.normal(0, 0.5, x.shape), x.dtype), state.params)
    return config, state._replace(params=params)


def test_numpy_and_jax_agree_on_a_bounded_mean() -> None:
    config, state = bounded_policy()
    obs = np.random.default_rng(1).normal(0, 2, (500, 2)).astype(np.float32)
    numpy_policy = NumpyPolicy(config.acting, UNEVEN, flat_weights(state))
    mine = numpy_policy.act(obs, None)
    np.testing.assert_allclose(
        mine, act(config.acting, UNEVEN, state, jnp.asarray(obs), None), rtol=1e-5, atol=1e-6
    )
    assert ((mine >= LOW) & (mine <= HIGH)).all()
    assert np.ptp(mine, axis=0).min() > 0.1
    free = NumpyPolicy(Acting((8,)), UNEVEN, flat_weights(state)).act(obs, None)
    np.testing.assert_allclose(mine, [0, 1.5] + np.array([0.5, 1.5]) * np.tanh(free), rtol=1e-5)


def test_a_gradient_flows_through_the_bounded_mean() -> None:
    policy = Policy(((jnp.zeros((2, 2)), jnp.array([0.0, np.log(3) / 2])),), jnp.zeros(2))
    config = make_config("ppo-authors", "paper")

    def means(bias: jax.Array) -> jax.Array:
        changed = policy._replace(layers=((policy.layers[0][0], bias),))
        return policy_outputs(config.acting, UNEVEN, changed, jnp.zeros(2), jnp.zeros(0))

    # reach * (1 - tanh^2): 1/2 and 3/2 * 3/4
    slope = jnp.diagonal(jax.jacobian(means)(policy.layers[0][1]))
    np.testing.assert_allclose(slope, [0.5, 1.125], rtol=1e-5)


def test_a_bounded_mean_is_learned_and_resumed_bit_identically(tmp_path) -> None:
    kind = agent_of("apo-authors")
    options = TINY | {"preset": "paper", "action_bounds": "raw"}
    whole = kind(FORGIVING, num_workers=0, **options).learn(4 * ITERATION)
    kind(FORGIVING, num_workers=0, **options).learn(2 * ITERATION).save(tmp_path)
    loaded = kind.load(tmp_path, FORGIVING, num_workers=2)
    assert loaded.config.acting.bounded_mean
    loaded.learn(2 * ITERATION)
    assert bits(loaded.snapshot) == bits(whole.snapshot)
    assert abs(whole.predict(np.array([9.0, 9.0], np.float32))[0]) <= 0.5


@pytest.mark.parametrize(
    "space",
    [
        gym_spaces.Box(-np.inf, np.inf, (1,), np.float32),
        gym_spaces.Box(-1, np.inf, (1,), np.float32),
    ],
)
def test_a_bounded_mean_needs_bounds(space) -> None:
    env = partial(Sampler, gym_spaces.Box(-1, 1, (2,)), space)
    with pytest.raises(ValueError, match=r"bounded mean needs finite .* has low="):
        agent_of("apo-authors")(env, preset="paper")
    APO(env)
