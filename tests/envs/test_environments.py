"""Any Gymnasium environment, however it is named; facts as they are; errors that say where."""

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
from longrun.envs import seeding
from longrun.envs.factories import env_factory, env_name
from longrun.envs.numpy_policy import draw_noise
from longrun.envs.parts import parts_of
from longrun.envs.shard import Plan, Shard
from longrun.envs.shared_memory import SharedArrays
from longrun.envs.spaces import describe
from tiny_envs import (
    ENDLESS,
    ITERATION,
    MORTAL,
    TINY,
    Careless,
    Counter,
    Drift,
    Faulty,
    Sampler,
    bits,
)

UNIT = spaces.Box(-1, 1, (2,), np.float32)
PUSH = spaces.Box(-0.5, 0.5, (1,), np.float32)


# However an environment is named, it is the same one.


def from_local_class() -> Any:
    class Local(Drift):
        def __init__(self) -> None:
            super().__init__(limit=9, wall=1.5)

    return Local


def from_registry() -> str:
    """Known in this process alone, with a class that no other process can import by name."""

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
    return bits(APO(MORTAL, num_workers=0, **TINY).learn(ITERATION)._snapshot)


@pytest.fixture
def registry(monkeypatch):
    """What a test registers is forgotten after it."""
    monkeypatch.setattr(gymnasium.envs.registration, "registry", dict(gymnasium.registry))


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_name_an_environment_gives_the_same_learning(way, registry):
    agent = APO(WAYS[way](), num_workers=1, **TINY).learn(ITERATION)
    assert bits(agent._snapshot) == learnt()


def test_an_id_may_name_the_module_that_registers_it():
    assert isinstance(env_factory("tiny_envs:Drift-v0")().unwrapped, Drift)


def test_an_instance_is_copied_and_never_stepped():
    env = Drift(limit=9)
    APO(env, num_workers=0, **TINY).learn(ITERATION).evaluate(20)
    assert env.time == 0
    assert env._np_random is None


def test_a_factory_that_cannot_travel_works_without_workers():
    lock = threading.Lock()

    def factory() -> Drift:
        with lock:
            return Drift(limit=9, wall=1.5)

    agent = APO(factory, num_workers=0, **TINY).learn(ITERATION)
    assert bits(agent._snapshot) == learnt()
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
def test_what_is_no_environment_is_refused(env):
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
    with pytest.raises(ValueError, match=rf"unknown environment '{name}'; .*{message}") as caught:
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
def test_observation_spaces_with_a_fixed_size_can_be_learnt_from(name):
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
    assert f"observation space {space} has no fixed flat size" in str(caught.value)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(0, 5, (2,), np.int32),
        spaces.MultiBinary(3),
        spaces.Tuple((spaces.Discrete(2), UNIT)),
        spaces.Dict({"a": UNIT}),
    ],
    ids=repr,
)
def test_an_action_space_that_is_not_supported_is_refused_by_name(space):
    with pytest.raises(ValueError) as caught:
        APO(partial(Sampler, UNIT, space))
    assert f"action space {space} is not supported" in str(caught.value)


# Facts.


def shard_for(factory: Any, num_envs: int, steps: int, **more: Any) -> tuple[Shard, Any]:
    """Weights are zero: the policy is standard normal noise."""
    sizes = describe(factory())
    plan = Plan(factory, sizes, (8,), False, (0,), num_envs=num_envs, rollout_steps=steps, **more)
    arrays = SharedArrays(plan.memory())
    arrays.close()
    shard = Shard(plan, arrays, worker=0, num_workers=1)
    shard.restart(0, [0] * num_envs)
    return shard, {name: array[0] for name, array in arrays.items()}


@pytest.mark.parametrize("terminates", [True, False])
def test_a_rollout_keeps_the_true_successor_and_where_the_chain_goes_on(terminates):
    shard, facts = shard_for(partial(Counter, 3, terminates), num_envs=2, steps=5)
    shard.rollout(0, 0)
    ends, never = ("terminated", "truncated") if terminates else ("truncated", "terminated")
    for env in (0, 1):
        # (episode, step): the last row is where the next rollout begins
        assert facts["obs"][:, env].tolist() == [[1, 0], [1, 1], [1, 2], [2, 0], [2, 1], [2, 2]]
        assert facts["next_obs"][:, env].tolist() == [[1, 1], [1, 2], [1, 3], [2, 1], [2, 2]]
        assert facts["reward"][:, env].tolist() == [1, 2, 3, 1, 2]
        assert facts[ends][:, env].tolist() == [False, False, True, False, False]
        assert not facts[never].any()
    shard.rollout(0, 1)
    assert facts["obs"][:, 1].tolist() == [[2, 2], [3, 0], [3, 1], [3, 2], [4, 0], [4, 1]]
    assert facts["next_obs"][:, 1].tolist() == [[2, 3], [3, 1], [3, 2], [3, 3], [4, 1]]
    assert facts[ends][:, 1].tolist() == [True, False, False, True, False]


def test_an_end_in_the_last_row_resumes_from_the_reset():
    shard, facts = shard_for(partial(Counter, 3, False), num_envs=1, steps=3)
    shard.rollout(0, 0)
    assert facts["next_obs"][-1, 0].tolist() == [1, 3]
    assert facts["obs"][-1, 0].tolist() == [2, 0]
    assert facts["truncated"][:, 0].tolist() == [False, False, True]


def test_actions_are_clipped_on_the_way_to_the_environment_but_kept_as_drawn():
    seen: list[Any] = []
    shard, facts = shard_for(partial(Counter, 9, True, seen), num_envs=1, steps=20)
    shard.rollout(0, 4)
    raw = facts["action"][:, 0]
    noise = draw_noise(seeding.generator(0, seeding.NOISE, 0, 4), describe(Counter(9, True)), 20)
    assert raw.tolist() == noise.tolist()
    assert np.abs(raw).max() > 0.5
    assert [action.tolist() for action in seen] == np.clip(raw, -0.5, 0.5).tolist()
    assert all(PUSH.contains(action) for action in seen)


def test_a_replay_brings_environments_back_to_where_they_were():
    shard, facts = shard_for(ENDLESS, num_envs=2, steps=5)
    shard.rollout(0, 0)
    there = facts["obs"][-1].copy()
    shard.restart(0, [0, 0])
    assert facts["obs"][-1, :, 1].tolist() == [0, 0]
    shard.replay(0, [5, 2])
    assert facts["obs"][-1, 0].tolist() == there[0].tolist()
    assert facts["obs"][-1, 1, 1] == np.float32(0.2)


def test_an_evaluation_takes_the_mode_and_counts_every_reward_and_end():
    seen: list[Any] = []
    factory = partial(Counter, 3, True, seen)
    shard, facts = shard_for(factory, num_envs=1, steps=1, eval_envs=2, eval_steps=4)
    shard.evaluate(0, 0)
    assert facts["eval_reward"].tolist() == [[1, 1], [2, 2], [3, 3], [1, 1]]
    assert facts["eval_ended"].tolist() == [[False] * 2, [False] * 2, [True] * 2, [False] * 2]
    assert [action.tolist() for action in seen] == [[0.0]] * 8


@pytest.mark.parametrize("num_workers", [1, 2, 3, 7])
@pytest.mark.parametrize("replicas, per_replica", [(1, 10), (3, 4), (2, 0)])
def test_shares_of_workers_are_even_and_cover_everything_once(num_workers, replicas, per_replica):
    shares = [
        [(p.replica, i) for p in parts for i in range(p.first, p.last)]
        for parts in (parts_of(w, num_workers, replicas, per_replica) for w in range(num_workers))
    ]
    everything = [(r, i) for r in range(replicas) for i in range(per_replica)]
    assert [place for share in shares for place in share] == everything
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


# Environments that go wrong.

TRAINING = seeding.episode_seed(0, seeding.EPISODE, 3, 0)
EVALUATION = seeding.episode_seed(0, seeding.EVALUATION, 0, 3, 0)


@pytest.mark.parametrize(
    "fault, message",
    [
        ("obs", "environment 3 of replica 0 returned a.* observation of .*nan.* at step 4 of"),
        ("reward", "environment 3 of replica 0 returned a.* reward of nan at step 4 of iteration"),
        ("shape", r"environment 3 of replica 0 .* step 4 of iteration 0: .*\(3,\).*\(2,\)"),
        ("raise", "environment 3 of replica 0 failed at step 4 of iteration 0: the motor jammed"),
        ("first_obs", "environment 3 of replica 0 .*observation of .*nan"),
        ("reset", "environment 3 of replica 0 .*the simulator hung up"),
    ],
    ids=lambda value: value.split()[0],
)
@pytest.mark.parametrize("forgiving", [True, False])
def test_what_goes_wrong_in_training_is_named_with_its_place(fault, message, forgiving):
    env = partial(Faulty, fault, TRAINING, forgiving=forgiving)
    with pytest.raises(RuntimeError, match=message):
        APO(env, num_workers=0, **TINY).learn(2 * ITERATION)


@pytest.mark.parametrize(
    "fault, message",
    [
        ("obs", "environment 3 of replica 0 .*observation of .*nan"),
        ("reward", "environment 3 of replica 0 returned an? .*reward of nan at step 4"),
        ("shape", r"environment 3 of replica 0 .*step 4.*\(3,\)"),
        ("raise", "environment 3 of replica 0 .*step 4.*the motor jammed"),
    ],
    ids=lambda value: value.split()[0],
)
@pytest.mark.parametrize("forgiving", [True, False])
def test_what_goes_wrong_in_an_evaluation_is_named_with_its_place(fault, message, forgiving):
    env = partial(Faulty, fault, EVALUATION, forgiving=forgiving)
    with pytest.raises(RuntimeError, match=message):
        APO(env, num_workers=0, **TINY).evaluate(10_000)


def test_worker_processes_never_import_jax():
    env = partial(Faulty, "jax", at=2)
    APO(env, num_workers=1, **TINY).learn(ITERATION, eval_every=ITERATION, eval_steps=50)
    with pytest.raises(RuntimeError, match="JAX was imported here"):  # here it was
        APO(env, num_workers=0, **TINY).learn(ITERATION)
