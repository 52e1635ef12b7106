"""The same sweep on a Ray cluster: one is started here, on this machine, with two cores.

Ray warns of much that is no fault of ours, and warnings are errors here: sweeps run in processes of
their own. The cluster belongs to the process that runs these tests, whichever of them it runs.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
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
from longrun.sweeps import ray_workers as cluster
from longrun.sweeps.ray_actor import RemoteWorker, read_files, write_files


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environment() -> dict[str, str]:
    """Without the address of another cluster."""
    return {name: v for name, v in child_environment().items() if name != "RAY_ADDRESS"}


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
    """Its address. A short folder: sockets have short names."""
    place, port = Path(tempfile.mkdtemp(prefix="ray", dir="/tmp")), free_port()
    head = ["start", "--head", "--block", "--num-cpus", "2", "--port", str(port)]
    options = ["--include-dashboard=false", "--disable-usage-stats", "--temp-dir", str(place)]
    process = subprocess.Popen(
        [str(Path(sys.executable).parent / "ray"), *head, *options],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if "Ray runtime started" in line:
                break
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()  # it then ends all that it has started
        with suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=20)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        shutil.rmtree(place, ignore_errors=True)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same runs without a sweep."""
    from longrun.cli import main

    out = tmp_path_factory.mktemp("runs")
    for seed in (0, 1):
        command = sweep_arguments(run_of(out, seed), "--workers", "0", "--seeds", "1")
        assert main(["train", *command[1:], "--seed", str(seed)]) == 0
    return out


def test_a_sweep_on_a_cluster_gives_what_it_gives_here(ray, expected, tmp_path):
    out = tmp_path / "sweep"
    done = run(*sweep_arguments(out, "--ray", ray, "--workers", "2"))
    assert (done.returncode, done.stderr) == (0, "")
    assert f"sweep in {out}: 2 runs, 2 at once on Ray {ray}" in done.stdout
    assert f"2 of 2 runs are finished in {out}" in done.stdout
    for seed in (0, 1):
        assert evaluations(run_of(out, seed)) == evaluations(run_of(expected, seed))


ELSEWHERE = """
from longrun.sweeps import ray_workers as cluster

start = cluster.RayWorkers.start

def elsewhere(self, slot, run):
    self._folder.token = "of a folder that is not there"
    start(self, slot, run)

cluster.RayWorkers.start = elsewhere
"""
INTERRUPTED = """
from longrun.sweeps import scheduler as drive

def on_message(self, slot, message):
    if message.get("steps"):
        raise KeyboardInterrupt

drive.Sweep.on_message = on_message
"""


@pytest.mark.slow
def test_runs_come_back_from_elsewhere_and_go_there_again(ray, expected, tmp_path):
    """Workers that do not see the folder; the cluster is found by itself."""
    out = tmp_path / "sweep"
    command = sweep_arguments(out, "--ray", "auto", env=SLOW)
    stopped = run(*command, patches=ELSEWHERE + INTERRUPTED, address=ray)
    again = f"longrun sweep --resume --out {out} --ray auto"
    assert stopped.stderr == f"longrun: interrupted; {again} resumes it\n"
    assert stopped.returncode == 130
    both = [run_of(out, seed, SLOW) for seed in (0, 1)]
    saved = [saved_iterations(path) for path in both]
    assert 1 <= max(saved) < ITERATIONS
    done = run(*again.split()[1:], patches=ELSEWHERE, address=ray)
    assert (done.returncode, done.stderr) == (0, "")
    for seed, path in enumerate(both):
        assert evaluations(path) == evaluations(run_of(expected, seed))


# Addresses that do not answer.


TIMED = """
import time
from longrun.sweeps import ray_workers as cluster

connect = cluster.connect

def timed(address):
    began = time.monotonic()
    try:
        return connect(address)
    finally:
        print("took", time.monotonic() - began)

cluster.connect = timed
cluster.ANSWER_SECONDS -= 10.0  # the tests have no time to lose
"""


def refusal(address: str, out: Path) -> str:
    done = run(*sweep_arguments(out, "--ray", address), patches=TIMED)
    assert done.returncode == 2
    assert float(done.stdout.split()[-1]) < 20 - 10
    # Under load the process outlives Ray's own limit of 5 s, and Ray's library logs that.
    return "".join(line for line in done.stderr.splitlines(True) if line.startswith("longrun"))


def test_nobody_at_an_address_is_said_at_once(tmp_path):
    address = f"127.0.0.1:{free_port()}"
    assert refusal(address, tmp_path / "sweep") == (
        f"longrun: --ray {address}: no Ray cluster answers ([Errno 111] Connection refused); start"
        " one with ray start --head\n"
    )


def test_somebody_else_at_an_address_is_said_in_time(tmp_path):
    """A server that takes the call and says nothing."""
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


# What a worker on a cluster does, here.


def test_a_remote_worker_sets_its_environment_and_tells_news_once(monkeypatch, tmp_path):
    monkeypatch.setenv("LONGRUN_TEST", "before")
    monkeypatch.setattr(sys, "path", ["a"])
    worker = RemoteWorker({"LONGRUN_TEST": "1"}, ["a", "b"])
    assert (os.environ["LONGRUN_TEST"], sys.path) == ("1", ["a", "b"])
    worker.report({"steps": 3})
    assert (worker.progress(), worker.progress()) == ({"steps": 3}, None)


def test_a_folder_travels_whole_and_what_vouches_for_it_comes_last(tmp_path, monkeypatch):
    files = {name: name.encode() for name in ("summary.json", "a", "checkpoint/checkpoint.json")}
    files |= {"checkpoint/state": b"", "metrics.csv": b"1"}
    order: list[str] = []
    from longrun import files as module

    write = module.write_bytes
    monkeypatch.setattr(module, "write_bytes", lambda p, c: (order.append(p.name), write(p, c)))
    write_files(tmp_path, files)
    assert order[-2:] == ["checkpoint.json", "summary.json"]
    assert read_files(tmp_path) == files
