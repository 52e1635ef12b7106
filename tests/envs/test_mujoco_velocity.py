"""The velocity tasks: speed as a cost, in Gymnasium's steps and in the fast ones."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

from longrun import APO
from longrun.cli import main
from longrun.learning.envs.factories import env_factory, make_env
from longrun.learning.envs.mujoco_velocity import IN_THE_PLANE, THRESHOLDS
from longrun.learning.envs.stepper import GymnasiumStepper, make_stepper
from tiny_envs import TINY

STEPS = 60


@pytest.mark.parametrize("task", THRESHOLDS)
def test_the_cost_is_1_above_the_threshold(task):
    env = gymnasium.make(f"{task}Velocity-v5")
    env.reset(seed=1)
    env.action_space.seed(1)
    seen = set()
    for _ in range(STEPS):
        info = env.step(env.action_space.sample())[4]
        speed = info["x_velocity"]
        if task in IN_THE_PLANE:
            speed = np.hypot(speed, info["y_velocity"])
        assert info["cost"] == (speed > THRESHOLDS[task])
        seen.add(info["cost"])
    assert seen <= {0.0, 1.0}


@pytest.mark.parametrize("task", THRESHOLDS)
def test_fast_steps_give_the_same_cost(task):
    """With a threshold that random actions pass about half of the time."""
    fast_env, slow_env = (gymnasium.make(f"{task}Velocity-v5") for _ in range(2))
    for env in (fast_env, slow_env):
        wrapper = env
        while not hasattr(wrapper, "in_plane"):
            wrapper = wrapper.env
        wrapper.threshold = 0.3 if task in IN_THE_PLANE else 0.0
    fast, slow = make_stepper(fast_env, ["cost"]), GymnasiumStepper(slow_env)
    assert not isinstance(fast, GymnasiumStepper)
    rng, size = np.random.default_rng(0), fast_env.observation_space.shape
    rows = np.zeros((2, *size), np.float64)
    fast.reset(3, rows[0])
    slow.reset(3, rows[1])
    costs = []
    for _ in range(STEPS):
        action = rng.uniform(-1, 1, fast_env.action_space.shape).astype(np.float32)
        action *= fast_env.action_space.high
        ends = [fast.step(action, rows[0]), slow.step(action, rows[1])]
        assert ends[0] == ends[1]
        assert fast.info["cost"] == slow.info["cost"]
        costs.append(slow.info["cost"])
        if ends[0][1]:
            fast.reset(4, rows[0])
            slow.reset(4, rows[1])
    assert 0 < np.mean(costs) < 1


def test_other_costs_need_gymnasiums_steps():
    env = gymnasium.make("HalfCheetahVelocity-v5")
    assert isinstance(make_stepper(env, ["x_velocity"]), GymnasiumStepper)
    assert not isinstance(make_stepper(gymnasium.make("HalfCheetah-v5")), GymnasiumStepper)
    assert isinstance(make_stepper(gymnasium.make("HalfCheetah-v5"), ["cost"]), GymnasiumStepper)


def test_a_limit_on_the_speed(tmp_path):
    agent = APO("HopperVelocity-v5", limits={"cost": 0.025}, num_workers=0, **TINY)
    agent.learn(200, log_dir=tmp_path / "run", eval_steps=100)
    assert 0 <= agent.evaluate(200).costs["cost"].rate <= 1
    assert main(["evaluate", str(tmp_path / "run"), "--steps", "100"]) == 0, "no --trust is needed"


def test_the_simulators_own_warnings_are_not_printed(capfd):
    make_env(env_factory("HalfCheetahVelocity-v5"))
    assert "WARNING" not in capfd.readouterr().err
