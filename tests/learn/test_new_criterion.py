"""A new criterion is one more function and one entry in a table; nothing else changes."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import numpy as np
import pytest

from longrun.learning.envs.spaces import Spaces
from longrun.learning.learn import config_pytree, learner
from longrun.learning.learn.acting import act
from longrun.learning.learn.criteria import CRITERIA, Criterion, Targets, Values
from longrun.learning.learn.types import CriterionState, Networks, Rollout
from longrun.learning.options.config import Clipped, Config


@dataclass(frozen=True, kw_only=True)
class Myopic(Config):
    """Only the next reward counts."""


@dataclass(frozen=True, kw_only=True)
class MyopicConfig(Myopic, Clipped):
    """A myopic PPO."""


def myopic_targets(
    config: Config, state: CriterionState, rollout: Rollout, values: Values
) -> Targets:
    return Targets(rollout.reward - values.here, rollout.reward)


def test_a_new_criterion_is_an_entry_in_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    myopic = Criterion(lambda config, state, *_: state, myopic_targets)
    monkeypatch.setitem(CRITERIA, Myopic, myopic)
    config_pytree.register(MyopicConfig)
    sizes = {"num_envs": 4, "rollout_steps": 8, "minibatch_size": 16, "hidden_sizes": (8,)}
    config = MyopicConfig(**sizes, epochs=20, learning_rate=0.02)
    spaces = Spaces(1, 1, (2,))
    rng = np.random.default_rng(0)
    obs = rng.normal(size=(8, 4, 1)).astype(np.float32)
    action = rng.integers(2, size=(8, 4, 1)).astype(np.int32)
    ended = np.zeros((8, 4), bool)
    reward = (action[..., 0] == 1).astype(np.float32)
    rollout = Rollout(obs, action, reward, obs, ended, ended, obs[0])
    orders = np.stack([rng.permutation(32) for _ in range(20)]).astype(np.int32)
    state = learner.init(config, spaces, jax.random.key(0))
    after, metrics = learner.update(config, spaces, state, rollout, Networks(orders, orders))
    assert float(metrics["value_loss"]) < 0.2  # the value predicts the next reward
    actions = act(config.acting, spaces, after, obs.reshape(32, 1), None)
    assert (np.asarray(actions) == 1).mean() > 0.9
