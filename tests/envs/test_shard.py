"""What a shard writes into the shared arrays, and errors that name the environment."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from longrun import APO
from longrun.learning.envs import seeding
from longrun.learning.envs.numpy_policy import draw_noise
from longrun.learning.envs.plan import Plan, SharedArrays
from longrun.learning.envs.shard import Shard
from longrun.learning.envs.spaces import describe
from longrun.learning.envs.worker_part import parts_of
from longrun.learning.options.acting import Acting
from tiny_envs import (
    ITERATION,
    TINY,
    Counter,
    Faulty,
)

PUSH = spaces.Box(-0.5, 0.5, (1,), np.float32)


def shard_for(factory: Any, num_envs: int, steps: int, **more: Any) -> tuple[Shard, Any]:
    """Weights are zero: the policy is standard normal noise."""
    sizes = describe(factory())
    plan = Plan(factory, sizes, Acting((8,)), (0,), num_envs=num_envs, rollout_steps=steps, **more)
    arrays = SharedArrays(plan.memory())
    arrays.close()
    shard = Shard(plan, arrays, worker=0, num_workers=1)
    shard.restart(0, [0] * num_envs)
    return shard, {name: array[0] for name, array in arrays.items()}


@pytest.mark.parametrize("terminates", [True, False])
def test_a_rollout_keeps_the_true_successor_and_where_the_chain_continues(terminates):
    shard, facts = shard_for(partial(Counter, 3, terminates), num_envs=2, steps=5)
    shard.rollout(0, 0)
    ends, never = ("terminated", "truncated") if terminates else ("truncated", "terminated")
    for env in (0, 1):
        # (episode, step): the last row is where the next rollout starts
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


def test_actions_are_clipped_for_the_environment_but_kept_as_sampled():
    seen: list[Any] = []
    shard, facts = shard_for(partial(Counter, 9, True, seen), num_envs=1, steps=20)
    shard.rollout(0, 4)
    raw = facts["action"][:, 0]
    noise = draw_noise(seeding.generator(0, seeding.NOISE, 0, 4), describe(Counter(9, True)), 20)
    assert raw.tolist() == noise.tolist()
    assert np.abs(raw).max() > 0.5
    assert [action.tolist() for action in seen] == np.clip(raw, -0.5, 0.5).tolist()
    assert all(PUSH.contains(action) for action in seen)


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


# Environments that fail.

TRAINING = seeding.episode_seed(0, seeding.EPISODE, 3, 0)
EVALUATION = seeding.episode_seed(0, seeding.MEASUREMENT, 0, 3, 0)


@pytest.mark.parametrize(
    "fault, message",
    [
        ("obs", r"environment 3 of replica 0 .* observation of nan \(component 1\) at step 4 of"),
        ("reward", "environment 3 of replica 0 returned a.* reward of nan at step 4 of iteration"),
        ("shape", r"environment 3 of replica 0 .* step 4 of iteration 0: .*\(3,\).*\(2,\)"),
        (
            "raise",
            "environment 3 of replica 0 failed at step 4 of iteration 0: .*: the motor jammed",
        ),
        ("first_obs", r"environment 3 of replica 0 .* of nan \(component 0\) at step 0 of"),
        ("reset", "environment 3 of replica 0 .*the simulator hung up"),
    ],
    ids=lambda value: value.split()[0],
)
@pytest.mark.parametrize("forgiving", [True, False])
def test_errors_in_training_name_environment_and_step(fault, message, forgiving):
    env = partial(Faulty, fault, TRAINING, forgiving=forgiving)
    with pytest.raises(RuntimeError, match=message):
        APO(env, num_workers=0, **TINY).learn(2 * ITERATION)


@pytest.mark.parametrize(
    "fault, message",
    [
        ("obs", r"environment 3 of replica 0 .*observation of nan \(component 1\) at step 4 of"),
        ("first_obs", r"environment 3 of replica 0 .* of nan \(component 0\) at step 0 of"),
        ("reward", "environment 3 of replica 0 returned an? .*reward of nan at step 4"),
        ("shape", r"environment 3 of replica 0 .*step 4.*\(3,\)"),
        ("raise", "environment 3 of replica 0 .*step 4.*the motor jammed"),
    ],
    ids=lambda value: value.split()[0],
)
@pytest.mark.parametrize("forgiving", [True, False])
def test_errors_in_an_evaluation_name_environment_and_step(fault, message, forgiving):
    env = partial(Faulty, fault, EVALUATION, forgiving=forgiving)
    with pytest.raises(RuntimeError, match=message):
        APO(env, num_workers=0, **TINY).evaluate(10_000)


def test_worker_processes_never_import_jax():
    env = partial(Faulty, "jax", at=2)
    APO(env, num_workers=1, **TINY).learn(ITERATION, eval_every=ITERATION, eval_steps=50)
    with pytest.raises(RuntimeError, match="JAX was imported here"):  # here it was
        APO(env, num_workers=0, **TINY).learn(ITERATION)


def test_worker_processes_import_no_options():
    """Dataclasses of many fields are compiled anew by every process that imports them."""
    program = (
        "import sys, longrun.learning.envs.worker_process;"
        " print('longrun.learning.options.config' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("False\n", "")
