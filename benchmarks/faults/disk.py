"""Full disks of several sizes: one line names the file, and with more space the run is resumed.

The disk is a file system in memory, mounted where only this command sees it (Linux).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from faults.processes import (
    DEVICE,
    SMALL,
    STEPS,
    TINY,
    Checks,
    call,
    differences,
    is_one_line,
    require,
    resume,
    train,
)

INSIDE = "FAULTS_NAMESPACE"
KIB = range(4, 84, 4)
FULL = "No space left on device"


def enter_namespace() -> None:
    """Start this command again where it may mount file systems, unless that is done."""
    if INSIDE not in os.environ:
        os.environ[INSIDE] = "1"
        program = [sys.executable, *sys.orig_argv[1:]]
        os.execvp("unshare", ["unshare", "--map-root-user", "--mount", *program])


def checks(folder: Path) -> Checks:
    disk = folder / "disk"
    disk.mkdir()
    for place, env in (("host", TINY), ("device", DEVICE)):
        run, whole = disk / "run", folder / place
        command = train(env, run, 60, 20)
        require([*command, "--out", str(whole)])
        for size in KIB:
            yield (
                f"{place}-{size}-KiB",
                lambda c=command, w=whole, s=size: _run(disk, c, w, s),
            )
    sweep = ["sweep", "apo", "--env", "Pendulum-v1", *SMALL, "--steps", str(60 * STEPS)]
    sweep += ["--eval-every", str(20 * STEPS), "--eval-steps", "20", "--out", str(disk / "sweep")]
    for size in KIB[1::3]:
        yield f"sweep-{size}-KiB", lambda size=size: _sweep(disk, sweep, folder / "host", size)


def _run(disk: Path, command: list[str], whole: Path, size: int) -> Iterator[str]:
    run = disk / "run"
    _mount(disk, size)
    try:
        status, errors = call(command)
        named = FULL in errors and str(run) in errors
        if status != 0 and not (status == 1 and is_one_line(errors) and named):
            yield f"status {status}: {errors[-400:]!r}"
        _remount(disk)
        status, errors = call(resume(run, command))
        if status != 0:
            yield f"with more space it ends with status {status}: {errors[-400:]!r}"
        else:
            yield from differences(run, whole)
    finally:
        _unmount(disk)


def _sweep(disk: Path, command: list[str], whole: Path, size: int) -> Iterator[str]:
    _mount(disk, size)
    try:
        status, errors = call(command)
        if status != 0 and not (status == 1 and is_one_line(errors)):
            yield f"status {status}: {errors[-400:]!r}"
        _remount(disk)
        status, errors = call(command)
        if status != 0:
            yield f"with more space it ends with status {status}: {errors[-400:]!r}"
        for run in (disk / "sweep" / "runs").iterdir():
            yield from differences(run, whole)
    finally:
        _unmount(disk)


def _mount(disk: Path, size: int) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", str(disk)], check=True)


def _remount(disk: Path) -> None:
    """The same files with room for more."""
    subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)


def _unmount(disk: Path) -> None:
    subprocess.run(["umount", "--lazy", str(disk)], check=True)
    shutil.rmtree(disk)
    disk.mkdir()
