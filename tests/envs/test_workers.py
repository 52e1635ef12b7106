"""Worker processes change only the speed, share no state, and clean up after themselves."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any

import pytest

from fake_workers import child_environment
from longrun import APO, PPO, NonFiniteError, WorkerError
from longrun.learning.envs import seeding
from longrun.learning.envs.factories import env_factory
from longrun.learning.envs.plan import Plan
from longrun.learning.envs.processes import start_process
from longrun.learning.envs.spaces import describe
from longrun.learning.envs.worker_pool import open_pool
from longrun.learning.options.acting import Acting
from longrun.learning.options.config_options import make_config
from longrun.learning.train.open_run import OpenRun, open_env
from longrun.learning.train.training import Training
from run_specs import spec_of
from tiny_envs import (
    ENDLESS,
    ITERATION,
    MORTAL,
    MORTAL_DISCRETE,
    TINY,
    Drift,
    Faulty,
    bits,
    is_running,
    wait_until,
)

ENVS = {"mortal": MORTAL, "discrete": MORTAL_DISCRETE, "endless": ENDLESS}
VICTIM = seeding.episode_seed(0, seeding.EPISODE, 3, 0)
"""reset seed of environment 3, which is the second worker's, in its first episode"""


def result_of(env: str, num_workers: int) -> tuple[Any, ...]:
    """All results of three iterations: state, gain, progress reports, evaluation."""
    reports = []
    agent = APO(ENVS[env], num_workers=num_workers, **TINY)
    agent.learn(
        3 * ITERATION,
        eval_every=2 * ITERATION,
        eval_steps=100,
        on_log=lambda p: reports.append((p.step, p.metrics, repr(p.evaluation))),
    )
    return bits(agent.snapshot), agent.gain_, reports, repr(agent.evaluate(100))


@cache
def result_in_process(env: str) -> tuple[Any, ...]:
    return result_of(env, 0)


SLOW = (("mortal", 1), ("mortal", 3), ("endless", 2))


# Four environments in one part, in two equal parts and in three unequal ones.
@pytest.mark.parametrize(
    ("env", "num_workers"),
    [
        ("mortal", 2),
        ("discrete", 3),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in SLOW),
    ],
)
def test_workers_give_bit_identical_results(env, num_workers):
    assert result_of(env, num_workers) == result_in_process(env)


def test_the_environments_used_here_do_terminate_and_reach_time_limits():
    env = Drift(limit=9, wall=1.5)
    ends = []
    for seed in range(20):
        env.reset(seed=seed)
        facts = itertools.chain.from_iterable(env.step(env.action_space.low)[2:4] for _ in range(9))
        ends.append(list(facts))
    assert any(any(e[::2]) for e in ends)
    assert any(e[-1] and not any(e[::2]) for e in ends)


@pytest.mark.slow
def test_more_workers_than_environments_are_not_started(tmp_path):
    APO(partial(Drift, notes=tmp_path), num_workers=9, **TINY).learn(ITERATION)
    pids = {path.name for path in tmp_path.iterdir()} - {str(os.getpid())}
    assert len(pids) == 4


def test_a_replica_among_others_learns_what_it_learns_alone_to_the_bit():
    settings = list(itertools.product((0.0, 0.3), (0, 1, 2)))
    configs = [make_config("apo", **TINY, value_constraint=nu) for nu, _ in settings]
    seeds = [seed for _, seed in settings]
    loop = open_env(MORTAL)
    starts = [loop.fresh_snapshot(c, s) for c, s in zip(configs, seeds, strict=True)]
    spec = spec_of(
        configs, seeds, 3 * ITERATION, num_workers=2, eval_every=ITERATION, eval_steps=100
    )
    reports: dict[Any, list[str]] = defaultdict(list)
    together = Training(
        OpenRun(spec, loop, starts), lambda p: reports[p.replica].append(repr(p.evaluation))
    ).run(progress_bar=False)
    for index, (nu, seed) in enumerate(settings):
        agent = APO(MORTAL, seed=seed, num_workers=0, value_constraint=nu, **TINY)
        agent.learn(
            3 * ITERATION,
            eval_every=ITERATION,
            eval_steps=100,
            on_log=lambda p: reports["alone"].append(repr(p.evaluation)),
        )
        assert bits(together.snapshots[index]) == bits(agent.snapshot), (nu, seed)
        assert reports[index] == reports.pop("alone"), (nu, seed)
    different = {tuple(bits(s.state.params).values()) for s in together.snapshots}
    assert len(different) == len(settings)


def test_a_worker_that_raises_is_named_with_its_traceback(nothing_left):
    agent = APO(partial(Faulty, "raise", VICTIM, notes=nothing_left), num_workers=2, **TINY)
    with pytest.raises(WorkerError) as caught:
        agent.learn(5 * ITERATION)
    message = str(caught.value)
    assert message.startswith("worker 1 failed")
    assert "environment 3 of replica 0 failed at step 4 of iteration 0" in message
    assert "\n" not in message
    trace = "\n".join(caught.value.__notes__)
    assert "Traceback" in trace
    assert "ArithmeticError: the motor jammed" in trace
    assert "tiny_envs.py" in trace


@pytest.mark.parametrize("fault, cause", [("kill", "SIGKILL"), ("exit", "exit status 7")])
def test_a_worker_that_dies_is_named_with_the_cause(fault, cause, nothing_left):
    agent = APO(partial(Faulty, fault, VICTIM, notes=nothing_left), num_workers=2, **TINY)
    with pytest.raises(WorkerError, match=rf"worker 1 \(process \d+\) died: {cause}"):
        agent.learn(5 * ITERATION)


@pytest.mark.parametrize("fault, what", [("obs", "observation"), ("reward", "reward")])
def test_non_finite_values_of_a_worker_are_the_same_error_in_one_line(fault, what, nothing_left):
    agent = APO(partial(Faulty, fault, VICTIM, notes=nothing_left), num_workers=2, **TINY)
    message = f"^environment 3 of replica 0 returned a non-finite {what} of .*nan.* at step 4 of"
    with pytest.raises(NonFiniteError, match=message) as caught:
        agent.learn(5 * ITERATION)
    assert "\n" not in str(caught.value)


def test_the_error_of_an_environment_that_loses_its_connection_has_a_traceback(nothing_left):
    agent = APO(partial(Faulty, "reset", VICTIM, notes=nothing_left), num_workers=2, **TINY)
    with pytest.raises(WorkerError, match=r"worker 1 failed(.|\n)*the simulator hung up"):
        agent.learn(ITERATION)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ArithmeticError])
@pytest.mark.parametrize("num_workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_an_exception_from_on_log_ends_the_run_and_keeps_what_was_learned(
    error, num_workers, nothing_left
):
    def raise_second_time(progress):
        if progress.step == 2 * ITERATION:
            raise error("enough")

    agent = APO(partial(MORTAL, notes=nothing_left), num_workers=num_workers, **TINY)
    with pytest.raises(error, match="enough"):
        agent.learn(50 * ITERATION, on_log=raise_second_time)
    assert agent.steps_ == 2 * ITERATION
    agent.learn(2 * ITERATION)
    uninterrupted = APO(MORTAL, num_workers=0, **TINY).learn(4 * ITERATION)
    assert bits(agent.snapshot) == bits(uninterrupted.snapshot)


def test_a_worker_that_hangs_is_ended_when_the_run_is(nothing_left):
    def interrupt(progress):
        raise KeyboardInterrupt

    began = time.monotonic()
    env = partial(Faulty, "hang", VICTIM, at=20, notes=nothing_left)
    with pytest.raises(KeyboardInterrupt):
        APO(env, num_workers=2, **TINY).learn(9 * ITERATION, on_log=interrupt)
    assert time.monotonic() - began < 30


@pytest.mark.slow
def test_stopping_many_runs_early_raises_nothing_in_their_threads(nothing_left):
    """pytest turns an exception in a thread into a failure."""
    agent = APO(partial(MORTAL, pause=1e-4, notes=nothing_left), num_workers=3, **TINY)
    for _ in range(3):
        agent.learn(50 * ITERATION, on_log=lambda progress: False)


@pytest.mark.slow
@pytest.mark.parametrize("in_thread", [False, True])
@pytest.mark.parametrize("fault", ["sleep", "hold_the_lock", "stop"])
def test_workers_exit_when_their_parent_is_killed(fault, in_thread, nothing_left):
    opened = "thread.submit(open_pool, plan, 2).result()" if in_thread else "open_pool(plan, 2)"
    program = f"""
from concurrent.futures import ThreadPoolExecutor
from functools import partial
import failing_envs
from longrun.learning.envs.plan import Plan
from longrun.learning.envs.spaces import describe
from longrun.learning.envs.worker_pool import open_pool
from longrun.learning.options.acting import Acting

env = partial(failing_envs.Failing, failing_envs.{fault}, {VICTIM}, notes={str(nothing_left)!r})
plan = Plan(env, describe(env()), Acting((8,), True), (0,), num_envs=4, rollout_steps=16)
with ThreadPoolExecutor(1) as thread:
    pool = {opened}
    pool.start("restart", 0, [0, 0, 0, 0])()  # so that they run before the thread ends
pool.start("rollout", 0, 0)()  # one worker hangs in a step, the other waits for the next command
"""
    parent = subprocess.Popen([sys.executable, "-c", program], env=child_environment())
    try:
        wait_until(nothing_left.with_name("reached").exists)
        workers = {path.name for path in nothing_left.iterdir()} - {str(parent.pid)}
        assert len(workers) == 2
        assert all(map(is_running, workers))
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    wait_until(lambda: not any(map(is_running, workers)), seconds=15)


def test_a_pool_outlives_the_thread_that_opened_it():
    """The kernel ends a worker with the thread that started it, not with that thread's process."""
    plan = Plan(
        env_factory(MORTAL),
        describe(MORTAL()),
        Acting((8,), True),
        (0,),
        num_envs=4,
        rollout_steps=16,
    )
    with ThreadPoolExecutor(1) as short:
        pool = short.submit(open_pool, plan, 2).result()
        pool.start("restart", 0, [0, 0, 0, 0])()  # so that they run before the thread ends
    try:
        time.sleep(0.2)  # the signal would come at once
        pool.start("rollout", 0, 0)()
    finally:
        pool.close()


def test_a_process_that_was_forked_starts_workers():
    """None of its parent's threads is in it."""
    program = """
import os
from longrun.learning.envs.processes import start_process
assert start_process("keyword", [], [], {}).wait() == 0
child = os.fork()
if child:
    os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
os._exit(start_process("keyword", [], [], {}).wait(30))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], env=child_environment(), capture_output=True, timeout=60
    )
    assert done.returncode == 0, done.stderr


def test_a_start_that_fails_is_an_error_of_the_caller(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(FileNotFoundError):
        start_process("keyword", [], [], {})


def test_a_worker_whose_parent_died_before_it_began_exits():
    """No signal tells it: it must look itself. Nothing is its own parent."""
    program = (
        "import os\nfrom longrun.learning.envs.processes import end_with\n"
        "end_with(os.getpid())\nprint('alive')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=child_environment(), capture_output=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"")


def test_modules_in_the_current_folder_do_not_shadow_those_of_the_workers(tmp_path, monkeypatch):
    (tmp_path / "cloudpickle.py").write_text("raise ImportError('the wrong module')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    APO(MORTAL, num_workers=1, **TINY).learn(ITERATION)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_pool_closes_every_file_descriptor(num_workers):
    plan = Plan(
        env_factory(MORTAL),
        describe(MORTAL()),
        Acting((8,), True),
        (0,),
        num_envs=4,
        rollout_steps=16,
    )
    before = os.listdir("/proc/self/fd")
    for _ in range(2):
        open_pool(plan, num_workers).close()
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_a_worker_that_has_died_is_not_killed_again_when_the_pool_is_closed(monkeypatch):
    """Another process may have its number by then."""
    plan = Plan(
        env_factory(MORTAL),
        describe(MORTAL()),
        Acting((8,), True),
        (0,),
        num_envs=4,
        rollout_steps=16,
    )
    pool = open_pool(plan, 2)
    killed: list[int] = []
    monkeypatch.setattr(os, "killpg", lambda pid, _: killed.append(pid))
    dead, alive = (worker.process.pid for worker in pool._workers)
    os.kill(dead, signal.SIGKILL)
    wait_until(lambda: pool.has_failed, 10)
    pool.close()
    pool.close()
    assert sorted(killed) == sorted([dead, alive])


def test_a_negative_number_of_workers_is_refused():
    with pytest.raises(ValueError, match=r"num_workers=-1 must be 0 or more"):
        PPO(MORTAL, num_workers=-1, **TINY)
    with pytest.raises(ValueError, match="workers"):
        spec_of([make_config("apo", **TINY)], [0], ITERATION, num_workers=-1)


class Sore(Drift):
    """Fails in a step, and again when it is closed."""

    def step(self, action):
        raise ArithmeticError("the motor jammed")

    def close(self):
        raise OSError("and the door sticks")


@pytest.mark.slow
def test_an_environment_that_cannot_even_be_closed_does_not_hide_its_error():
    spaces = describe(MORTAL())
    plan = Plan(Sore, spaces, Acting((8,), True), (0,), num_envs=4, rollout_steps=16)
    pool = open_pool(plan, 2)
    try:
        pool.start("restart", 0, [0] * 4)()
        with pytest.raises(WorkerError, match=r"worker \d failed(.|\n)*the motor jammed"):
            pool.start("rollout", 0, 0)()
    finally:
        pool.close()


@pytest.mark.slow
def test_hundreds_of_replicas_can_wait_for_one_worker_and_be_interrupted():
    """A socket takes a few hundred messages; more requests must not block the pool."""
    replicas = 600
    slow = partial(Faulty, "hang", seeding.episode_seed(0, seeding.EPISODE, 0, 0))
    plan = Plan(
        slow,
        describe(MORTAL()),
        Acting((8,), True),
        tuple(range(replicas)),
        num_envs=1,
        rollout_steps=16,
    )
    pool = open_pool(plan, 1)
    pool.start("restart", 0, [0])()
    began = time.monotonic()
    for replica in range(replicas):
        pool.start("rollout", replica, 0)
    pool.close()
    assert time.monotonic() - began < 30
