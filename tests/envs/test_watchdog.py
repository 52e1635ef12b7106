"""Environments that hang, stop, fork or close files end the run with one line, within a limit."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from functools import partial

import numpy as np
import pytest

from failing_envs import (
    Failing,
    close_files,
    close_files_and_sleep,
    end_by_a_nameless_signal,
    fork_and_die,
    hold_the_lock,
    sleep,
    stop,
    write_to_files,
)
from longrun import APO, PPO, WorkerError
from longrun.base.errors import HungError
from longrun.cli import main
from longrun.learning.envs import processes, seeding, watchdog, worker_pool
from longrun.learning.envs.plan import Plan, SharedArrays
from longrun.learning.envs.shard import Shard
from longrun.learning.envs.spaces import describe
from longrun.learning.options.acting import Acting
from longrun.learning.options.config_options import make_config
from longrun.learning.train.events import Seconds
from longrun.learning.train.host.loop import HostLoop
from run_specs import spec_of
from tiny_envs import ITERATION, MORTAL, TINY, TINY_FLAGS, Drift, bits

VICTIM = seeding.episode_seed(0, seeding.EPISODE, 3, 0)
"""reset seed of environment 3, which is the second worker's, in its first episode"""


def error_of(env, steps=5 * ITERATION, step_timeout=1.0, **learn):
    """The one line of the error that ends a run with two workers."""
    agent = APO(env, num_workers=2, step_timeout=step_timeout, **TINY)
    with pytest.raises(WorkerError) as caught:
        agent.learn(steps, **learn)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("fault", [sleep, hold_the_lock, stop])
@pytest.mark.slow
def test_a_step_that_hangs_is_named_when_its_time_is_over(fault, nothing_left):
    message = error_of(partial(Failing, fault, VICTIM, notes=nothing_left))
    assert message.startswith("worker 1 (process ")
    where = "environment 3 of replica 0 at step 4 of iteration 0"
    assert f"made no progress for 1 s: {where}; if this can take longer, raise step_t" in message


# In the training process.


@pytest.mark.slow
def test_a_step_that_hangs_in_the_training_process_is_named_and_the_run_is_saved(tmp_path):
    run = tmp_path / "run"
    agent = APO(partial(Failing, sleep, VICTIM, at=40), num_workers=0, step_timeout=1, **TINY)
    where = "environment 3 of replica 0 at step 7 of iteration 2"
    with pytest.raises(HungError, match=f"^this process made no .* 1 s: {where}; if"):
        agent.learn(5 * ITERATION, log_dir=run, eval_every=0)
    # Without workers an iteration is reported after the next rollout, which did not end here.
    assert APO.load(run, Drift, num_workers=0).steps_ == ITERATION


@pytest.mark.slow
def test_a_run_that_is_stopped_does_not_wait_for_ever_for_a_step_that_hangs():
    agent = APO(partial(Failing, sleep, VICTIM, at=20), num_workers=0, step_timeout=1, **TINY)
    with pytest.raises(HungError, match="environment 3 of replica 0 at step 3 of iteration 1"):
        agent.learn(5 * ITERATION, on_log=lambda _: False)


def test_an_environment_that_does_not_close_is_not_waited_for_without_a_limit(tmp_path):
    class Open(Drift):
        def close(self):
            if self.time:
                time.sleep(600)

    agent = APO(Open, num_workers=0, step_timeout=0.5, **TINY)
    agent.learn(ITERATION, log_dir=tmp_path / "run", eval_every=0)
    with pytest.raises(HungError, match=r"no progress for 0\.5 s: an environment is being closed;"):
        agent.close()
    assert APO.load(tmp_path / "run", Drift, num_workers=0).steps_ == ITERATION


def test_an_evaluation_that_hangs_is_named_and_ends():
    class Sleeping(Drift):
        def step(self, action):
            if self.time == 4:
                time.sleep(600)
            return super().step(action)

    agent = APO(Sleeping, num_workers=0, step_timeout=0.6, **TINY)
    where = r"environment 0 of replica 0 at step 4 of the evaluation after iteration 0"
    with pytest.raises(HungError, match=rf"^this process made no progress for 0\.6 s: {where}; if"):
        agent.evaluate(100)
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL


@pytest.mark.slow
def test_a_slow_evaluation_may_take_its_time():
    agent = APO(partial(Drift, pause=0.02), num_workers=0, step_timeout=0.6, **TINY)
    assert agent.evaluate(50).steps == 50


def test_the_first_environment_is_not_made_without_a_limit(monkeypatch):
    monkeypatch.setattr(watchdog, "START_SECONDS", 0.6)

    def unmade():
        time.sleep(600)

    expected = r"^this process made no progress for 0\.6 s: making the environment 'unmade'; if"
    with pytest.raises(HungError, match=expected):
        APO(unmade, num_workers=0, step_timeout=0.1, **TINY)


def test_a_hang_is_named_though_the_environment_turns_it_into_an_error_of_its_own(monkeypatch):
    monkeypatch.setattr(watchdog, "START_SECONDS", 0.6)

    def unmade():
        try:
            time.sleep(600)
        except Exception:
            raise KeyError("simulator") from None

    with pytest.raises(HungError, match="making the environment 'unmade'"):
        APO(unmade, num_workers=0, step_timeout=0.1, **TINY)


def test_an_alarm_of_the_caller_is_left_alone():
    def fail(number, frame):
        raise AssertionError

    signal.signal(signal.SIGALRM, fail)
    try:
        APO(Drift, num_workers=0, **TINY).evaluate(20)
        assert signal.getsignal(signal.SIGALRM) is fail
    finally:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


@pytest.mark.slow
def test_a_slow_environment_in_the_training_process_may_take_its_time():
    APO(partial(Drift, pause=0.02), num_workers=0, step_timeout=0.6, **TINY).learn(ITERATION)


# In worker processes.


@pytest.mark.slow
def test_a_reset_that_hangs_is_named(nothing_left):
    message = error_of(partial(Failing, sleep, VICTIM, at=0, notes=nothing_left))
    assert "environment 3 of replica 0 in its reset" in message


@pytest.mark.parametrize(
    "victim, at, place",
    [
        ((seeding.EPISODE, 3, 0), 0, "environment 3 of replica 0 in its reset"),
        ((seeding.EPISODE, 3, 0), 5, "environment 3 of replica 0 at step 4 of iteration 0"),
        ((seeding.EPISODE, 3, 1), 0, "environment 3 of replica 0 in a reset at step 8 of"),
        ((seeding.EVALUATION, 7, 1, 0), 0, "environment 1 of replica 0 in its reset"),
        ((seeding.EVALUATION, 7, 1, 0), 5, "environment 1 of replica 0 at step 4 of the evalua"),
    ],
)
def test_the_shared_memory_says_where_a_worker_is(victim, at, place):
    seen = []
    env = partial(
        Failing,
        lambda env: seen.append(watchdog.place(arrays["heartbeat"][0])),
        seeding.episode_seed(0, *victim),
        at=at,
        limit=9,
        forgiving=True,
    )
    plan = Plan(env, describe(env()), Acting((8,)), (0,), 4, 16, eval_envs=2, eval_steps=8)
    arrays = SharedArrays(plan.memory())
    arrays.close()
    shard = Shard(plan, arrays, worker=0, num_workers=1)
    shard.restart(0, [0] * 4)
    shard.rollout(0, 0)
    shard.evaluate(0, 7)
    assert len(seen) == 1
    assert seen[0].startswith(place)


@pytest.mark.slow
def test_an_environment_whose_making_hangs_is_named(nothing_left, monkeypatch):
    """A start may take longer than a step: it imports the environment's modules."""
    monkeypatch.setattr(watchdog, "START_SECONDS", 1.0)

    class Unmade(Drift):
        def __init__(self):
            super().__init__(notes=nothing_left)
            if "longrun.learning.agent" not in __import__("sys").modules:  # in a worker
                time.sleep(600)

    # On a busy machine the import of NumPy takes longer than that as well.
    assert re.search("making environment . of replica 0|while it was starting", error_of(Unmade))


@pytest.mark.slow
def test_a_rollout_may_take_longer_than_the_limit_of_a_step(nothing_left):
    env = partial(Drift, pause=0.02, notes=nothing_left)
    APO(env, num_workers=1, step_timeout=1, **TINY).learn(ITERATION)  # 64 steps: 1.3 s


class Clock:
    """A watchdog over one worker, and the time that passes for it."""

    def __init__(self, monkeypatch, activity, step_timeout):
        self.now = 0.0
        monkeypatch.setattr(watchdog.time, "monotonic", lambda: self.now)
        rows = np.zeros((1, watchdog.CELLS), np.int64)
        rows[0, watchdog.ACTIVITY] = activity
        self.watch = watchdog.Watchdog(rows, step_timeout)

    def stalls(self, seconds, busy=True, look=watchdog.LOOK_SECONDS):
        """Whether a look of those in so many seconds says that the worker has stalled."""
        end = self.now + seconds
        while self.now < end:
            self.now += look
            if self.watch.stalled([busy], ["it"]) is not None:
                return True
        return False


def test_the_time_that_this_process_did_not_run_does_not_count(monkeypatch):
    """As when all processes were frozen together: a worker could not have done anything."""
    clock = Clock(monkeypatch, watchdog.ROLLOUT, 10.0)
    assert not clock.stalls(3600, look=3600)
    assert clock.stalls(10)


def test_a_start_may_take_longer_than_a_step(monkeypatch):
    clock = Clock(monkeypatch, watchdog.MAKING, 10.0)
    assert not clock.stalls(watchdog.START_SECONDS - 1)
    assert clock.stalls(1)


def test_a_worker_without_a_request_may_be_idle(monkeypatch):
    assert not Clock(monkeypatch, watchdog.IDLE, 1.0).stalls(1000, busy=False)


def test_without_a_limit_nothing_stalls(monkeypatch):
    assert not Clock(monkeypatch, watchdog.ROLLOUT, 0.0).stalls(1000)


def test_a_dead_worker_is_noticed_though_a_child_keeps_its_connection(nothing_left):
    env = partial(Failing, fork_and_die, VICTIM, notes=nothing_left)
    message = error_of(env, step_timeout=0)
    assert "died: SIGKILL; environment 3 of replica 0 at step 4 of iteration 0" in message


@pytest.mark.slow
@pytest.mark.parametrize("fault", [close_files, close_files_and_sleep, write_to_files])
def test_a_worker_without_its_connection_is_ended(fault, nothing_left, monkeypatch, capfd):
    monkeypatch.setattr(worker_pool, "EXIT_SECONDS", 5.0 if fault is close_files else 0.5)
    message = error_of(partial(Failing, fault, VICTIM, notes=nothing_left), step_timeout=0)
    assert "closed its connection" in message
    assert capfd.readouterr().err == ""


@pytest.mark.slow
def test_a_worker_that_is_ended_by_a_signal_without_a_name_is_noticed(nothing_left):
    env = partial(Failing, end_by_a_nameless_signal, VICTIM, notes=nothing_left)
    assert f"died: signal {signal.SIGRTMIN + 3}; environment 3" in error_of(env, step_timeout=0)


def test_the_rest_of_a_message_is_not_waited_for_without_a_limit(monkeypatch):
    monkeypatch.setattr(processes, "MESSAGE_SECONDS", 1)
    ours, theirs = processes.limited_pipe()
    with ours, theirs:
        os.write(theirs.fileno(), b"\x00\x00\x00\x09only")
        with pytest.raises(OSError):
            ours.recv_bytes()


@pytest.mark.slow
def test_what_was_learned_before_a_hang_is_saved_and_can_be_resumed(nothing_left, tmp_path):
    run = tmp_path / "run"
    env = partial(Failing, sleep, VICTIM, at=40, notes=nothing_left)
    agent = APO(env, num_workers=2, step_timeout=1, **TINY)
    with pytest.raises(WorkerError):
        agent.learn(5 * ITERATION, log_dir=run, eval_every=0)
    resumed = APO.load(run, Drift, num_workers=0)
    whole = APO(Drift, num_workers=0, **TINY).learn(2 * ITERATION)
    assert bits(resumed.snapshot.state) == bits(whole.snapshot.state)
    with pytest.warns(UserWarning, match="4 of 4 environments cannot save their states"):
        assert resumed.learn(ITERATION).steps_ == 3 * ITERATION


@pytest.mark.parametrize(
    "kept, given, limit",
    [({"step_timeout": 7.0}, [], 7.0), ({"step_timeout": 7.0}, ["9"], 9.0)],
    ids=["kept", "changed"],
)
def test_a_resumed_run_keeps_the_limit_unless_another_is_given(
    kept, given, limit, tmp_path, monkeypatch
):
    run, flags = tmp_path / "run", ["--step-timeout", "7"]
    steps = ["--steps", str(ITERATION), "--no-eval", "--workers", "0"]
    new = ["train", "apo", "--env", "Drift-v0", "--out", str(run), *steps, *TINY_FLAGS, *flags]
    assert main(new) == 0
    config = json.loads((run / "config.json").read_text())
    assert config.pop("step_timeout") == 7.0
    (run / "config.json").write_text(json.dumps(config | kept))
    jobs = []
    monkeypatch.setattr(HostLoop, "train", lambda loop, job, *_: jobs.append(job) or Seconds())
    more = ["--steps", str(2 * ITERATION), *(["--step-timeout", *given] if given else [])]
    assert main(["train", "--resume", "--out", str(run), "--quiet", *more]) == 0
    assert [job.step_timeout for job in jobs] == [limit]


@pytest.mark.parametrize("wrong", [-1, float("nan"), float("inf"), "soon", True, None])
def test_a_limit_that_is_no_number_of_seconds_is_refused(wrong):
    with pytest.raises(ValueError, match=r"step_timeout=.* must be .* seconds"):
        PPO(MORTAL, step_timeout=wrong, **TINY)
    with pytest.raises(ValueError, match="step_timeout"):
        spec_of([make_config("apo", **TINY)], [0], ITERATION, step_timeout=wrong)
