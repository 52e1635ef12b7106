"""SIGKILL at random moments: what is resumed ends as if nothing had happened, to the bit."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from faults.processes import (
    DEVICE,
    OFTEN,
    ROOT,
    SMALL,
    STEPS,
    TINY,
    Checks,
    Process,
    call,
    child_variables,
    descendants,
    differences,
    ended,
    require,
    resume,
    start,
    train,
)

sys.path.insert(0, str(ROOT / "tests"))

from ray_cluster import ray_cluster

SWEEP = ["--env", "Pendulum-v1", "--seeds", "2", "--steps", str(400 * STEPS)]
SWEEP += ["--eval-every", str(100 * STEPS), "--eval-steps", "20", *SMALL]
Case = Callable[[random.Random], Iterator[str]]


def checks(folder: Path) -> Checks:
    """By turns on the host, on a device, in a sweep and in a sweep on Ray."""
    with ray_cluster(child_variables()) as cluster:
        places: dict[str, Case] = {
            "host": _runs(folder / "host", train(TINY, folder / "host" / "run", 300, 50)),
            "device": _runs(folder / "device", train(DEVICE, folder / "device" / "run", 900, 300)),
            "sweep": _sweeps(folder / "sweep", ["--workers", "2"]),
            "ray": _sweeps(folder / "ray", ["--ray", cluster.address], cluster.pid),
        }
        for seed, place in zip(itertools.count(), itertools.cycle(places)):
            yield (
                f"{place}-{seed}",
                lambda place=place, seed=seed: places[place](random.Random(seed)),
            )


def _runs(folder: Path, command: list[str]) -> Case:
    """Kills of `longrun train` while it trains."""
    run, whole = folder / "run", folder / "whole"
    longest = _seconds_of([*command[:-1], str(whole)])

    def case(rng: random.Random) -> Iterator[str]:
        def begin() -> Process:
            shutil.rmtree(run, ignore_errors=True)
            process = start(command, OFTEN)
            _wait_for(run / "config.json", process)
            return process

        process = _alive_after(begin, rng.uniform(0, longest))
        process.kill()
        process.communicate()
        status, errors = call(resume(run, command), OFTEN)
        if status != 0:
            yield f"resumed, it ends with status {status}: {errors}"
        else:
            yield from differences(run, whole)

    return case


def _sweeps(folder: Path, where: list[str], cluster: int | None = None) -> Case:
    """Kills of a sweep's own process or of one of its workers, which may be a cluster's."""
    out, whole = folder / "sweep", folder / "whole"
    sweep = ["sweep", "apo", *SWEEP, "--out"]
    longest = _seconds_of([*sweep, str(whole), "--workers", "2"])
    names = [path.name for path in (whole / "runs").iterdir()]

    def case(rng: random.Random) -> Iterator[str]:
        def begin() -> Process:
            shutil.rmtree(out, ignore_errors=True)
            process = start([*sweep, str(out), *where])
            _wait_for(out / "runs", process)
            return process

        process = _alive_after(begin, rng.uniform(0, longest))
        workers = _training(descendants(cluster or process.pid))
        victim = rng.choice([process.pid, *workers])
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
        status, errors = ended(process)
        if victim != process.pid and status != 0:
            yield f"a worker was killed, and the sweep ends with status {status}: {errors}"
        status, errors = call(["sweep", "--resume", "--out", str(out), "--quiet", *where])
        if status != 0:
            yield f"resumed, it ends with status {status}: {errors}"
        for name in names:
            yield from differences(out / "runs" / name, whole / "runs" / name)

    return case


def _seconds_of(command: list[str]) -> float:
    """Run the command that is not interrupted; how long it took."""
    began = time.monotonic()
    require(command)
    return time.monotonic() - began


def _alive_after(begin: Callable[[], Process], seconds: float) -> Process:
    """A process that has run for so long; one that ends earlier is tried again for half of it."""
    while True:
        process = begin()
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            return process
        process.communicate()
        seconds /= 2


def _training(pids: list[int]) -> list[int]:
    """Those processes that train runs."""
    found = []
    for pid in pids:
        with contextlib.suppress(OSError):
            title = Path(f"/proc/{pid}/cmdline").read_bytes()
            if b"RemoteWorker" in title or b"longrun.lab.sweeps.worker_process" in title:
                found.append(pid)
    return found


def _wait_for(path: Path, process: Process, seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not path.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
