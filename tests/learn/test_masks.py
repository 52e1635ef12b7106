"""Action masks: the policy never takes, learns from or reports a forbidden choice."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces as gym_spaces

from longrun import APO, EnvironmentFailure
from longrun.learning.envs.flat_spaces import row_writer
from longrun.learning.envs.native.to_gymnasium import as_gymnasium
from longrun.learning.envs.numpy_policy import FORBIDDEN, NumpyPolicy, draw_noise
from longrun.learning.envs.spaces import Spaces, describe, form_of
from longrun.learning.learn import learner
from longrun.learning.learn.acting import act, policy_outputs
from longrun.learning.learn.distributions import distribution_of
from longrun.learning.learn.types import Policy
from longrun.learning.options.acting import Acting
from longrun.learning.train.host.replica import flat_weights
from paper_config import paper_config

TINY: dict[str, Any] = {
    "num_envs": 2,
    "rollout_steps": 16,
    "minibatch_size": 16,
    "epochs": 2,
    "hidden_sizes": (4,),
    "num_workers": 0,
}
SPACES = Spaces(observation_size=8, action_size=2, categories=(3, 2), masked=True)


class Counter(gymnasium.Env[Any, Any]):
    """Pays the chosen number; the largest that the mask allows changes from step to step."""

    observation_space = gym_spaces.Dict(
        {"observation": gym_spaces.Box(0, 1, (2,)), "action_mask": gym_spaces.MultiBinary(3)}
    )
    action_space = gym_spaces.Discrete(3)
    allow_nothing = False

    def _observe(self) -> dict[str, Any]:
        mask = np.zeros(3, np.int8) if self.allow_nothing else np.int8([1, 1, self.steps % 2])
        return {"observation": np.float32([1, 0]), "action_mask": mask}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        return self._observe(), {}

    def step(self, action: Any) -> Any:
        assert self._observe()["action_mask"][action], "a forbidden choice"
        self.steps += 1
        return self._observe(), float(action), False, False, {}


class Dead(Counter):
    allow_nothing = True

    def step(self, action: Any) -> Any:
        return self._observe(), 0.0, False, False, {}


def test_the_mask_is_the_first_part_of_a_row() -> None:
    found = describe(Counter())
    assert found == Spaces(5, 1, (3,), masked=True)
    assert (found.mask_size, found.feature_size, found.policy_outputs) == (3, 2, 3)


@pytest.mark.parametrize("order", [("action_mask", "observation"), ("observation", "action_mask")])
def test_the_order_of_a_dicts_keys_does_not_matter(order: tuple[str, str]) -> None:
    parts = {"observation": gym_spaces.Box(0, 9, (3,)), "action_mask": gym_spaces.MultiBinary(2)}
    space = gym_spaces.Dict([(key, parts[key]) for key in order])  # a list keeps its order
    row = np.zeros(5, np.float32)
    observation = {"observation": np.float32([7, 8, 9]), "action_mask": np.int8([1, 0])}
    row_writer(form_of(space))(observation, row)
    assert row.tolist() == [1, 0, 7, 8, 9]


def test_a_mask_of_another_size_is_refused() -> None:
    env = Counter()
    env.action_space = gym_spaces.Discrete(4)
    with pytest.raises(ValueError, match="action_mask has 3 entries and the action space is Disc"):
        describe(env)


def test_an_agent_learns_a_gymnasium_environment_with_masks() -> None:
    agent = APO(Counter, preset="paper", **TINY, learning_rate=0.03).learn(40 * 32)
    report = agent.evaluate(200, warmup=0)  # an assertion in the environment checks every choice
    assert report.average_reward == 1.5  # 1 and 2 alternately
    best = {"observation": [1.0, 0.0], "action_mask": [1, 1, 1]}
    assert agent.predict(best)[0] == 2
    assert agent.predict(best | {"action_mask": [1, 0, 0]})[0] == 0
    middle = best | {"action_mask": [0, 1, 0]}
    drawn = [agent.predict(middle, deterministic=False)[0] for _ in range(20)]
    assert set(drawn) == {1}


def test_a_mask_that_forbids_everything_stops_the_run() -> None:
    message = r"mask of replica 0 \(seed 0\) forbids every choice"
    with pytest.raises(EnvironmentFailure, match=message):
        APO(Dead, **TINY).learn(32)


def random_rows(n: int) -> np.ndarray:
    """Observation rows whose masks allow a choice of each component."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(n, 8)).astype(np.float32)
    rows[:, :5] = rng.random((n, 5)) < 0.5
    rows[np.arange(n), rng.integers(3, size=n)] = 1
    rows[np.arange(n), 3 + rng.integers(2, size=n)] = 1
    return rows


def test_numpy_and_jax_take_the_same_allowed_actions() -> None:
    config = paper_config("apo", hidden_sizes=(6,))
    state = learner.init(config, SPACES, jax.random.key(0))
    rows = random_rows(4000)
    numpy_policy = NumpyPolicy(Acting((6,)), SPACES, flat_weights(state))
    noise = draw_noise(np.random.default_rng(1), SPACES, len(rows))
    noise[:50], noise[50:100] = 0.0, np.nextafter(np.float32(1), np.float32(0))  # both extremes
    allowed = np.split(rows[:, :5], [3], axis=1)
    for actions in (
        numpy_policy.act(rows, None),
        numpy_policy.act(rows, noise),
        np.asarray(act(config.acting, SPACES, state, jnp.asarray(rows), jax.random.key(2))),
        np.asarray(act(config.acting, SPACES, state, jnp.asarray(rows), None)),
    ):
        for i, mask in enumerate(allowed):
            assert np.take_along_axis(mask, actions[:, i, None], axis=1).all()
    np.testing.assert_array_equal(
        numpy_policy.act(rows, None), act(config.acting, SPACES, state, jnp.asarray(rows), None)
    )


def test_forbidden_choices_have_no_probability_no_entropy_and_no_gradient() -> None:
    policy = Policy(((jnp.zeros((1, 3)), jnp.array([1.0, 2.0, 3.0])),), jnp.zeros(0))
    mask = jnp.array([1.0, 1.0, 0.0])
    spaces = Spaces(4, 1, (3,), masked=True)
    distribution = distribution_of(spaces)
    look = partial(policy_outputs, paper_config("apo").acting, spaces)

    def log_prob(bias: jax.Array) -> jax.Array:
        changed = policy._replace(layers=((policy.layers[0][0], bias),))
        outputs = look(changed, jnp.zeros(1), mask)
        return distribution.log_prob(outputs, policy.log_std, jnp.array([1]))

    outputs = look(policy, jnp.zeros(1), mask)
    assert outputs.tolist() == [1, 2, FORBIDDEN]
    p = np.exp([1, 2]) / np.exp([1, 2]).sum()
    assert float(log_prob(policy.layers[0][1])) == pytest.approx(np.log(p[1]))
    entropy = distribution.entropy(outputs, policy.log_std)
    assert float(entropy) == pytest.approx(-(p * np.log(p)).sum())
    np.testing.assert_allclose(jax.grad(log_prob)(policy.layers[0][1]), [-p[0], p[0], 0], atol=1e-6)
    other = distribution.kl(outputs, policy.log_std, outputs, policy.log_std)
    assert float(other) == 0


def test_a_native_environment_learns_on_the_host_too() -> None:
    agent = APO(lambda: as_gymnasium("jax:criss-cross", regime="IL"), **TINY).learn(64)
    assert agent.spaces.masked
    assert agent.evaluate(100).average_reward < 0
