"""Clocks that jump, and files from the future: results are the same."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from faults.processes import (
    DEVICE,
    OFTEN,
    SMALL,
    STEPS,
    TINY,
    Checks,
    call,
    differences,
    require,
    train,
)

PATCH = """
import time
real = {{name: getattr(time, name) for name in ("time", "monotonic", "perf_counter")}}
began = real["monotonic"]()

def shifted(name):
    def now():
        jumps = int((real["monotonic"]() - began) / 0.5)
        return real[name]() + {shifts}[name] * jumps
    return now

for name in real:
    setattr(time, name, shifted(name))
"""
"""Twice a second each clock jumps by so many seconds."""
JUMPS = {
    "wall clock back by an hour": {"time": -3600.0, "monotonic": 0.0, "perf_counter": 0.0},
    "wall clock on by a year": {"time": 3.2e7, "monotonic": 0.0, "perf_counter": 0.0},
    "all clocks on by a day": {"time": 86400.0, "monotonic": 86400.0, "perf_counter": 86400.0},
    "wall clock back, others on": {"time": -9e4, "monotonic": 3600.0, "perf_counter": 3600.0},
}


def checks(folder: Path) -> Checks:
    commands = {
        "host": train(TINY, folder / "host", 300, 100),
        "workers": [*train(TINY, folder / "workers", 300, 100), "--workers", "2"],
        "device": train(DEVICE, folder / "device", 600, 200),
    }
    for place, command in commands.items():
        whole = folder / f"{place}-whole"
        require([*command, "--out", str(whole)])
        for name, shifts in JUMPS.items():
            yield (
                f"{place}, {name}",
                lambda c=command, w=whole, p=folder / place, s=shifts: _jumps(c, p, w, s),
            )
    for days in (-3650, 3650):
        yield f"files {days} days away", lambda days=days: _other_times(folder, days)
    for name, shifts in JUMPS.items():
        yield f"sweep, {name}", lambda s=shifts: _sweep(folder, s)


def _jumps(command: list[str], run: Path, whole: Path, shifts: dict[str, float]) -> Iterator[str]:
    """The clocks of the training process jump."""
    shutil.rmtree(run, ignore_errors=True)
    status, errors = call(command, PATCH.format(shifts=shifts) + OFTEN)
    if status != 0 or errors:
        yield f"status {status}, {errors}"
    else:
        yield from differences(run, whole)


def _other_times(folder: Path, days: int) -> Iterator[str]:
    """All files of an unfinished run were written long ago, or will be."""
    run, moment = folder / "times", time.time() + 86400 * days
    shutil.rmtree(run, ignore_errors=True)
    require(train(TINY, run, 100, 100))
    for file in run.rglob("*"):
        os.utime(file, (moment, moment))
    more = ["--steps", str(300 * STEPS)]
    status, errors = call(["train", "--resume", "--out", str(run), "--quiet", *more])
    if status != 0 or errors:
        yield f"status {status}, {errors}"
    else:
        yield from differences(run, folder / "host-whole")
    status, errors = call(["plot", str(run), "--out", str(folder / "curves.png")])
    if status != 0:
        yield f"plot: status {status}, {errors}"


def _sweep(folder: Path, shifts: dict[str, float]) -> Iterator[str]:
    """The clocks of the sweep's own process jump, which watches its workers."""
    out = folder / "sweep"
    shutil.rmtree(out, ignore_errors=True)
    command = ["sweep", "apo", "--env", "Pendulum-v1", *SMALL, "--steps", str(300 * STEPS)]
    command += ["--eval-every", str(100 * STEPS), "--eval-steps", "20", "--out", str(out)]
    status, errors = call(command, PATCH.format(shifts=shifts))
    if status != 0 or errors:
        yield f"status {status}, {errors}"
    for run in (out / "runs").iterdir():
        yield from differences(run, folder / "host-whole")
