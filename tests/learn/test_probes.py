"""Small problems with a known best reward rate, which each algorithm must find in seconds."""

from __future__ import annotations

import math
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit

from longrun.learning.agent import Agent
from longrun.learning.algorithms import AGENTS, APO, ATRPO, PPO

QUICK: dict[str, Any] = {
    "num_workers": 0,
    "num_envs": 4,
    "rollout_steps": 64,
    "minibatch_size": 64,
    "epochs": 4,
    "hidden_sizes": (16,),
    "learning_rate": 0.01,
    "preset": "paper",
}
ITERATION = 256

HERE = np.ones(3, np.float32)
"""the constant observation of some of the probes"""

everyone: Any = pytest.mark.parametrize(
    "kind",
    [
        # both criteria and both policy steps are among the others
        pytest.param(kind, id=name, marks=pytest.mark.slow if name in ("ppo", "atrpo") else ())
        for name, kind in AGENTS.items()
    ],
)


class Probe(gymnasium.Env[Any, Any]):
    """Three numbers observed, two actions, no end."""

    observation_space: Any = spaces.Box(-1, 1, (3,), np.float32)
    action_space: Any = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self.begin(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action)
        obs, reward, terminated = self.go(action)
        return obs, reward, terminated, False, {}

    def begin(self) -> Any:
        return HERE

    def go(self, action: Any) -> tuple[Any, float, bool]:
        raise NotImplementedError


class Bandit(Probe):
    """One arm gives 1, the other 1/4."""

    def go(self, action: Any) -> tuple[Any, float, bool]:
        return self.begin(), (0.25, 1.0)[action], False


class Detour(Probe):
    """Stay at home for a reward of 1, or walk two steps for nothing and find 6 at the end.

    In each of the three states action 1 leads on and action 0 leads home. The walk gives
    (0 + 0 + 6) / 3 = 2 per step, the optimal gain. With a one-step horizon staying is optimal.
    """

    def begin(self) -> Any:
        self.place = 0
        return self.observed()

    def observed(self) -> Any:
        return np.eye(3, dtype=np.float32)[self.place]

    def go(self, action: Any) -> tuple[Any, float, bool]:
        reward = ((1.0, 0.0), (0.0, 0.0), (0.0, 6.0))[self.place][action]
        self.place = (self.place + 1) % 3 if action == 1 else 0
        return self.observed(), reward, False


class Ledge(Probe):
    """Every step gives 1. Action 1 falls off the ledge, which terminates the episode."""

    def go(self, action: Any) -> tuple[Any, float, bool]:
        return self.begin(), 1.0, bool(action == 1)


class Safe(Probe):
    """Every step gives 1, and nothing else happens."""

    def go(self, action: Any) -> tuple[Any, float, bool]:
        return self.begin(), 1.0, False


class Aim(Probe):
    """The observation is the target; the cost is the squared distance from half of it."""

    action_space = spaces.Box(-1, 1, (1,), np.float32)

    def begin(self) -> Any:
        self.target = self.np_random.uniform(-1, 1, 3).astype(np.float32)
        return self.target

    def go(self, action: Any) -> tuple[Any, float, bool]:
        miss = float(action[0] - 0.5 * self.target[0])
        return self.begin(), -(miss**2), False


# --- the four algorithms ---------------------------------------------------------------------


def tries_of_action_1(agent: Agent) -> float:
    """Probability of an action under the stochastic policy; 1/2 before learning."""
    actions, _ = agent.predict(np.tile(HERE, (1000, 1)), deterministic=False)
    return float(actions.mean())


@pytest.mark.shipped
@everyone
def test_the_better_arm_is_found(kind: type[Agent]) -> None:
    agent = kind(Bandit, **QUICK)
    assert tries_of_action_1(agent) == pytest.approx(0.5, abs=0.1)
    agent.learn(20 * ITERATION)
    assert tries_of_action_1(agent) > 0.8
    assert agent.predict(HERE) == (1, None)
    assert agent.evaluate(steps=100).average_reward == 1.0


def gain_of_the_stochastic_policy(agent: Agent) -> float:
    """Gain in the detour, from the probabilities of action 1 in each state.

    With probabilities p, q and r of action 1, the three states are visited in the ratio
    1 : p : p q, for (1 - p) + 6 p q r reward.
    """
    draws = 10_000
    obs = np.repeat(np.eye(3, dtype=np.float32), draws, axis=0)
    actions, _ = agent.predict(obs, deterministic=False)
    p, q, r = actions.reshape(3, draws).mean(1)
    return ((1 - p) + 6 * p * q * r) / (1 + p + p * q)


@pytest.mark.parametrize("kind", [APO, ATRPO])
def test_the_average_criterion_takes_the_detour_and_estimates_its_gain(kind: type[Agent]) -> None:
    agent = kind(Detour, gae_lambda=0.9, **QUICK).learn(60 * ITERATION)
    found = agent.evaluate(steps=300)
    assert found.average_reward == 2.0  # ten whole walks in each of ten environments
    assert found.episodes == 0
    assert agent.gain_ == pytest.approx(gain_of_the_stochastic_policy(agent), abs=0.02)


def test_the_gain_is_that_of_the_stochastic_policy() -> None:
    options = QUICK | {"learning_rate": 0.0, "gain_step_size": 0.03}
    agent = APO(Detour, **options).learn(80 * ITERATION)
    # Action 1 half the time: (1/2 + 6/8) / (1 + 1/2 + 1/4) = 5/7, whatever the mode is.
    assert gain_of_the_stochastic_policy(agent) == pytest.approx(5 / 7, abs=0.05)
    assert agent.gain_ == pytest.approx(5 / 7, abs=0.05)


def test_a_myopic_agent_stays_at_home() -> None:
    """With a discount of 0 the agent finds the lower reward rate."""
    agent = PPO(Detour, discount=0.0, **QUICK).learn(30 * ITERATION)
    assert agent.evaluate(steps=300).average_reward == 1.0


# --- spaces ----------------------------------------------------------------------------------


def test_a_continuous_action_follows_the_observation() -> None:
    agent = APO(Aim, entropy_coefficient=0.0, action_bounds="clip", **QUICK).learn(60 * ITERATION)
    targets = np.array([[-0.8, 0, 0], [0.0, 1, 0], [0.8, 0, 1]], np.float32)
    actions, _ = agent.predict(targets)
    assert actions.shape == (3, 1)
    np.testing.assert_allclose(actions[:, 0], [-0.4, 0.0, 0.4], atol=0.15)
    # Always 0 would give minus the variance of half a uniform number: -1/12 = -.083.
    assert agent.evaluate(steps=1000).average_reward > -0.02


MIXED = {
    "Dict": spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Box(-1, 1, (1, 2), np.float32)}),
    "Tuple": spaces.Tuple((spaces.Discrete(2, start=3), spaces.MultiBinary(2))),
    "Discrete": spaces.Discrete(4, start=-1),
    "MultiDiscrete": spaces.MultiDiscrete([2, 2]),
}


class Mixed(Probe):
    """Any observation; the reward is 1 where the second component of the action is 6."""

    def __init__(self, name: str) -> None:
        self.observation_space = MIXED[name]
        self.observation_space.seed(0)
        self.action_space = spaces.MultiDiscrete([2, 3], start=[0, 5])

    def begin(self) -> Any:
        return self.observation_space.sample()

    def go(self, action: Any) -> tuple[Any, float, bool]:
        return self.begin(), float(action[1] == 6), False


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow if n == "Tuple" else ()) for n in MIXED],
)
def test_mixed_observations_and_several_choices_at_once(name: str) -> None:
    agent = APO(Mixed(name), **QUICK).learn(15 * ITERATION)
    assert agent.spaces.observation_size == 4
    for deterministic in (True, False):
        for _ in range(5):
            action, _ = agent.predict(agent.observation_space.sample(), deterministic)
            assert agent.action_space.contains(action)
    assert agent.evaluate(steps=200).average_reward > 0.95


# --- ends and resets -------------------------------------------------------------------------


def test_environments_without_episodes_can_be_evaluated() -> None:
    found = APO(Bandit, **QUICK).evaluate(steps=1000)
    assert (
        found.steps == 4000
    )  # all rewards are equal: an end, not seen so far, may have another one
    assert found.episodes == 0
    assert math.isnan(found.episode_return)
    assert found.average_reward in (0.25, 1.0)
    assert "no episode ended" in str(found)


def test_a_constant_reward_with_terminations_gives_a_warning() -> None:
    with pytest.warns(UserWarning, match="termination='reset'.*reset_cost") as caught:
        APO(Ledge, **QUICK).learn(3 * ITERATION)
    assert len(caught) == 1


@pytest.mark.parametrize("options", [{"reset_cost": 1.0}, {"reset_cost_step_size": 0.2}])
def test_a_reset_cost_teaches_to_avoid_the_termination(options: dict[str, float]) -> None:
    agent = APO(Ledge, termination="reset", **options, **QUICK)  # ... without a warning
    agent.learn(40 * ITERATION)
    assert tries_of_action_1(agent) < 0.05
    assert agent.predict(HERE) == (0, None)
    found = agent.evaluate(steps=100)
    assert (found.average_reward, found.episodes) == (1.0, 0)
    assert agent.gain_ == pytest.approx(1.0, abs=0.02)  # 1/2 at first, net of the cost of 1


def test_time_limits_alone_give_no_warning() -> None:
    def short() -> gymnasium.Env[Any, Any]:
        return TimeLimit(Safe(), 10)

    found = APO(short, **QUICK).learn(2 * ITERATION).evaluate(steps=1000)
    assert (found.average_reward, found.episodes) == (1.0, 10)
    assert (found.episode_return, found.episode_length) == (10.0, 10.0)


def test_a_discounted_agent_needs_no_reset_cost() -> None:
    agent = PPO(Ledge, **QUICK).learn(20 * ITERATION)  # ... nor a warning
    assert tries_of_action_1(agent) < 0.05
    assert agent.predict(HERE) == (0, None)
