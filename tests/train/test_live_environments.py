"""Environments between two calls of `learn`, and how they are restored from a file."""

from __future__ import annotations

import gc
import os
import signal
import warnings
import weakref
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from longrun import APO
from longrun.learning.envs.env_state import decode, encode
from longrun.learning.envs.worker_pool import Pool
from longrun.learning.train.host import kept_pools
from tiny_envs import ENDLESS, ITERATION, MORTAL, TINY, Drift, bits, is_running, wait_until

LOCAL: dict[str, Any] = TINY | {"num_workers": 0}


class Counted(Drift):
    """Counts the steps and the makings of all instances in this process."""

    steps = made = 0

    def __init__(self, **others: Any) -> None:
        super().__init__(**others)
        Counted.made += 1

    def step(self, action: Any) -> Any:
        Counted.steps += 1
        return super().step(action)


class Saved(Counted):
    """Drift that can save its state; NumPy's generator is saved by longrun."""

    def get_state(self) -> Any:
        return {"place": self.place, "time": self.time, "history": np.arange(self.time)}

    def set_state(self, state: Any) -> None:
        self.place, self.time = state["place"], state["time"]
        assert state["history"].tolist() == list(range(self.time))


class Stateless(Drift):
    """Drift whose state cannot be saved: an attribute is no data."""

    def __init__(self, **others: Any) -> None:
        super().__init__(**others)
        self.handle = object()


@pytest.fixture(autouse=True)
def no_count() -> None:
    Counted.steps = Counted.made = 0


def test_calls_of_learn_cost_no_more_than_one() -> None:
    agent = APO(Counted, **LOCAL)
    makings = Counted.made
    for call in range(1, 5):
        agent.learn(ITERATION)
        assert Counted.steps == call * ITERATION
    assert Counted.made == makings + 4


@pytest.mark.parametrize("env", [MORTAL, ENDLESS])
def test_live_environments_give_what_one_call_gives(env: Any) -> None:
    whole = APO(env, **LOCAL).learn(3 * ITERATION)
    parts = APO(env, **LOCAL)
    for _ in range(3):
        parts.learn(ITERATION)
    assert bits(parts.snapshot) == bits(whole.snapshot)


def test_an_episode_continues_in_the_next_call_without_a_state() -> None:
    whole = APO(Stateless, **LOCAL).learn(4 * ITERATION)
    parts = APO(Stateless, **LOCAL).learn(2 * ITERATION).learn(2 * ITERATION)
    assert parts.snapshot.environments["begun"].tolist() == [True] * 4
    assert bits(parts.state) == bits(whole.state)


def test_worker_processes_stay_and_end_with_the_agent(tmp_path: Path) -> None:
    agent = APO(partial(Drift, notes=tmp_path), num_workers=2, **TINY)
    agent.learn(ITERATION)
    workers = set(os.listdir(tmp_path)) - {str(os.getpid())}
    agent.learn(ITERATION)
    assert set(os.listdir(tmp_path)) - {str(os.getpid())} == workers
    assert len(workers) == 2 and all(map(is_running, workers))
    del agent
    wait_until(lambda: not any(map(is_running, workers)), 10)


def test_an_agent_can_close_its_environments(tmp_path: Path) -> None:
    agent = APO(partial(Drift, notes=tmp_path), num_workers=1, **TINY).learn(ITERATION)
    (worker,) = set(os.listdir(tmp_path)) - {str(os.getpid())}
    assert is_running(worker)
    agent.close()
    wait_until(lambda: not is_running(worker), 10)
    whole = APO(Drift, **LOCAL).learn(2 * ITERATION)
    assert bits(agent.learn(ITERATION).state) == bits(whole.state)
    agent.close()
    agent.close()


def last_pool() -> Pool:
    return list(kept_pools.kept.values())[-1].pool


def test_a_worker_that_dies_between_two_calls_is_replaced(tmp_path: Path) -> None:
    agent = APO(partial(Drift, notes=tmp_path), num_workers=1, **TINY).learn(ITERATION)
    (worker,) = set(os.listdir(tmp_path)) - {str(os.getpid())}
    os.kill(int(worker), signal.SIGKILL)
    wait_until(lambda: not is_running(worker), 10)
    wait_until(lambda: last_pool().has_failed, 10)
    whole = APO(Drift, **LOCAL).learn(2 * ITERATION)
    assert bits(agent.learn(ITERATION).state) == bits(whole.state)


def test_environments_that_are_kept_no_longer_are_freed() -> None:
    agent = APO(Drift, **LOCAL).learn(ITERATION)
    agent.learn(ITERATION)
    pool = weakref.ref(last_pool())
    agent.close()
    gc.collect()
    assert pool() is None
    assert agent.steps_ == 2 * ITERATION


def test_only_a_few_agents_keep_their_environments() -> None:
    agents = [APO(Drift, seed=seed, **LOCAL).learn(ITERATION) for seed in range(4)]
    assert len(kept_pools.kept) == kept_pools.MOST_KEPT < len(agents)
    assert agents[0].learn(ITERATION).steps_ == 2 * ITERATION


def test_an_environment_without_a_state_starts_a_new_episode(tmp_path: Path) -> None:
    APO(Stateless, **LOCAL).learn(ITERATION).save(tmp_path)
    agent = APO.load(tmp_path, Stateless, num_workers=0)
    with pytest.warns(UserWarning, match="4 of 4 environments cannot save their states"):
        agent.learn(ITERATION)
    assert agent.snapshot.environments["number"].tolist() == [1] * 4
    assert agent.snapshot.environments["begun"].tolist() == [True] * 4


def test_at_the_start_of_an_episode_no_state_is_needed(tmp_path: Path) -> None:
    env = partial(Stateless, limit=16)  # every rollout ends with an episode
    whole = APO(env, **LOCAL).learn(2 * ITERATION)
    APO(env, **LOCAL).learn(ITERATION).save(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        resumed = APO.load(tmp_path, env, num_workers=0).learn(ITERATION)
    assert bits(resumed.snapshot) == bits(whole.snapshot)


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_environments_that_save_their_state_are_restored(workers: int, tmp_path: Path) -> None:
    whole = APO(Saved, **LOCAL).learn(4 * ITERATION)
    APO(Saved, **LOCAL).learn(2 * ITERATION).save(tmp_path)
    Counted.steps = 0
    resumed = APO.load(tmp_path, Saved, num_workers=workers).learn(2 * ITERATION)
    assert bits(resumed.snapshot) == bits(whole.snapshot)
    assert Counted.steps == (0 if workers else 2 * ITERATION)


def test_a_state_that_cannot_be_restored_starts_new_episodes(tmp_path: Path) -> None:
    class Changed(Saved):
        def set_state(self, state: Any) -> None:
            self.place = 7.0

    APO(Saved, **LOCAL).learn(ITERATION).save(tmp_path)
    with pytest.warns(UserWarning, match="4 of 4 environments did not restore their states"):
        APO.load(tmp_path, Changed, num_workers=0).learn(ITERATION)


def test_a_state_that_is_no_data_is_not_saved(tmp_path: Path) -> None:
    class Odd(Saved):
        def get_state(self) -> Any:
            return object()

    APO(Odd, **LOCAL).learn(ITERATION).save(tmp_path)
    with pytest.warns(UserWarning, match="4 of 4 environments cannot save their states"):
        APO.load(tmp_path, Odd, num_workers=0).learn(ITERATION)


def test_an_environment_is_saved_by_its_attributes(tmp_path: Path) -> None:
    """Gymnasium's classic control tasks have no get_state."""
    whole = APO("Pendulum-v1", **LOCAL).learn(4 * ITERATION)
    APO("Pendulum-v1", **LOCAL).learn(2 * ITERATION).save(tmp_path)
    resumed = APO.load(tmp_path, num_workers=0).learn(2 * ITERATION)
    assert bits(resumed.snapshot) == bits(whole.snapshot)


def test_what_an_environment_was_made_with_is_its_own(tmp_path: Path) -> None:
    """A resumed run in an environment with another parameter has that parameter."""
    APO(partial(Drift, reward_scale=1.0), **LOCAL).learn(ITERATION).save(tmp_path)
    agent = APO.load(tmp_path, partial(Drift, reward_scale=100.0), num_workers=0)
    rewards: list[float] = []
    agent.learn(ITERATION, on_log=lambda p: rewards.append(p.metrics["reward_min"]))
    assert rewards[0] < -10


class Viewed(Drift):
    """A view of an array, which would not follow it after both are restored."""

    def reset(self, **given: Any) -> Any:
        self.pair = np.zeros(2)
        self.view = self.pair[:1]
        return super().reset(**given)


class Shared(Drift):
    """A second name of the generator."""

    def reset(self, **given: Any) -> Any:
        found = super().reset(**given)
        self.rng = self.np_random
        return found


class Slotted(Drift):
    __slots__ = ("hidden",)


@pytest.mark.parametrize("kind", [Viewed, Shared, Slotted])
def test_what_cannot_be_restored_as_it_was_is_not(kind: Any, tmp_path: Path) -> None:
    APO(kind, **LOCAL).learn(ITERATION).save(tmp_path)
    with pytest.warns(UserWarning, match="4 of 4 environments cannot save their states"):
        APO.load(tmp_path, kind, num_workers=0).learn(ITERATION)


def test_attributes_that_a_step_adds_are_restored(tmp_path: Path) -> None:
    class Remembers(Drift):
        def step(self, action: Any) -> Any:
            before = getattr(self, "last", 0.0)
            self.last = float(np.asarray(action).reshape(-1)[0])
            obs, reward, *rest = super().step(action)
            return obs, reward + before, *rest

    whole = APO(Remembers, **LOCAL).learn(2 * ITERATION)
    APO(Remembers, **LOCAL).learn(ITERATION).save(tmp_path)
    resumed = APO.load(tmp_path, Remembers, num_workers=0).learn(ITERATION)
    assert bits(resumed.snapshot) == bits(whole.snapshot)


def test_a_state_that_is_too_large_is_not_saved(tmp_path: Path) -> None:
    class Large(Drift):
        def __init__(self) -> None:
            super().__init__()
            self.field = np.zeros(10**5)

        def step(self, action: Any) -> Any:
            self.field += 1.0
            return super().step(action)

    APO(Large, **LOCAL).learn(ITERATION).save(tmp_path)
    with pytest.warns(UserWarning, match="4 of 4 environments cannot save their states"):
        APO.load(tmp_path, Large, num_workers=0).learn(ITERATION)


def test_states_are_data_of_every_plain_kind() -> None:
    state = {
        "none": None,
        "numbers": [1, 2.5, True, float("inf"), 2**80],
        "text": "Straße",
        "array": np.arange(6, dtype=np.int16).reshape(2, 3),
        "scalar": np.float32(0.1),
        "bytes": b"\x00\xff",
        "tuple": (1, (2, "x")),
        "generator": np.random.default_rng(0).bit_generator.state,
        "nested": [{"a": {}}],
    }
    rng = np.random.default_rng(5)
    same = decode(encode(rng))
    assert same.bit_generator.state == rng.bit_generator.state and same.random() == rng.random()
    found = decode(encode(state))
    assert found.pop("array").tolist() == state.pop("array").tolist()  # type: ignore[attr-defined]
    assert found == state
    for odd in (object(), {1: 2}, np.array([object()]), {1, 2}):
        with pytest.raises(TypeError):
            encode(odd)


@pytest.mark.parametrize(
    "task", ["Swimmer", "HalfCheetah", "Hopper", "Walker2d", "Ant", "Humanoid"]
)
def test_mujoco_tasks_are_restored_to_the_bit(task: str) -> None:
    import gymnasium

    from longrun.learning.envs.stepper import make_stepper

    one, other = (make_stepper(gymnasium.make(f"{task}-v5")) for _ in range(2))
    env = gymnasium.make(f"{task}-v5")
    shape, actions = env.observation_space.shape, env.action_space
    actions.seed(0)
    row, same = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    one.reset(3, row)
    for _ in range(30):
        one.step(actions.sample(), row)
    state = one.save_state()
    assert state
    other.reset(5, same)
    for _ in range(4):
        other.step(actions.sample(), same)
    other.load_state(state)
    for _ in range(20):
        action = actions.sample()
        facts, found = one.step(action, row), other.step(action, same)
        assert (facts, row.tobytes()) == (found, same.tobytes())


def test_a_mujoco_run_is_resumed_to_the_bit(tmp_path: Path) -> None:
    options = LOCAL | {"action_bounds": "raw"}
    whole = APO("Swimmer-v5", **options).learn(4 * ITERATION)
    APO("Swimmer-v5", **options).learn(2 * ITERATION).save(tmp_path)
    resumed = APO.load(tmp_path, num_workers=0).learn(2 * ITERATION)
    assert bits(resumed.snapshot) == bits(whole.snapshot)
