"""SIGINT and SIGTERM at random moments, with cold and warm caches of compiled programs.

The command saves and ends with its own status and one line that says how to resume.
"""

from __future__ import annotations

import itertools
import random
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from faults.processes import DEVICE, SMALL, TINY, Checks, call, ended, start

ENDLESS = ["--steps", "100000000", "--no-eval"]
COMMANDS = {
    "host": ["train", "apo", *TINY, *ENDLESS],
    "device": ["train", "apo", *DEVICE, *ENDLESS],
    "sweep": ["sweep", "apo", "--env", "Pendulum-v1", "--seeds", "2", *ENDLESS, *SMALL],
}
CACHE = """
import os
import jax
os.environ["JAX_COMPILATION_CACHE_DIR"] = {0!r}  # of processes that this one starts
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
jax.config.update("jax_compilation_cache_dir", {0!r})
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
"""
STATUS = {signal.SIGINT: 130, signal.SIGTERM: 143}


def checks(folder: Path) -> Checks:
    """By turns with a cold and a warm cache, of a run on the host, on a device and of a sweep."""
    for seed, place in zip(itertools.count(), itertools.cycle(COMMANDS)):
        cache = "cold" if seed % 2 else "warm"
        yield f"{place}-{cache}-{seed}", lambda p=place, c=cache, s=seed: _case(folder, p, c, s)


def _case(folder: Path, place: str, cache: str, seed: int) -> Iterator[str]:
    rng, out, programs = random.Random(seed), folder / "out", folder / "programs"
    shutil.rmtree(out, ignore_errors=True)
    if cache == "cold":
        shutil.rmtree(programs, ignore_errors=True)
    number = rng.choice(list(STATUS))
    process = start([*COMMANDS[place], "--out", str(out)], CACHE.format(str(programs)))
    deadline = time.monotonic() + 120
    while not any(out.rglob("checkpoint.json")):
        if time.monotonic() > deadline or process.poll() is not None:
            yield f"did not start: {ended(process, 1)}"
            return
        time.sleep(0.02)
    time.sleep(rng.uniform(0, 4))
    process.send_signal(number)
    status, errors = ended(process, 120)
    if status != STATUS[number] or errors.count("\n") != 1 or "resumes it" not in errors:
        yield f"{number.name}: status {status}, {errors[-300:]!r}"
        return
    for checkpoint in out.rglob("checkpoint"):
        status, errors = call(["evaluate", str(checkpoint.parent), "--steps", "20"])
        if status != 0:
            yield f"{number.name}: what was saved cannot be evaluated: {errors[-300:]!r}"
