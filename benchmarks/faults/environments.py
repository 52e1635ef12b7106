"""Environments that hang, die, raise or return anything, in this process, in workers, in sweeps.

Each ends the command in time, with one line and a status that is not 0, and no process is left.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from faults.processes import ROOT, SMALL, STEPS, Checks, ended, is_one_line, start

sys.path[:0] = [str(ROOT / "tests"), str(Path(__file__).parent)]

from faulty_env import ALL  # noqa: E402  (the tests are on the path from here on)

LIMIT = "2"
"""--step-timeout"""
SECONDS = 240.0
"""in which a command has to end, start included, on a busy machine"""
HARMLESS = {"write_much", "warn", "change_folder", "float_errors", "fork_a_child", "info_none"}
"""After these a run may be trained to its end."""
HARMLESS_IN_WORKERS = {"close_sleep", "close_exit"}
"""A worker that does not close in time is ended; everything has been learned and saved by then."""
HARMLESS_IN_EVALUATE = {"write_to_files"}
"""An evaluation has no connection to a worker that could be damaged."""
FATAL = {"hold_the_lock", "stop", "fork_and_die", "end_by_a_nameless_signal", "crash"}
FATAL |= {"end_quietly", "ignore_signals", "fork_a_child"}
"""Those that end or stop the process, or leave others: without workers nothing is promised of them
but in sweeps."""
IN_SWEEPS = FATAL - {"fork_a_child"} | {
    "sleep",
    "busy",
    "reset_sleep",
    "close_sleep",
    "exit_with_0",
    "close_files",
}
MARK = "import os\nos.environ['FAULTS_MARK'] = '{}'\n"
"""All processes that the command starts can be recognised."""
SHORT_START = "from longrun.learning.envs import watchdog\nwatchdog.START_SECONDS = 2.0"
SHORT = "from longrun.lab.sweeps import worker_watch\nworker_watch.SHORTEST_SILENCE = 4.0"


def checks(folder: Path) -> Checks:
    for fault in ALL:
        for workers in ("0", "2"):
            if workers == "2" or fault not in FATAL:
                yield f"{fault}-{workers}", lambda f=fault, w=workers: _train(folder, f, w)
        if fault in IN_SWEEPS:
            yield f"{fault}-sweep", lambda f=fault: _sweep(folder, f)
        if fault not in FATAL:
            yield f"{fault}-evaluate", lambda f=fault: _evaluate(folder, f)
    yield "make_sleep-0", lambda: _train(folder, "make_sleep", "0", SHORT_START)


def _train(folder: Path, fault: str, workers: str, patch: str = "") -> Iterator[str]:
    run, mark = folder / "run", uuid.uuid4().hex
    shutil.rmtree(run, ignore_errors=True)
    command = ["train", "apo", "--env", f"faulty_env:Faulty-v0?fault={fault}", *SMALL, "--no-eval"]
    command += ["--steps", str(20 * STEPS), "--workers", workers, "--step-timeout", LIMIT]
    command += ["--out", str(run), "--action-bounds", "clip"]
    status, errors = ended(start(command, MARK.format(mark) + patch), SECONDS)
    if status == 0 and fault in HARMLESS | (HARMLESS_IN_WORKERS if workers == "2" else set()):
        if not (run / "summary.json").exists():
            yield "status 0, but it is not finished"
    elif status != 1 or not is_one_line(errors):
        yield f"status {status}: {errors[-500:]!r}"
    yield from _left(mark)


def _evaluate(folder: Path, fault: str) -> Iterator[str]:
    """A policy that was trained while the fault was switched off."""
    run, mark = folder / "evaluated", uuid.uuid4().hex
    shutil.rmtree(run, ignore_errors=True)
    train = ["train", "apo", "--env", f"faulty_env:Faulty-v0?fault={fault}", *SMALL, "--no-eval"]
    train += ["--steps", str(STEPS), "--workers", "0", "--out", str(run), "--action-bounds", "clip"]
    status, errors = ended(start(train, "import os\nos.environ['FAULTS_OFF'] = '1'"), SECONDS)
    if status:
        yield f"training without the fault: status {status}: {errors[-500:]!r}"
    command = ["evaluate", str(run), "--steps", "100", "--trust", "--step-timeout", LIMIT]
    status, errors = ended(start(command, MARK.format(mark)), SECONDS)
    harmless = status == 0 and fault in HARMLESS | HARMLESS_IN_EVALUATE
    if not harmless and not (status == 1 and is_one_line(errors)):
        yield f"status {status}: {errors[-500:]!r}"
    yield from _left(mark)


def _sweep(folder: Path, fault: str) -> Iterator[str]:
    """Beside a run that has to be trained nevertheless."""
    out, mark = folder / "sweep", uuid.uuid4().hex
    shutil.rmtree(out, ignore_errors=True)
    command = ["sweep", "apo", "--env", f"faulty_env:Faulty-v0?fault={fault}", "Pendulum-v1"]
    command += [*SMALL, "--no-eval", "--steps", str(20 * STEPS), "--step-timeout", LIMIT]
    command += ["--retries", "0", "--workers", "1", "--out", str(out), "--action-bounds", "clip"]
    status, errors = ended(start(command, MARK.format(mark) + SHORT), SECONDS)
    if status != 1 or errors:
        yield f"status {status}: {errors[-500:]!r}"
    else:
        failures = json.loads((out / "failures.json").read_text())
        if len(failures) != 1 or "faulty_env" not in failures[0]["run"]:
            yield f"failures.json has {failures}"
        if not list((out / "runs").glob("Pendulum*/summary.json")):
            yield "the other run is not finished"
    yield from _left(mark)


def _left(mark: str) -> Iterator[str]:
    """Processes that have outlived the command by five seconds; they are ended."""
    deadline = time.monotonic() + 5
    while (left := _marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.1)
    if left:
        yield f"{len(left)} processes are left"
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _marked(mark: str) -> list[int]:
    """Processes with this value of FAULTS_MARK, zombies not counted."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"FAULTS_MARK={mark}".encode() in (path / "environ").read_bytes():
                found.append(int(path.name))
    return found
