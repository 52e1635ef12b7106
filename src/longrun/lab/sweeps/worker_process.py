"""A sweep's worker process: `python -m longrun.lab.sweeps.worker_process CONNECTION_FD`.

It trains one run after another, so that JAX is imported and programs are compiled once. A worker
whose parent process has ended saves its run and ends.

Its messages are JSON objects. `kind` is one of
    alive: a sign of life, every few seconds
    progress: of a run; the first one says that it begins
    done, stopped, failed: how a run ended
    waits, died: not from the process itself; it has not been placed yet, or is gone
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from longrun.base.errors import HungError, text_of
from longrun.base.files import FolderLock
from longrun.learning.runs.spec import RunSpec

REPORT_SECONDS = 0.5
"""Time between two messages about the progress of a run."""
ALIVE_SECONDS = 2.0
"""Time between two signs of life."""
STOP_SECONDS = 60.0
"""Time for a worker to save its run when the sweep is stopped."""

Message = dict[str, Any]
"""`kind`, and what belongs to it."""
Report = Callable[[Message], None]
"""Receives messages about the progress of a run."""


def train_run(spec: RunSpec, path: Path, report: Report, stopping: threading.Event) -> Message:
    """Start or resume the run in its folder; the message that says how it ended."""
    try:
        if path.exists():  # a worker of a killed sweep may still save the run
            FolderLock(path, STOP_SECONDS, stopping.wait).release()
        if not stopping.is_set():
            _train(spec, path, report, stopping)
    except Exception as error:
        return {
            "kind": "failed",
            "error": f"{type(error).__name__}: {text_of(error)}",
            "traceback": traceback.format_exc(),
            "errno": getattr(error, "errno", None),
            "again": not isinstance(error, ValueError),  # wrong input stays wrong
            "ends": isinstance(error, HungError),  # a thread is left behind in an environment
        }
    return {"kind": "stopped" if stopping.is_set() else "done"}


def _train(spec: RunSpec, path: Path, report: Report, stopping: threading.Event) -> None:
    from longrun.learning.train.open_run import extended, new_run, saved_run
    from longrun.learning.train.training import Training

    reported = 0.0

    def on_log(progress: Any) -> bool:
        nonlocal reported
        steps[progress.replica] = progress.step
        if time.monotonic() - reported > REPORT_SECONDS:
            reported = time.monotonic()
            rate, reward = progress.steps_per_second, progress.metrics["reward"]
            report(progress_message(sum(steps), rate, reward))
        return not stopping.is_set()

    if (path / "config.json").exists():
        saved = saved_run(path, trust=True)  # the sweep names the same environment
        run = extended(saved, spec.steps, step_timeout=spec.step_timeout)
    else:
        run = new_run(spec, path)
    steps = run.done
    training = Training(run, on_log)
    report(progress_message(sum(steps)))  # the speed is measured from here
    training.run(progress_bar=False)


def progress_message(steps: int, rate: float = 0.0, reward: float = float("nan")) -> Message:
    """Steps of all replicas so far, steps per second, mean reward of the last rollout."""
    return {"kind": "progress", "steps": steps, "steps_per_second": rate, "reward": reward}


def main() -> None:
    connection = Connection(int(sys.argv[1]))
    orders: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
    stopping = threading.Event()
    sending = threading.Lock()

    def report(message: Message) -> None:
        with sending, suppress(OSError):  # the parent has ended: `_receive` notices it too
            connection.send_bytes(json.dumps(message).encode())

    threading.Thread(target=_receive, args=(connection, orders, stopping), daemon=True).start()
    threading.Thread(target=_give_signs, args=(report,), daemon=True).start()
    while (order := orders.get()) is not None and not stopping.is_set():
        spec = RunSpec.from_json(order["run"], "the order")
        ending = train_run(spec, Path(order["path"]), report, stopping)
        report(ending)
        if ending.get("ends"):
            break
    _end()


def _give_signs(report: Report) -> None:
    """A process that is stopped, or where an environment holds Python's lock, gives none."""
    while True:
        report({"kind": "alive"})
        time.sleep(ALIVE_SECONDS)


def _receive(
    connection: Connection, orders: queue.SimpleQueue[Message | None], stopping: threading.Event
) -> None:
    """Put orders into the queue until the parent sends "stop" or has ended.

    Not by `envs.processes.end_with`: a signal of the kernel would leave no time to save the run.
    """
    with suppress(EOFError, OSError):
        while "stop" not in (order := json.loads(connection.recv_bytes())):
            orders.put(order)
    stopping.set()
    orders.put(None)
    time.sleep(STOP_SECONDS)
    _end()  # an environment hangs, and no parent may be left to end this process


def _end() -> None:
    """End at once, with all processes that an environment has started: results are on disk."""
    sys.stdout.flush()
    sys.stderr.flush()
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os._exit(0)


if __name__ == "__main__":
    main()
