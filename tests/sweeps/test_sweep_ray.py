"""Sweeps on a Ray cluster, which is started on this machine with two cores.

Ray emits warnings of its own, which would be errors in this process: sweeps run in other processes.
Each test process that runs some of these tests has its own cluster.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fake_workers import (
    ITERATIONS,
    SLOW,
    child_environment,
    evaluations,
    launch,
    run_of,
    saved_iterations,
    sweep_arguments,
)
from longrun.lab.sweeps import ray_workers as cluster
from longrun.lab.sweeps.ray_actor import RemoteWorker, read_files, write_files
from ray_cluster import free_port, ray_cluster


def run(*command: str, patches: str = "", address: str = "") -> subprocess.CompletedProcess[str]:
    """`longrun COMMAND` in a process of its own, where an empty address is none."""
    process = launch([*command], patches, RAY_ADDRESS=address)
    try:
        out, err = process.communicate(timeout=120)
    except BaseException:
        process.kill()
        process.communicate()
        raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)


@pytest.fixture(scope="module")
def ray() -> Iterator[str]:
    """The cluster's address."""
    with ray_cluster(child_environment()) as started:
        yield started.address


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same runs without a sweep."""
    from longrun.cli import main

    out = tmp_path_factory.mktemp("runs")
    for seed in (0, 1):
        command = sweep_arguments(run_of(out, seed), "--workers", "0", "--seeds", "1")
        assert main(["train", *command[1:], "--seed", str(seed)]) == 0
    return out


@pytest.mark.slow
def test_a_sweep_on_a_cluster_gives_the_same_results(ray, expected, tmp_path):
    out = tmp_path / "sweep"
    done = run(*sweep_arguments(out, "--ray", ray, "--workers", "2"))
    assert (done.returncode, done.stderr) == (0, "")
    assert f"sweep in {out}: 2 runs, 2 at once on Ray {ray}" in done.stdout
    assert f"2 of 2 runs are finished in {out}" in done.stdout
    for seed in (0, 1):
        assert evaluations(run_of(out, seed)) == evaluations(run_of(expected, seed))


ELSEWHERE = """
from longrun.lab.sweeps import ray_workers as cluster

start = cluster.RayWorkers.start

def elsewhere(self, *run):
    self._token = "of another folder"
    start(self, *run)

cluster.RayWorkers.start = elsewhere
"""
INTERRUPTED = """
from longrun.lab.sweeps import scheduler as drive

def on_message(self, slot, message):
    if message.get("steps"):
        raise KeyboardInterrupt

drive.Sweep.on_message = on_message
"""


@pytest.mark.long
def test_runs_are_copied_from_and_to_workers_that_do_not_see_the_folder(ray, expected, tmp_path):
    """The address of the cluster is found by Ray."""
    out = tmp_path / "sweep"
    command = sweep_arguments(out, "--ray", "auto", env=SLOW)
    stopped = run(*command, patches=ELSEWHERE + INTERRUPTED, address=ray)
    again = f"longrun sweep --resume --out {out} --trust --ray auto"
    assert stopped.stderr == f"longrun: interrupted; {again} resumes it\n"
    assert stopped.returncode == 130
    both = [run_of(out, seed, SLOW) for seed in (0, 1)]
    saved = [saved_iterations(path) for path in both]
    assert 1 <= max(saved) < ITERATIONS
    done = run(*again.split()[1:], patches=ELSEWHERE, address=ray)
    assert (done.returncode, done.stderr) == (0, "")
    for seed, path in enumerate(both):
        assert evaluations(path) == evaluations(run_of(expected, seed))


@pytest.mark.long
def test_runs_that_hang_are_listed_and_the_rest_is_trained(ray, tmp_path):
    """Seed 0 hangs in Python, 1 holds Python's lock, 2 is stopped and 3 is not hindered."""
    out, env = tmp_path / "sweep", "failing_envs:HangingDrift-v0"
    limits = ["--step-timeout", "2", "--retries", "0", "--ray", ray, "--seeds", "4"]
    patch = "from longrun.lab.sweeps import worker_watch\nworker_watch.SHORTEST_SILENCE = 4.0"
    done = run(*sweep_arguments(out, *limits, env=env), patches=patch)
    assert (done.returncode, done.stderr) == (1, "")
    errors = {f["run"]: f["error"] for f in json.loads((out / "failures.json").read_text())}
    names = [run_of(out, seed, env).name for seed in range(4)]
    assert sorted(errors) == names[:3]
    assert "this process made no progress for 2 s: environment 0" in errors[names[0]]
    for name in names[1:3]:
        assert "the Ray worker gave no sign of life for 4 s: it was stopped" in errors[name]
    assert (run_of(out, 3, env) / "summary.json").exists()


# Addresses that do not answer.


TIMED = """
import time
from longrun.lab.sweeps import ray_workers as cluster

connect = cluster.connect

def timed(address):
    began = time.monotonic()
    try:
        return connect(address)
    finally:
        print("took", time.monotonic() - began)

cluster.connect = timed
cluster.ANSWER_SECONDS -= 10.0  # to keep the test short
"""


def refusal(address: str, out: Path) -> str:
    done = run(*sweep_arguments(out, "--ray", address), patches=TIMED)
    assert done.returncode == 2
    assert float(done.stdout.split()[-1]) < 20 - 10
    # Under load the process outlives Ray's own limit of 5 s, and Ray's library logs that.
    return "".join(line for line in done.stderr.splitlines(True) if line.startswith("longrun"))


def test_an_address_where_no_server_listens_is_reported_at_once(tmp_path):
    address = f"127.0.0.1:{free_port()}"
    assert refusal(address, tmp_path / "sweep") == (
        f"longrun: --ray {address}: no Ray cluster answers ([Errno 111] Connection refused); start"
        " one with ray start --head\n"
    )


@pytest.mark.slow
def test_a_server_that_does_not_answer_is_reported_in_time(tmp_path):
    """A server that accepts the connection and sends nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        assert refusal(address, tmp_path / "sweep") == (
            f"longrun: --ray {address}: no Ray cluster answers (no answer in 2 s); start one with"
            " ray start --head\n"
        )


@pytest.mark.parametrize("address", ["localhost", "localhost:", "localhost:port"])
def test_an_address_has_a_port(address):
    with pytest.raises(ValueError, match=rf"--ray {address} must be auto or HOST:PORT"):
        cluster.require_answer(address)


# A cluster's worker in this process.


def test_a_remote_worker_sets_variables_and_hands_out_each_message_once(monkeypatch, tmp_path):
    monkeypatch.setenv("LONGRUN_TEST", "before")
    monkeypatch.setattr(sys, "path", ["a"])
    worker = RemoteWorker({"LONGRUN_TEST": "1"}, ["a", "b"])
    assert (os.environ["LONGRUN_TEST"], sys.path) == ("1", ["a", "b"])
    worker.report({"steps": 3})
    assert (worker.progress(), worker.progress()) == ({"steps": 3}, None)


def test_all_files_are_copied_and_checkpoint_and_summary_are_written_last(tmp_path, monkeypatch):
    files = {name: name.encode() for name in ("summary.json", "a", "checkpoint/checkpoint.json")}
    files |= {"checkpoint/state": b"", "metrics.csv": b"1"}
    order: list[str] = []
    from longrun.base import files as module

    write = module.write_bytes
    monkeypatch.setattr(module, "write_bytes", lambda p, c: (order.append(p.name), write(p, c)))
    write_files(tmp_path, files)
    assert order[-2:] == ["checkpoint.json", "summary.json"]
    assert read_files(tmp_path) == files
