"""Gymnasium environments: the ways to name one, and the spaces that are supported."""

from __future__ import annotations

import math
import threading
from functools import cache, partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from longrun import APO
from longrun.learning.envs.factories import env_factory, env_name
from tiny_envs import (
    ENDLESS,
    ITERATION,
    MORTAL,
    TINY,
    Careless,
    Drift,
    Sampler,
    bits,
)

UNIT = spaces.Box(-1, 1, (2,), np.float32)
PUSH = spaces.Box(-0.5, 0.5, (1,), np.float32)


# All ways to name an environment give the same one.


def from_local_class() -> Any:
    class Local(Drift):
        def __init__(self) -> None:
            super().__init__(limit=9, wall=1.5)

    return Local


def from_registry() -> str:
    """Registered in this process only, with a class that no other process can import by name."""

    class Hidden(Drift):
        pass

    gymnasium.register("OnlyHere-v0", Hidden, kwargs={"limit": 9, "wall": 1.5})
    return "OnlyHere-v0"


def from_lambda() -> Any:
    limit, wall = 9, 1.5
    return lambda: Drift(limit=limit, wall=wall)


WAYS: dict[str, Any] = {
    "factory": lambda: MORTAL,
    "lambda": from_lambda,
    "local class": from_local_class,
    "instance": MORTAL,
    "made instance": lambda: gymnasium.make("Drift-v0", limit=9),
    "id": from_registry,
    "wrapped instance": lambda: gymnasium.wrappers.TimeLimit(Drift(wall=1.5), 9),
    "instance with a wrapper of one's own": lambda: Careless(gymnasium.make("Drift-v0"), limit=9),
}


@cache
def learnt() -> Any:
    return bits(APO(MORTAL, num_workers=0, **TINY).learn(ITERATION).state)


@pytest.fixture
def registry(monkeypatch):
    """What a test registers is removed after it."""
    monkeypatch.setattr(gymnasium.envs.registration, "registry", dict(gymnasium.registry))


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_name_an_environment_gives_the_same_learning(way, registry):
    agent = APO(WAYS[way](), num_workers=1, **TINY).learn(ITERATION)
    assert bits(agent.state) == learnt()


def test_an_id_may_name_the_module_that_registers_it():
    assert isinstance(env_factory("tiny_envs:Drift-v0")().unwrapped, Drift)


def test_an_instance_is_copied_and_never_stepped():
    env = Drift(limit=9)
    APO(env, num_workers=0, **TINY).learn(ITERATION).evaluate(20)
    assert env.time == 0
    assert env._np_random is None


def test_a_factory_that_cannot_be_pickled_works_without_workers():
    lock = threading.Lock()

    def factory() -> Drift:
        with lock:
            return Drift(limit=9, wall=1.5)

    agent = APO(factory, num_workers=0, **TINY).learn(ITERATION)
    assert bits(agent.state) == learnt()
    with pytest.raises(ValueError, match=r"cannot be copied to worker processes.*lock"):
        APO(factory, num_workers=2, **TINY).learn(ITERATION)


@pytest.mark.parametrize(
    "env, name",
    [
        ("Drift-v0", "Drift-v0"),
        (Drift(), "Drift"),
        (Drift, "Drift"),
        (MORTAL, "Drift"),
        (from_local_class(), "Local"),
        (gymnasium.wrappers.TimeLimit(Drift(), 5), "Drift"),
    ],
)
def test_environments_have_names(env, name):
    assert env_name(env) == name


def test_a_made_instance_is_called_by_its_id():
    assert env_name(gymnasium.make("Drift-v0")) == "Drift-v0"


@pytest.mark.parametrize("env", [5, None, ["Drift-v0"]])
def test_what_is_not_an_environment_is_refused(env):
    with pytest.raises(ValueError, match=r"env=.* must be an environment id"):
        APO(env)


@pytest.mark.parametrize(
    "name, message",
    [
        ("Drfit-v0", "did you mean .*Drift-v0"),
        ("Drift-v7", "did you mean .*Drift-v0"),
        ("nowhere/Drift-v0", "did you mean .*Drift-v0"),
        ("no_such_module:Drift-v0", "no_such_module"),
        ("not an id", "valid: "),
        ("", "valid: "),
    ],
)
def test_an_unknown_id_is_refused_with_near_ones(name, message):
    with pytest.raises(ValueError, match=rf"'{name}'[:;] .*{message}") as caught:
        APO(name)
    assert "\n" not in str(caught.value)


def test_an_environment_that_never_ends_has_a_reward_rate_and_no_episodes():
    agent = APO(ENDLESS, num_workers=0, **TINY).learn(2 * ITERATION)
    report = agent.evaluate(200)
    assert math.isfinite(agent.gain_)
    assert math.isfinite(report.average_reward)
    assert report.low < report.average_reward < report.high
    assert report.episodes == 0
    assert math.isnan(report.episode_return)
    assert "no episode ended" in str(report)


def test_a_time_limit_shows_in_evaluation():
    report = APO(partial(Drift, limit=5), num_workers=0, **TINY).evaluate(100)
    assert (report.episodes, report.episode_length, report.steps) == (10, 5.0, 100)


# Spaces. All observations below have two flat numbers: they share one compiled program.

OBSERVATIONS = {
    "box": UNIT,
    "pixels": spaces.Box(0, 255, (1, 2, 1), np.uint8),
    "float64": spaces.Box(-np.inf, np.inf, (2,), np.float64),
    "discrete": spaces.Discrete(2, start=5),
    "binary": spaces.MultiBinary(2),
    "dict": spaces.Dict({"a": spaces.Box(-1, 1, ()), "b": spaces.Box(-1, 1, (1,))}),
    "tuple": spaces.Tuple((spaces.Box(-1, 1, (1,)), spaces.Box(-1, 1, (1,)))),
}


@pytest.mark.parametrize("name", OBSERVATIONS)
def test_observation_spaces_with_a_fixed_size_are_supported(name):
    env = partial(Sampler, OBSERVATIONS[name], PUSH)
    agent = APO(env, num_workers=0, **TINY).learn(ITERATION)
    assert agent.spaces.observation_size == 2
    action, _ = agent.predict(OBSERVATIONS[name].sample())
    assert PUSH.contains(action)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Sequence(spaces.Discrete(2)),
        spaces.Graph(UNIT, None),
        spaces.Dict({"crowd": spaces.Sequence(UNIT)}),
    ],
    ids=repr,
)
def test_an_observation_space_without_a_fixed_size_is_refused_by_name(space):
    with pytest.raises(ValueError) as caught:
        APO(partial(Sampler, space, PUSH))
    refused = space["crowd"] if isinstance(space, spaces.Dict) else space
    assert f"observation space {refused} has no fixed flat size" in str(caught.value)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(0, 5, (2,), np.int32),
        spaces.Tuple((spaces.Discrete(2), UNIT)),
        spaces.Dict({"a": UNIT}),
    ],
    ids=repr,
)
def test_an_action_space_that_is_not_supported_is_refused_by_name(space):
    with pytest.raises(ValueError) as caught:
        APO(partial(Sampler, UNIT, space))
    assert f"action space {space} is not supported" in str(caught.value)
