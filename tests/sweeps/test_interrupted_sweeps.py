"""Sweeps whose workers or main process are killed, interrupted or stopped."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import pytest

from fake_workers import (
    GATED,
    ITERATIONS,
    InlineWorkers,
    evaluations,
    launch,
    metric_rows,
    run_of,
    saved_iterations,
    short_runs,
    sweep_arguments,
)
from longrun.base.files import FolderLock
from longrun.cli import main
from longrun.lab.sweeps import run_sweep as start
from longrun.lab.sweeps.local_workers import LocalWorkers
from longrun.lab.sweeps.sweep_folder import SweepFolder
from longrun.lab.sweeps.worker_process import train_run
from longrun.learning.runs.spec import RunSpec
from tiny_envs import GATE, ITERATION, is_running, wait_until


def workers_of(process: subprocess.Popen[str]) -> list[int]:
    """Children of any of its threads."""
    threads = Path(f"/proc/{process.pid}/task").iterdir()
    return [int(pid) for thread in threads for pid in (thread / "children").read_text().split()]


def started(folder: SweepFolder) -> tuple[RunSpec, Path]:
    """The first run of a sweep, and its folder."""
    [(name, run), *_] = folder.runs.items()
    return run, folder.folder(name)


def written_since(run: Path, moment: float) -> bool:
    return (run / "metrics.csv").stat().st_mtime > moment


@pytest.mark.slow
def test_results_do_not_depend_on_killed_workers_a_killed_sweep_and_an_interrupt(
    whole, tmp_path, gate, inline
):
    out = tmp_path / "sweep"
    command = sweep_arguments(out, "--workers", "2", env=GATED)
    both = [run_of(out, seed, GATED) for seed in (0, 1)]

    killed = launch(command, **{GATE: str(gate)})
    wait_until(lambda: all(metric_rows(run) >= 3 for run in both))
    lost, moment = workers_of(killed), time.time()
    for pid in lost:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: all(metric_rows(run) >= 3 and written_since(run, moment) for run in both))
    workers = workers_of(killed)
    assert len(workers) == 2
    assert not set(workers) & set(lost)
    killed.kill()
    printed, _ = killed.communicate()
    for pid in lost:
        assert re.search(rf"failed, will be retried .*process {pid} died: SIGKILL", printed)
    gate.unlink()
    wait_until(lambda: not any(map(is_running, workers)))
    saved = [saved_iterations(run) for run in both]
    assert all(2 <= at < ITERATIONS for at in saved)  # the workers noticed it and saved

    gate.touch()
    interrupted = launch(command, **{GATE: str(gate)})
    wait_until(lambda: all(metric_rows(run) > at + 1 for run, at in zip(both, saved, strict=True)))
    interrupted.send_signal(signal.SIGINT)
    assert interrupted.stdout is not None
    told = next(line for line in interrupted.stdout if line.startswith("stopping"))
    assert told == "stopping: 2 runs are being saved\n"
    gate.unlink()
    _, errors = interrupted.communicate(timeout=60)
    assert interrupted.returncode == 130
    again = f"longrun sweep --resume --out {out} --trust"
    assert errors == f"longrun: interrupted; {again} resumes it\n"
    later = [saved_iterations(run) for run in both]
    assert sum(saved) < sum(later) < 2 * ITERATIONS

    assert main([*again.split()[1:], "--quiet"]) == 0
    assert not (out / "failures.json").exists()
    for seed, run in enumerate(both):
        assert evaluations(run) == evaluations(run_of(whole, seed))


def test_sigterm_saves_and_ends_with_its_own_status(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(start, "LocalWorkers", InlineWorkers)
    monkeypatch.setattr(InlineWorkers, "start", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    before = signal.getsignal(signal.SIGTERM)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    assert main(sweep_arguments(tmp_path / "sweep")) == 143
    assert signal.signal(signal.SIGTERM, before) is signal.SIG_DFL
    resume = f"longrun sweep --resume --out {tmp_path / 'sweep'} --trust"
    assert capsys.readouterr().err == f"longrun: terminated; {resume} resumes it\n"


def test_an_interrupt_closes_the_workers_and_says_how_to_resume(tmp_path, monkeypatch, capsys):
    closed = []
    monkeypatch.setattr(start, "LocalWorkers", InlineWorkers)
    monkeypatch.setattr(InlineWorkers, "close", lambda self: closed.append(self))

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(InlineWorkers, "start", interrupt)
    assert main(sweep_arguments(tmp_path / "sweep")) == 130
    resume = f"longrun sweep --resume --out {tmp_path / 'sweep'} --trust"
    assert capsys.readouterr().err == f"longrun: interrupted; {resume} resumes it\n"
    assert len(closed) == 1


@pytest.mark.slow
def test_a_stopped_run_is_not_finished_and_is_resumed_to_the_bit(copy, whole):
    folder = SweepFolder.open(copy)
    run, path = started(folder)
    shutil.rmtree(path)
    stopping = threading.Event()

    def report(message: dict[str, Any]) -> None:
        reported.append(message["steps"])
        if message["steps"]:
            stopping.set()

    reported: list[int] = []
    assert train_run(run, path, report, stopping) == {"kind": "stopped"}
    assert reported == [0, ITERATION]
    assert json.loads((path / "summary.json").read_text())["steps"] == ITERATION
    assert not folder.is_finished(path.name)
    reported.clear()
    assert train_run(run, path, lambda m: reported.append(m["steps"]), threading.Event()) == {
        "kind": "done"
    }
    assert reported[0] == ITERATION
    assert folder.is_finished(path.name)
    assert evaluations(path) == evaluations(run_of(whole, 0))


@pytest.mark.slow
def test_a_worker_waits_while_another_is_saving_the_run(copy):
    folder = SweepFolder.open(copy)
    run, path = started(folder)
    lock = FolderLock(path)
    waiting = threading.Timer(0.4, lock.release)
    waiting.start()
    began = time.monotonic()
    assert train_run(run, path, lambda _: None, threading.Event()) == {"kind": "done"}
    assert time.monotonic() - began > 0.35


HUNG = """
import subprocess, sys, time
from longrun.lab.sweeps import worker_process as worker

def hang(*_):
    print(subprocess.Popen(["sleep", "600"]).pid, flush=True)
    time.sleep(600)

worker.STOP_SECONDS = 0.2
worker.train_run = hang
worker.main()
"""


@pytest.mark.slow
def test_a_worker_ends_after_its_sweep_even_if_its_environment_hangs(whole):
    ours, theirs = Pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", HUNG, str(theirs.fileno())],
        pass_fds=(theirs.fileno(),),
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    theirs.close()
    run = next(iter(SweepFolder.open(whole).runs.values())).as_json()
    ours.send_bytes(json.dumps({"run": run, "path": "nowhere"}).encode())
    assert process.stdout is not None
    child = int(process.stdout.readline())
    ours.close()
    process.communicate(timeout=20)
    assert process.returncode == -signal.SIGKILL
    wait_until(lambda: not is_running(child), 10)


def test_a_dead_worker_is_noticed_though_its_child_keeps_the_connection_open(tmp_path, monkeypatch):
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\nsleep 600 &\necho $!\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    folder = SweepFolder.create(tmp_path / "sweep", short_runs(1))
    workers = LocalWorkers(folder, slots=1, native=False)
    workers.start(0, *started(folder))
    received: list[Any] = []
    wait_until(lambda: received.extend(workers.messages(0.05)) or received, 20)
    ((slot, message),) = received
    assert (slot, message["kind"]) == (0, "died")
    log = tmp_path / "sweep" / "workers" / "0.log"
    assert message["error"].endswith(f"died: exit status 3 (see {log})")
    wait_until(lambda: not is_running(int(log.read_text())), 10)
    workers.close()
