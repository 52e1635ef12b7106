"""Sweeps from start to end, and failures of runs."""

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
from contextlib import suppress
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from fake_workers import (
    ENV,
    ITERATIONS,
    SLOW,
    InlineWorkers,
    ScriptedWorkers,
    content,
    evaluations,
    launch,
    run_of,
    saved_iterations,
    sweep_arguments,
)
from longrun.cli import main
from longrun.sweeps import run_sweep as start
from longrun.sweeps.live_table import Live
from longrun.sweeps.local_workers import LocalWorkers
from longrun.sweeps.messages import progress_message
from longrun.sweeps.plan import Block, PlannedRun, runs_of
from longrun.sweeps.scheduler import Sweep
from longrun.sweeps.sweep_folder import SweepFolder
from longrun.sweeps.worker_process import train_run
from longrun.train.run_folder import RunFolder
from tiny_envs import ITERATION, TINY_FLAGS, Drift, Faulty, is_running, wait_until

gymnasium.register("Broken-v0", lambda: Faulty("raise"))


@pytest.fixture
def inline(monkeypatch):
    monkeypatch.setattr(start, "LocalWorkers", InlineWorkers)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seeds, by two worker processes. Tests that change it work on a copy."""
    out = tmp_path_factory.mktemp("sweeps") / "whole"
    assert main(sweep_arguments(out, "--workers", "2")) == 0
    return out


@pytest.fixture
def copy(whole: Path, tmp_path: Path) -> Path:
    shutil.copytree(whole, tmp_path / "copy")
    return tmp_path / "copy"


# One pass.


def test_a_sweep_leaves_ordinary_run_folders(whole):
    assert sorted(path.name for path in whole.iterdir()) == ["runs", "sweep.json", "workers"]
    for seed in (0, 1):
        files = {path.name for path in run_of(whole, seed).iterdir()}
        wanted = {"config.json", "metrics.csv", "evaluations.csv", "summary.json", "checkpoint"}
        assert files == wanted
        config = json.loads((run_of(whole, seed) / "config.json").read_text())
        assert (config["replicas"], config["num_workers"]) == ([{"seed": seed}], 0)
        assert (config["eval_every"], config["eval_steps"]) == (2 * ITERATION, 50)


def test_a_worker_has_one_thread_and_does_not_use_the_gpu(tmp_path):
    folder = SweepFolder.create(tmp_path / "sweep", [])
    found = LocalWorkers(folder, slots=2, native=False).variables
    assert {found[name] for name in ("OMP_NUM_THREADS", "NPROC")} == {"1"}
    assert found["JAX_PLATFORMS"] == "cpu"
    assert LocalWorkers(folder, slots=1, native=True).variables == {}


def test_the_same_command_again_changes_nothing(copy, capsys, monkeypatch):
    monkeypatch.setattr(start, "LocalWorkers", InlineWorkers)
    monkeypatch.setattr(InlineWorkers, "start", lambda *_: pytest.fail("a run was started"))
    before = content(copy)
    for command in (sweep_arguments(copy), ["sweep", "--resume", "--out", str(copy), "--quiet"]):
        assert main(command) == 0
        assert content(copy) == before
        assert f"2 of 2 runs are finished in {copy}" in capsys.readouterr().out


def test_an_extended_sweep_leaves_finished_runs_as_they_are(copy, inline, capsys):
    before = {seed: content(run_of(copy, seed)) for seed in (0, 1)}
    assert main(sweep_arguments(copy, "--seeds", "3")) == 0
    assert {seed: content(run_of(copy, seed)) for seed in (0, 1)} == before
    assert json.loads((run_of(copy, 2) / "summary.json").read_text())["steps"] == 640
    assert f"3 of 3 runs are finished in {copy}" in capsys.readouterr().out


def test_more_steps_are_trained_from_the_checkpoints(copy, inline):
    before = (run_of(copy, 0) / "evaluations.csv").read_text()
    assert main([*sweep_arguments(copy), "--steps", "704"]) == 0
    after = (run_of(copy, 0) / "evaluations.csv").read_text()
    assert after.startswith(before) and ",704," in after.removeprefix(before)
    assert json.loads((run_of(copy, 0) / "summary.json").read_text())["steps"] == 704


def test_a_sweep_without_evaluations_has_none(tmp_path, inline):
    out = tmp_path / "sweep"
    command = ["sweep", "apo", "--env", ENV, "--steps", "64", "--no-eval", "--out", str(out)]
    assert main([*command, *TINY_FLAGS]) == 0
    assert not (run_of(out, 0) / "evaluations.csv").exists()
    assert (run_of(out, 0) / "summary.json").exists()


def test_native_environments_share_a_run_on_a_device(tmp_path, inline, monkeypatch):
    monkeypatch.setattr(start, "default_backend", lambda: "gpu")
    out = tmp_path / "sweep"
    small = ["--num-envs", "4", "--rollout-steps", "8", "--hidden-sizes", "4", "--epochs", "1"]
    small += ["--minibatch-size", "16", "--steps", "64", "--no-eval", "--seeds", "2"]
    small += ["--workers", "1"]
    command = ["sweep", "apo", "--env", "jax:access-control", "--grid", "gae_lambda=0.8,0.9"]
    assert main([*command, *small, "--out", str(out), "--quiet"]) == 0
    (run,) = (out / "runs").iterdir()
    assert run.name == "jax-access-control_apo_4-replicas"
    summary = json.loads((run / "summary.json").read_text())
    assert (summary["replicas"], summary["steps"]) == (4, 64)
    assert [(final["seed"], final["gae_lambda"]) for final in summary["final"]] == [
        (0, 0.8),
        (0, 0.9),
        (1, 0.8),
        (1, 0.9),
    ]


# Kills and interrupts.


def workers_of(process: subprocess.Popen[str]) -> list[int]:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return [int(pid) for pid in children.read_text().split()]


def rows(run: Path) -> int:
    with suppress(OSError):
        return (run / "metrics.csv").read_text().count("\n")
    return 0


def written_since(run: Path, moment: float) -> bool:
    return (run / "metrics.csv").stat().st_mtime > moment


def test_results_do_not_depend_on_killed_workers_a_killed_sweep_and_an_interrupt(
    whole, tmp_path, inline
):
    out = tmp_path / "sweep"
    command = sweep_arguments(out, "--workers", "2", env=SLOW)
    both = [run_of(out, seed, SLOW) for seed in (0, 1)]

    killed = launch(command)
    wait_until(lambda: all(rows(run) >= 3 for run in both))
    lost, moment = workers_of(killed), time.time()
    for pid in lost:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: all(rows(run) >= 3 and written_since(run, moment) for run in both))
    workers = workers_of(killed)
    assert len(workers) == 2
    assert not set(workers) & set(lost)
    killed.kill()
    printed, _ = killed.communicate()
    for pid in lost:
        assert re.search(rf"failed, will be retried .*process {pid} died: SIGKILL", printed)
    wait_until(lambda: not any(map(is_running, workers)))
    saved = [saved_iterations(run) for run in both]
    assert all(2 <= at < ITERATIONS for at in saved)  # the workers noticed it and saved

    interrupted = launch(command)
    wait_until(lambda: any(rows(run) > at + 1 for run, at in zip(both, saved, strict=True)))
    interrupted.send_signal(signal.SIGINT)
    printed, errors = interrupted.communicate(timeout=60)
    assert interrupted.returncode == 130
    assert "stopping: 2 runs are being saved" in printed
    again = f"longrun sweep --resume --out {out}"
    assert errors == f"longrun: interrupted; {again} resumes it\n"
    later = [saved_iterations(run) for run in both]
    assert sum(saved) < sum(later) < 2 * ITERATIONS

    assert main([*again.split()[1:], "--quiet"]) == 0
    assert not (out / "failures.json").exists()
    for seed, run in enumerate(both):
        assert evaluations(run) == evaluations(run_of(whole, seed))


def test_sigterm_is_an_interrupt_and_its_handler_is_restored():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), start.sigterm_interrupts():
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(1)
    assert signal.getsignal(signal.SIGTERM) is before


def test_an_interrupt_closes_the_workers_and_says_how_to_resume(tmp_path, monkeypatch, capsys):
    closed = []
    monkeypatch.setattr(start, "LocalWorkers", InlineWorkers)
    monkeypatch.setattr(InlineWorkers, "close", lambda self: closed.append(self))

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(InlineWorkers, "start", interrupt)
    assert main(sweep_arguments(tmp_path / "sweep")) == 130
    resume = f"longrun sweep --resume --out {tmp_path / 'sweep'}"
    assert capsys.readouterr().err == f"longrun: interrupted; {resume} resumes it\n"
    assert len(closed) == 1


def test_a_stopped_run_is_not_finished_and_is_resumed_to_the_bit(copy, whole):
    folder = SweepFolder.open(copy)
    run, path = folder.runs[0], folder.folder(folder.runs[0])
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
    assert not folder.is_finished(run)
    reported.clear()
    assert train_run(run, path, lambda m: reported.append(m["steps"]), threading.Event()) == {
        "kind": "done"
    }
    assert reported[0] == ITERATION
    assert folder.is_finished(run)
    assert evaluations(path) == evaluations(run_of(whole, 0))


def test_a_worker_waits_while_another_is_saving_the_run(copy):
    folder = SweepFolder.open(copy)
    run, path = folder.runs[0], folder.folder(folder.runs[0])
    lock = RunFolder(path).locked()
    lock.__enter__()
    waiting = threading.Timer(0.4, lock.__exit__, (None, None, None))
    waiting.start()
    began = time.monotonic()
    assert train_run(run, path, lambda _: None, threading.Event()) == {"kind": "done"}
    assert time.monotonic() - began > 0.35


HUNG = """
import subprocess, sys, time
from longrun.sweeps import worker_process as worker

def hang(*_):
    print(subprocess.Popen(["sleep", "600"]).pid, flush=True)
    time.sleep(600)

worker.STOP_SECONDS = 0.2
worker.train_run = hang
worker.main()
"""


def test_a_worker_ends_after_its_sweep_even_if_its_environment_hangs(whole):
    ours, theirs = Pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", HUNG, str(theirs.fileno())],
        pass_fds=(theirs.fileno(),),
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    theirs.close()
    run = SweepFolder.open(whole).runs[0].as_json()
    ours.send_bytes(json.dumps({"run": run, "path": "nowhere"}).encode())
    assert process.stdout is not None
    child = int(process.stdout.readline())
    ours.close()
    process.communicate(timeout=20)
    assert process.returncode == -signal.SIGKILL
    wait_until(lambda: not is_running(child), 10)


def test_a_dead_worker_is_noticed_though_its_child_keeps_the_connection_open(
    tmp_path, monkeypatch
):
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\nsleep 600 &\necho $!\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    folder = SweepFolder.create(tmp_path / "sweep", some_runs(1))
    workers = LocalWorkers(folder, slots=1, native=False)
    workers.start(0, folder.runs[0])
    received: list[Any] = []
    wait_until(lambda: received.extend(workers.messages(0.05)) or received, 20)
    ((slot, message),) = received
    assert (slot, message["kind"]) == (0, "died")
    log = tmp_path / "sweep" / "workers" / "0.log"
    assert message["error"].endswith(f"died: exit status 3 (see {log})")
    wait_until(lambda: not is_running(int(log.read_text())), 10)
    workers.close()


# Failures.


def some_runs(seeds: int) -> list[PlannedRun]:
    facts = {"num_envs": 2, "rollout_steps": 4, "minibatch_size": 4}
    return runs_of([Block("apo", ENV, [{}], 8, range(seeds), fixed=facts)])


def test_a_failed_run_is_listed_until_it_is_finished_and_the_others_are_trained(
    tmp_path, inline, capsys, monkeypatch
):
    out = tmp_path / "sweep"
    command = sweep_arguments(out)
    command[command.index(ENV) : command.index(ENV) + 1] = ["Broken-v0", ENV]
    command[command.index("--seeds") + 1] = "1"
    assert main(command) == 1
    printed = capsys.readouterr().out
    again = "0 of 2 runs finished  Broken-v0_apo_seed0: failed, will be retried"
    assert again in printed
    assert "1 of 2 runs are finished" in printed
    error = (
        "EnvironmentFailure: environment 0 of replica 0 failed at step 4 of iteration 0: the motor"
        " jammed"
    )
    assert f"failed after 2 attempts: Broken-v0_apo_seed0: {error}" in printed
    assert f"longrun sweep --resume --out {out} tries them again" in printed
    (failure,) = json.loads((out / "failures.json").read_text())
    assert "ArithmeticError: the motor jammed" in failure.pop("traceback")
    assert failure == {"run": "Broken-v0_apo_seed0", "error": error, "attempts": 2}

    assert main(["sweep", "--resume", "--out", str(out), "--retries", "0"]) == 1
    assert f"failed after 1 attempt: Broken-v0_apo_seed0: {error}" in capsys.readouterr().out

    done = content(run_of(out, 0))
    monkeypatch.setattr(Faulty, "step", Drift.step)
    assert main(["sweep", "--resume", "--out", str(out)]) == 0
    assert content(run_of(out, 0)) == done
    assert not (out / "failures.json").exists()


def test_a_damaged_run_is_not_retried_and_the_others_are_trained(copy, inline, capsys):
    for seed in (0, 1):
        (run_of(copy, seed) / "summary.json").unlink()
    damaged = run_of(copy, 0) / "checkpoint" / "checkpoint.json"
    damaged.write_text("{")
    assert main(sweep_arguments(copy, "--retries", "3")) == 1
    printed = capsys.readouterr().out
    assert f"{run_of(copy, 1).name}: done" not in printed  # --quiet
    assert "1 of 2 runs are finished" in printed
    expected = f"{run_of(copy, 0).name}: FolderError: '{damaged}' is damaged or not readable"
    assert f"failed after 1 attempt: {expected}" in printed


def test_a_run_whose_configuration_is_damaged_fails_too(copy, inline, capsys):
    (run_of(copy, 0) / "summary.json").unlink()
    (run_of(copy, 0) / "config.json").write_text("")
    assert main(sweep_arguments(copy)) == 1
    assert "config.json' is damaged or not readable" in capsys.readouterr().out


def test_a_damaged_summary_is_written_again(copy, whole, inline):
    summary = run_of(copy, 0) / "summary.json"
    summary.write_text('{"steps"')
    assert main(sweep_arguments(copy)) == 0
    final, expected = (
        json.loads((run_of(out, 0) / "summary.json").read_text())["final"] for out in (copy, whole)
    )
    assert final == expected
    assert evaluations(run_of(copy, 0)) == evaluations(run_of(whole, 0))


def test_a_full_disk_ends_the_sweep_in_one_line_and_keeps_what_is_finished(copy, inline, capsys):
    path = run_of(copy, 2)
    path.mkdir()
    (path / "metrics.csv").symlink_to("/dev/full")
    before = {seed: content(run_of(copy, seed)) for seed in (0, 1)}
    assert main(sweep_arguments(copy, "--seeds", "4")) == 1
    assert capsys.readouterr().err == (
        "longrun: the disk is full; free some space and run the same command again: 2 of 4 runs"
        " are finished\n"
    )
    assert {seed: content(run_of(copy, seed)) for seed in (0, 1)} == before
    (path / "metrics.csv").unlink()
    assert main(sweep_arguments(copy, "--seeds", "4")) == 0
    assert rows(path) == 1 + ITERATIONS


def test_a_run_folder_of_another_sweep_is_left_alone(copy, inline, capsys):
    config = run_of(copy, 0) / "config.json"
    facts = json.loads(config.read_text())
    facts["options"]["gae_lambda"] = 0.5
    config.write_text(json.dumps(facts))
    before = content(copy)
    assert main(sweep_arguments(copy)) == 2
    assert capsys.readouterr().err == (
        f"longrun: '{run_of(copy, 0)}' belongs to another sweep: it has gae_lambda=0.5, not 0.95;"
        " move it away or choose another --out\n"
    )
    assert content(copy) == before


def test_a_folder_is_locked_while_a_sweep_runs(copy, inline, capsys):
    before = content(copy)
    with SweepFolder.open(copy).locked():
        for more in ([], ["--seeds", "3"]):
            assert main(sweep_arguments(copy, *more)) == 2
            assert capsys.readouterr().err == (
                f"longrun: '{copy}' is being written by another process\n"
            )
    assert content(copy) == before


# The scheduler alone, with scripted workers.


DIED = {"kind": "died", "error": "the worker died"}
WRONG = {"kind": "failed", "error": "ValueError: no", "again": False, "traceback": "", "errno": 2}


@pytest.mark.parametrize(
    ("retries", "script", "started", "failures"),
    [
        (1, {}, [0, 1, 2], []),
        (1, {0: [DIED]}, [0, 1, 2, 0], []),
        (0, {0: [DIED]}, [0, 1, 2], [("the worker died", 1)]),
        (2, {0: [DIED] * 3}, [0, 1, 2, 0, 0], [("the worker died", 3)]),
        (2, {0: [WRONG]}, [0, 1, 2], [("ValueError: no", 1)]),
    ],
)
def test_failed_runs_are_retried_after_the_others(retries, script, started, failures, tmp_path):
    folder = SweepFolder.create(tmp_path / "sweep", some_runs(3))
    workers = ScriptedWorkers(1, script)
    outcome = Sweep(folder, workers, Live("", wanted=False, log=False), retries).run()
    assert [seed for _, seed in workers.started[:-1]] == started
    assert workers.started[-1] == "closed"
    assert [(f.error, f.attempts) for f in outcome.failures] == failures
    assert len(outcome.finished) == 3 - len(failures)
    assert folder.read_failures() == outcome.failures


def test_every_slot_is_used_and_runs_that_were_started_come_first(tmp_path):
    folder = SweepFolder.create(tmp_path / "sweep", some_runs(4))
    folder.folder(folder.runs[3]).mkdir(parents=True)
    workers = ScriptedWorkers(2, {})
    Sweep(folder, workers, Live("", wanted=False, log=False)).run()
    assert workers.started == [(0, 3), (1, 0), (0, 1), (1, 2), "closed"]


def test_a_search_that_suggests_a_finished_run_is_asked_again(tmp_path):
    runs = some_runs(3)
    folder = SweepFolder.create(tmp_path / "sweep", [])
    for run in runs[:2]:
        folder.folder(run).mkdir(parents=True)
        (folder.folder(run) / "summary.json").write_text('{"steps": 8}')

    class OneByOne:
        def __init__(self) -> None:
            self.left, self.ended = list(runs), []

        def suggest(self, count: int) -> list[PlannedRun]:
            return [self.left.pop(0)] if self.left else []

        def finished(self, run: PlannedRun) -> None:
            self.ended.append(run.seeds[0])

        def to_come(self) -> dict[str, tuple[int, int]]:
            return {}

    search, workers = OneByOne(), ScriptedWorkers(1, {})
    Sweep(folder, workers, Live("", wanted=False, log=False), search=search).run()
    assert workers.started == [(0, 2), "closed"]
    assert search.ended == [0, 1, 2]
    assert [run.seeds for run in SweepFolder.open(folder.path).runs] == [[0], [1], [2]]


def test_messages_are_json_even_if_a_reward_is_not_finite():
    message = progress_message(3)
    assert str(json.loads(json.dumps(message))["reward"]) == "nan"
