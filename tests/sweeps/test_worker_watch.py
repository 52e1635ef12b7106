"""Sweeps whose workers hang: they are ended and reported, and the other runs are trained."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
import threading
from typing import Any

import pytest

from fake_workers import launch, run_of, short_runs, some_runs, sweep_arguments
from longrun.lab.sweeps import local_workers, worker_watch
from longrun.lab.sweeps.live_table import Live
from longrun.lab.sweeps.local_workers import LocalWorkers
from longrun.lab.sweeps.scheduler import Sweep
from longrun.lab.sweeps.sweep_folder import SweepFolder
from longrun.lab.sweeps.worker_process import train_run
from longrun.lab.sweeps.worker_watch import WorkerWatch
from longrun.learning.envs import processes
from tiny_envs import ITERATION, TINY, is_running, wait_until

HANGING = "failing_envs:HangingDrift-v0"


class Clock:
    """A watch, and the time that passes for it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, step_timeout: float) -> None:
        self.now = 0.0
        monkeypatch.setattr(worker_watch.time, "monotonic", lambda: self.now)
        self.watch = WorkerWatch(step_timeout)
        self.watch.started(3)

    def overdue(self, seconds: float, heard: bool | None = None, look: float = 1.0) -> str:
        """Why the worker is overdue at one of the looks in these seconds; empty if it is not."""
        end = self.now + seconds
        while self.now < end:
            self.now += look
            if heard is not None:
                self.watch.heard(3, heard)
            if found := self.watch.overdue():
                return found[3]
        return ""


def test_a_worker_may_be_silent_for_the_limit_of_a_step(monkeypatch):
    clock = Clock(monkeypatch, 40.0)
    assert clock.overdue(100, heard=True) == ""
    assert clock.overdue(38) == ""
    assert clock.overdue(1).startswith("gave no sign of life for 40 s")


def test_a_worker_that_gives_signs_of_life_rarely_is_not_ended(monkeypatch):
    monkeypatch.setattr(worker_watch, "SHORTEST_SILENCE", 30.0)
    assert Clock(monkeypatch, 1.0).overdue(300, heard=True, look=20.0) == ""


def test_a_worker_has_to_begin_its_run_at_some_time(monkeypatch):
    clock = Clock(monkeypatch, 40.0)
    assert clock.overdue(299, heard=False) == ""
    assert clock.overdue(1, heard=False).startswith("did not begin its run in 300 s")
    clock = Clock(monkeypatch, 40.0)
    clock.overdue(1, heard=True)
    assert clock.overdue(1000, heard=False) == ""


def test_time_that_this_process_did_not_run_does_not_count(monkeypatch):
    assert Clock(monkeypatch, 40.0).overdue(3600, look=3600) == ""


def test_without_a_limit_no_worker_is_overdue(monkeypatch):
    assert Clock(monkeypatch, 0.0).overdue(1000) == ""


def test_an_idle_worker_is_not_watched(monkeypatch):
    clock = Clock(monkeypatch, 40.0)
    clock.watch.ended(3)
    assert clock.overdue(1000) == ""


def test_a_worker_that_is_stopped_is_ended_and_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(worker_watch, "START_SECONDS", 0.5)
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\nkill -STOP $$\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    folder = SweepFolder.create(tmp_path / "sweep", short_runs(1))
    workers = LocalWorkers(folder, slots=1, native=False)
    sweep = Sweep(folder, workers, Live("", log=False), retries=0, step_timeout=0.5)
    [failure] = sweep.run().failures
    text = r"the worker process (\d+) did not begin its run in 0.5 s: .*"
    found = re.fullmatch(text, failure.error)
    assert found
    assert not is_running(int(found[1]))


@pytest.mark.slow
def test_a_run_whose_environment_hangs_fails_and_its_worker_has_to_end(tmp_path):
    [run] = some_runs(env=HANGING, grid={}, steps=ITERATION, seeds=[0], fixed=TINY)
    spec = dataclasses.replace(run.spec, step_timeout=0.6)
    message = train_run(spec, tmp_path / "run", lambda _: None, threading.Event())
    assert message["error"].startswith(
        "HungError: this process made no progress for 0.6 s: environment 0 of replica 0 at"
    )
    assert (message["kind"], message["again"], message["ends"]) == ("failed", True, True)


def test_a_worker_that_has_to_end_is_replaced(tmp_path, monkeypatch):
    """Its slot gets another run at once: that must not be given to the process that ends."""
    folder = SweepFolder.create(tmp_path / "sweep", short_runs(2))
    workers = LocalWorkers(folder, slots=1, native=False)
    started = []

    def start_process(module: str, arguments: Any, fds: Any, *_: Any) -> subprocess.Popen[bytes]:
        code = f"""
from multiprocessing.connection import Connection
connection = Connection({arguments[0]})
connection.recv_bytes()
connection.send_bytes(b'{{"kind": "failed", "error": "it hangs", "ends": true}}')
connection.recv_bytes()
"""
        started.append(subprocess.Popen([sys.executable, "-c", code], pass_fds=fds))
        return started[-1]

    monkeypatch.setattr(processes, "start_process", start_process)
    monkeypatch.setattr(local_workers, "EXIT_SECONDS", 0.0)
    for name, run in folder.runs.items():
        workers.start(0, run, folder.folder(name))
        received: list[Any] = []
        wait_until(lambda: received.extend(workers.messages(0.05)) or received, 20)  # noqa: B023
        assert [message["kind"] for _, message in received] == ["failed"]
    assert len(started) == 2
    workers.close()


@pytest.mark.long
def test_runs_that_hang_are_listed_and_the_rest_is_trained(tmp_path):
    """Seed 0 hangs in Python, 1 holds Python's lock, 2 is stopped and 3 is not hindered."""
    out = tmp_path / "sweep"
    limits = ["--step-timeout", "2", "--retries", "0", "--workers", "2", "--seeds", "4"]
    patch = "from longrun.lab.sweeps import worker_watch\nworker_watch.SHORTEST_SILENCE = 4.0"
    process = launch(sweep_arguments(out, *limits, env=HANGING), patch)
    _, errors = process.communicate(timeout=120)
    assert (process.returncode, errors) == (1, "")
    errors = {f["run"]: f["error"] for f in json.loads((out / "failures.json").read_text())}
    names = [run_of(out, seed, HANGING).name for seed in range(4)]
    assert sorted(errors) == names[:3]
    assert "this process made no progress for 2 s: environment 0" in errors[names[0]]
    for name in names[1:3]:
        assert "gave no sign of life for 4 s: it was stopped, or an environ" in errors[name]
    assert (run_of(out, 3, HANGING) / "summary.json").exists()
