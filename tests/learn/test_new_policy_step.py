"""A new policy step is one more function and one entry in a table; nothing else changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import pytest

from longrun.learning.envs.spaces import Spaces
from longrun.learning.learn import config_pytree, learner
from longrun.learning.learn.acting import act, policy_outputs
from longrun.learning.learn.distributions import distribution_of
from longrun.learning.learn.minibatches import Samples, Task
from longrun.learning.learn.policy_steps import POLICY_STEPS, PolicyStep
from longrun.learning.learn.types import Batch, Metrics, Networks, Policy, Rollout
from longrun.learning.options.config import Config, Discounted


@dataclass(frozen=True, kw_only=True)
class Plain(Config):
    """The plain policy gradient, without a trust region."""


@dataclass(frozen=True, kw_only=True)
class PlainConfig(Discounted, Plain):
    """A discounted actor and critic."""


def plain_task(
    config: Plain, spaces: Spaces, policy: Policy, opt_state: Any, batch: Batch, shuffles: jax.Array
) -> Task:
    def loss(policy: Policy, samples: Samples) -> tuple[jax.Array, Metrics]:
        features, mask, action, advantage = samples
        outputs = policy_outputs(config.acting, spaces, policy, features, mask)
        log_prob = distribution_of(spaces).log_prob(outputs, policy.log_std, action)
        surrogate = (log_prob * advantage).mean()
        return -surrogate, {"policy_loss": -surrogate}

    samples = (batch.features, batch.mask, batch.action, batch.advantage)
    return Task(loss, policy, opt_state, samples, shuffles)


def test_a_new_policy_step_is_an_entry_in_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(POLICY_STEPS, Plain, PolicyStep(minibatch_task=plain_task))
    config_pytree.register(PlainConfig)
    sizes = {"num_envs": 4, "rollout_steps": 8, "minibatch_size": 16, "hidden_sizes": (8,)}
    config = PlainConfig(**sizes, epochs=20, learning_rate=0.02, discount=0.0)
    spaces = Spaces(1, 1, (2,))
    rng = np.random.default_rng(0)
    obs = rng.normal(size=(8, 4, 1)).astype(np.float32)
    action = rng.integers(2, size=(8, 4, 1)).astype(np.int32)
    ended = np.zeros((8, 4), bool)
    reward = np.where(action[..., 0] == 1, 1.0, -1.0).astype(np.float32)
    rollout = Rollout(obs, action, reward, obs, ended, ended, obs[0])
    orders = np.stack([rng.permutation(32) for _ in range(20)]).astype(np.int32)
    state = learner.init(config, spaces, jax.random.key(0))
    after, metrics = learner.update(config, spaces, state, rollout, Networks(orders, orders))
    assert {"policy_loss", "value_loss"} <= set(metrics)
    assert (
        np.asarray(act(config.acting, spaces, after, obs.reshape(32, 1), None)) == 1
    ).mean() > 0.9
