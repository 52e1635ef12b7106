"""Gymnasium VectorEnvs as environments: transitions are those of single ones in every mode."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv

from longrun import APO, EnvironmentFailure, InputError, NonFiniteError
from longrun.learning.envs.vector_shard import VectorRows
from tiny_envs import ITERATION, MORTAL, TINY, Counter, Drift, Faulty, Sampler, bits

MODES = list(AutoresetMode)
FOUR = {**TINY, "num_workers": 0}
del FOUR["num_envs"]


def vector(env: Any, mode: AutoresetMode, count: int = 4) -> VectorEnv[Any, Any, Any]:
    return SyncVectorEnv([env] * count, autoreset_mode=mode)


def rollouts(agent: Any, count: int) -> list[dict[str, Any]]:
    """What the learner gets in each of so many iterations."""
    from longrun.learning.train.host import replica

    seen: list[dict[str, Any]] = []
    original = replica.Replica._rollout

    def noted(self: Any) -> Any:
        rollout = original(self)
        seen.append({name: np.array(x) for name, x in rollout._asdict().items()})
        return rollout

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replica.Replica, "_rollout", noted)
        agent.learn(count * ITERATION)
    return seen[-count:]  # the update may have been compiled with another one


@pytest.mark.parametrize("terminates", [False, True])
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_every_transition_is_a_true_one(mode: AutoresetMode, terminates: bool) -> None:
    """Counter pays and observes the step of its episode, which ends after `length` of them."""
    lengths = (3, 4, 5, 70)
    factories = [partial(Counter, length, terminates) for length in lengths]
    agent = APO(lambda: SyncVectorEnv(factories, autoreset_mode=mode), **FOUR)
    assert agent.config.num_envs == 4
    for rollout in rollouts(agent, 3):
        before, after = rollout["obs"], rollout["next_obs"]
        ended = rollout["terminated"] if terminates else rollout["truncated"]
        assert not (rollout["truncated"] if terminates else rollout["terminated"]).any()
        assert np.array_equal(after[..., 1], before[..., 1] + 1)
        assert np.array_equal(after[..., 0], before[..., 0])  # the same episode
        assert np.array_equal(rollout["reward"], after[..., 1])
        assert np.array_equal(ended, after[..., 1] == lengths)
        following = np.concatenate([before[1:], rollout["resume_obs"][None]])
        assert np.array_equal(following[ended][:, 1], np.zeros(ended.sum()))
        assert np.array_equal(following[ended][:, 0], after[ended][:, 0] + 1)
        assert np.array_equal(following[~ended], after[~ended])
        assert ended[:, :3].any(0).all()


def test_a_step_that_starts_an_episode_is_no_transition() -> None:
    rows = VectorRows(vector(partial(Counter, 2, True), AutoresetMode.NEXT_STEP, 2), SPACES)
    rows.reset(0)
    action = np.zeros((2, 1), np.float32)
    counted = []
    for _ in range(6):
        transitions, _, _, terminated, truncated = rows.step(action)
        counted.append(transitions.tolist())
        assert not (terminated | truncated)[~transitions].any()
    assert counted == [[True] * 2, [True] * 2, [False] * 2] * 2


SPACES = APO(partial(Counter, 2, True), **TINY).spaces


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_learning_and_evaluation(mode: AutoresetMode, tmp_path: Path) -> None:
    def make() -> VectorEnv[Any, Any, Any]:
        return vector(partial(Drift, limit=9, wall=1.5), mode)

    agent = APO(make, **FOUR)
    agent.learn(2 * ITERATION, log_dir=tmp_path / "run", eval_every=ITERATION, eval_steps=60)
    assert agent.steps_ == 2 * ITERATION
    found = agent.evaluate(100, warmup=0)
    single = APO(MORTAL, num_workers=0, **TINY)
    single.snapshot = single.snapshot._replace(state=agent.state)
    expected = single.evaluate(20_000, warmup=0)
    # The same policy in the same environment: within twice the two intervals of 95 %.
    wide = agent.evaluate(5_000, warmup=0)
    assert wide.steps == 4 * 1250
    assert abs(wide.average_reward - expected.average_reward) < (wide.high - wide.low) * 2
    assert wide.episode_length == pytest.approx(expected.episode_length, rel=0.5)
    assert found.steps == 4 * 100  # as many for each as would be for one
    # A new process starts new episodes, and says so.
    again = APO.load(tmp_path / "run", make, num_workers=0)
    with pytest.warns(UserWarning, match=r"\d of 4 environments cannot save their states"):
        again.learn(ITERATION, log_dir=tmp_path / "run", eval_every=0)
    assert again.steps_ == 3 * ITERATION


@pytest.mark.slow
def test_a_worker_process_gives_the_same_bits(tmp_path: Path) -> None:
    def make() -> VectorEnv[Any, Any, Any]:
        return vector(partial(Drift, limit=9, notes=tmp_path), AutoresetMode.NEXT_STEP)

    here, there = (APO(make, **FOUR | {"num_workers": n}).learn(2 * ITERATION) for n in (0, 2))
    assert bits(here.state) == bits(there.state)
    assert len(set(os.listdir(tmp_path)) - {str(os.getpid())}) == 1
    twice = APO(make, **FOUR).learn(ITERATION).learn(ITERATION)
    assert bits(twice.state) == bits(here.state)


def test_environments_in_processes_of_their_own() -> None:
    agent = APO(lambda: AsyncVectorEnv([partial(Drift, limit=9)] * 2, context="forkserver"), **FOUR)
    assert agent.learn(32).steps_ == 32
    agent.close()


def test_an_instance_and_one_that_is_vectorised_itself() -> None:
    costly = {"termination": "reset", "reset_cost": 1.0}
    agent = APO(gymnasium.make_vec("CartPole-v1", 3, "vector_entry_point"), **FOUR | costly)
    assert (agent.config.num_envs, agent.loop.name) == (3, "CartPole-v1")
    assert agent.learn(48).steps_ == 48
    action, _ = agent.predict(np.zeros(4, np.float32))
    assert agent.action_space.contains(action)


OBSERVED = {
    "dict": spaces.Dict({"a": spaces.Box(-1, 1, (2,)), "b": spaces.Discrete(3)}),
    "box": spaces.Box(-1, 1, (2, 2)),
}
ACTIONS = {
    "discrete": spaces.Discrete(3, start=-1),
    "multi-discrete": spaces.MultiDiscrete([3, 2]),
    "multi-binary": spaces.MultiBinary(3),
    "box": spaces.Box(-0.5, 0.5, (2, 1)),
}


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("observation", OBSERVED)
def test_all_spaces(observation: str, action: str) -> None:
    """Sampler raises for an action outside its space."""
    made = partial(Sampler, OBSERVED[observation], ACTIONS[action])
    agent = APO(lambda: vector(made, AutoresetMode.DISABLED, 2), **FOUR)
    assert agent.evaluate(20).steps == 40


def test_wrong_vector_environments_are_refused_in_one_line() -> None:
    def unsaid() -> VectorEnv[Any, Any, Any]:
        made = vector(Drift, AutoresetMode.NEXT_STEP)
        made.metadata = {}
        return made

    with pytest.raises(InputError, match="must say how it starts episodes"):
        APO(unsaid, **FOUR)
    with pytest.raises(InputError, match="num_envs=5 must be 4, the size of the VectorEnv"):
        APO(lambda: vector(Drift, AutoresetMode.NEXT_STEP), **FOUR | {"num_envs": 5})


@pytest.mark.parametrize("forgiving", [True, False])
def test_a_non_finite_observation_is_named_with_environment_step_and_iteration(
    forgiving: bool,
) -> None:
    odd = partial(Faulty, "obs", at=20, forgiving=forgiving)
    agent = APO(lambda: SyncVectorEnv([Drift, Drift, odd]), **FOUR)
    place = r"environment 2 of replica 0 returned a non-finite .* of nan \(component 1\) at step"
    with pytest.raises(NonFiniteError, match=f"{place} 3 of iteration 1"):
        agent.learn(2 * 48)
    with pytest.raises(NonFiniteError, match=f"{place} 19 of"):
        agent.evaluate(100)


def test_an_environment_that_raises_is_named_with_the_step_only() -> None:
    """A VectorEnv does not say which one of its environments it was."""
    agent = APO(lambda: SyncVectorEnv([Drift, partial(Faulty, "raise")]), **FOUR)
    words = "the VectorEnv of replica 0 failed at step 4 of iteration 0: Arithm.*: the motor jammed"
    with pytest.raises(EnvironmentFailure, match=words):
        agent.learn(32)


def test_an_error_names_the_step() -> None:
    def make() -> VectorEnv[Any, Any, Any]:
        return vector(partial(Sampler, OBSERVED["box"], ACTIONS["box"]), AutoresetMode.DISABLED)

    agent = APO(make, **FOUR | {"action_bounds": "raw"})
    with pytest.raises(RuntimeError, match=r"step \d+ of iteration 0: .*action_bounds='clip'"):
        agent.learn(ITERATION)
