"""Two processes that write one run, one sweep or one save folder: one of them, or both in turn.

The one that is refused ends with one line and has changed nothing.
"""

from __future__ import annotations

import itertools
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from faults.processes import (
    SMALL,
    STEPS,
    TINY,
    Checks,
    call,
    child_variables,
    differences,
    ended,
    is_one_line,
    require,
    start,
    train,
)

REFUSED = (
    "is being written by another process",
    "already holds a run",
    "has been trained by another process",
    "is not empty and is not a sweep folder",
)
SAVING = """
import sys
from longrun import APO, FolderError
agent = APO("Pendulum-v1", preset="paper", num_workers=0, hidden_sizes=(4,), seed={seed})
refused = 0
for _ in range(60):
    try:
        agent.save({folder!r})
    except FolderError as error:
        refused += "is being written by another process" in str(error) or sys.exit(str(error))
assert APO.load({folder!r}, num_workers=0).seed in (1, 2)
"""


def checks(folder: Path) -> Checks:
    """By turns two new runs, a run that is resumed meanwhile, two sweeps, two that save."""
    run = train(TINY, folder / "run", 300, 100)
    sweep = ["sweep", "apo", "--env", "Pendulum-v1", *SMALL, "--steps", str(300 * STEPS)]
    sweep += ["--eval-every", str(100 * STEPS), "--eval-steps", "20", "--workers", "1"]
    whole = folder / "whole"
    require([*run, "--out", str(whole)])
    again = ["train", "--resume", "--out", str(folder / "run"), "--quiet"]
    cases = {
        "run": lambda rng: _two(rng, folder / "run", run, run, whole),
        "resume": lambda rng: _two(rng, folder / "run", run, again, whole),
        "sweep": lambda rng: _two_sweeps(rng, folder / "sweep", sweep, whole),
        "save": lambda rng: _two_savers(rng, folder / "saved"),
    }
    for seed, what in zip(itertools.count(), itertools.cycle(cases)):
        yield f"{what}-{seed}", lambda what=what, seed=seed: cases[what](random.Random(seed))


def _two(
    rng: random.Random, run: Path, first: list[str], second: list[str], whole: Path
) -> Iterator[str]:
    """The second one comes up to four seconds later, or earlier by the time of its start."""
    shutil.rmtree(run, ignore_errors=True)
    one = start(first)
    time.sleep(rng.uniform(0, 4))
    two = start(second)
    results = [ended(one), ended(two)]
    if not any(status == 0 for status, _ in results):
        yield f"both were refused: {results}"
    for status, errors in results:
        refused = is_one_line(errors) and any(text in errors for text in REFUSED)
        early = "does not exist" in errors or "there is no" in errors  # before the other's start
        if status != 0 and not (status == 2 and (refused or early)):
            yield f"status {status}: {errors[-400:]!r}"
    yield from differences(run, whole)


def _two_sweeps(rng: random.Random, out: Path, sweep: list[str], whole: Path) -> Iterator[str]:
    shutil.rmtree(out, ignore_errors=True)
    command = [*sweep, "--out", str(out)]
    one = start(command)
    time.sleep(rng.uniform(0, 4))
    results = [ended(start(command)), ended(one)]
    for status, errors in results:
        refused = is_one_line(errors) and any(text in errors for text in REFUSED)
        if status != 0 and not (status == 2 and refused):
            yield f"status {status}: {errors[-400:]!r}"
    status, errors = call(command)
    if status != 0:
        yield f"resumed, it ends with status {status}: {errors[-400:]!r}"
    for run in (out / "runs").iterdir():
        yield from differences(run, whole)


def _two_savers(rng: random.Random, folder: Path) -> Iterator[str]:
    """Each saves sixty times, and reads what is there in the end."""
    shutil.rmtree(folder, ignore_errors=True)
    processes = []
    for seed in (1, 2):
        code = SAVING.format(seed=seed, folder=str(folder))
        processes.append(
            subprocess.Popen(
                [sys.executable, "-c", code],
                env=child_variables(),
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        time.sleep(rng.uniform(0, 0.3))
    for process in processes:
        status, errors = ended(process)
        if status != 0:
            yield f"status {status}: {errors[-400:]!r}"
