"""A SIGKILL before each file operation of a command, and in the middle of writes.

Before each operation of the command that is resumed as well: whatever is left can be resumed.
"""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

from faults.processes import (
    DEVICE,
    SMALL,
    STEPS,
    TINY,
    Check,
    Checks,
    call,
    differences,
    require,
    train,
)

COUNT = """
import os, signal, sys
operations, folder, last = 0, {folder!r}, {last}
writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT

def count(event, arguments):
    global operations
    if event == "open":
        path, _, flags = arguments
        if isinstance(path, int) or not flags & writing:
            return
    elif event in ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "fsync"):
        path = arguments[0]
    else:
        return
    if event == "fsync" or not isinstance(path, int) and os.fspath(path).startswith(folder):
        if operations == last:
            os.kill(os.getpid(), signal.SIGKILL)
        operations += 1

fsync = os.fsync
os.fsync = lambda fd: (sys.audit("fsync", fd), fsync(fd))[1]
sys.addaudithook(count)
at_end = lambda: print("operations", operations, file=sys.stderr)
"""
"""Kills the process before operation number `last` on files in `folder`, counted from 0."""

TORN = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # it kills; Python would ignore it
resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}))
"""
"""Kills the process within the write that makes a file longer than `size` bytes."""
SIZES = (0, 1, 150, 300, 450, 600, 800, 1000, 1500, 2000, 3000, 4000)


def checks(folder: Path) -> Checks:
    sweep = ["sweep", "apo", "--env", "Pendulum-v1", "--workers", "1", "--steps", str(4 * STEPS)]
    sweep += ["--eval-every", str(2 * STEPS), "--eval-steps", "20", *SMALL]
    host = train(TINY, folder / "host" / "run", 4, 2)
    device = train(DEVICE, folder / "device" / "run", 4, 2)
    yield from _of_runs("host", folder / "host", host)
    yield from _of_runs("device", folder / "device", device)
    yield from _of_sweeps(folder / "sweep", [*sweep, "--out", str(folder / "sweep" / "run")])


def _of_runs(name: str, folder: Path, command: list[str]) -> Checks:
    """All operations of a run, of the same run when it is resumed half way, and torn writes."""
    run, whole, half = folder / "run", folder / "whole", folder / "half"
    require([*command, "--out", str(whole)])
    require([*command, "--out", str(half), "--steps", str(2 * STEPS)])
    again = ["train", "--resume", "--out", str(run), "--quiet", "--steps", str(4 * STEPS)]

    def finish() -> tuple[int | None, str]:
        return call(again if (run / "config.json").exists() else command)

    def case(first: list[str], patch: str, begins: Path | None) -> Check:
        def check() -> Iterator[str]:
            shutil.rmtree(run, ignore_errors=True)
            if begins is not None:
                shutil.copytree(begins, run)
            status, errors = call(first, patch)
            if status not in (0, -signal.SIGKILL, -signal.SIGXFSZ):
                yield f"status {status}: {errors}"
            status, errors = finish()
            if status != 0:
                yield f"resumed, it ends with status {status}: {errors}"
            else:
                yield from differences(run, whole)

        return check

    for what, first, begins in (("started", command, None), ("resumed", again, half)):
        for last in range(_operations(run, first, begins)):
            patch = COUNT.format(folder=str(run), last=last)
            yield f"{name}-{what}-operation-{last}", case(first, patch, begins)
        for size in SIZES:
            yield f"{name}-{what}-torn-{size}", case(first, TORN.format(size=size), begins)


def _of_sweeps(folder: Path, command: list[str]) -> Checks:
    """All operations of a sweep's own process."""
    run, whole = folder / "run", folder / "whole"
    require([*command, "--out", str(whole)])
    (name,) = [path.name for path in (whole / "runs").iterdir()]

    def case(last: int) -> Iterator[str]:
        shutil.rmtree(run, ignore_errors=True)
        call(command, COUNT.format(folder=str(run), last=last))
        status, errors = call(command)
        if status != 0:
            yield f"resumed, it ends with status {status}: {errors}"
        else:
            yield from differences(run / "runs" / name, whole / "runs" / name)
        if left := [file.name for file in run.glob(".*")]:
            yield f"it has left {left}"

    for last in range(_operations(run, command, None)):
        yield f"sweep-operation-{last}", lambda last=last: case(last)


def _operations(run: Path, command: list[str], begins: Path | None) -> int:
    """How many operations a command has if it is not killed."""
    shutil.rmtree(run, ignore_errors=True)
    if begins is not None:
        shutil.copytree(begins, run)
    status, errors = call(command, COUNT.format(folder=str(run), last=-1))
    if status != 0:
        raise RuntimeError(f"longrun {' '.join(command)}: status {status}, {errors}")
    return int(errors.split("operations ")[1])
