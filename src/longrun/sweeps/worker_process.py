"""A sweep's worker process: `python -m longrun.sweeps.worker_process CONNECTION_FD`.

It trains one run after another, so that JAX is imported and programs are compiled once, and says
how it goes. Messages are JSON. A worker whose parent is gone saves its run and ends.
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

from longrun.sweeps.plan import PlannedRun

TELL_SECONDS = 0.5
STOP_SECONDS = 60.0
"""How long a worker has to save its run when the sweep is stopped."""

Message = dict[str, Any]
Tell = Callable[[Message], None]


def train_run(run: PlannedRun, path: Path, tell: Tell, stopping: threading.Event) -> Message:
    """Train the run in its folder, from where it stands; how that ended.

    `tell` is given word of the progress now and then.
    """
    try:
        _wait_for_others(path, stopping)
        if not stopping.is_set():
            _train(run, path, tell, stopping)
    except Exception as error:
        return _failed(error)
    return {"kind": "stopped" if stopping.is_set() else "done"}


def _train(run: PlannedRun, path: Path, tell: Tell, stopping: threading.Event) -> None:
    from longrun.train import start_or_resume as runs

    at = [0] * len(run.replicas)
    told = 0.0

    def on_log(progress: Any) -> bool:
        nonlocal told
        at[progress.replica] = progress.step
        if time.monotonic() - told > TELL_SECONDS:
            told = time.monotonic()
            tell(_progress(sum(at), progress.steps_per_second, progress.metrics["reward"]))
        return not stopping.is_set()

    if (path / "config.json").exists():
        saved = runs.load(path)
        at[:] = saved.done
        session = runs.go_on(saved, run.steps, on_log)
    else:
        settings = {"num_workers": 0, **run.settings}
        session = runs.begin(
            path, run.env, run.configs(), run.seeds, run.steps, run.preset, on_log, **settings
        )
    tell(_progress(sum(at)))  # where it begins: its speed is measured from there
    session.run(progress_bar=False)


def _progress(steps: int, rate: float = 0.0, reward: float = float("nan")) -> Message:
    return {"kind": "progress", "steps": steps, "steps_per_second": rate, "reward": reward}


def _wait_for_others(path: Path, stopping: threading.Event) -> None:
    """A worker whose sweep was killed may still be saving this very run."""
    from longrun.train.run_folder import RunFolder

    deadline = time.monotonic() + STOP_SECONDS
    while path.exists() and not stopping.is_set():
        try:
            with RunFolder(path).locked():
                return
        except ValueError:
            if time.monotonic() > deadline:
                raise
        stopping.wait(0.1)


def _failed(error: Exception) -> Message:
    """Wrong input stays wrong; anything else may go well the next time."""
    return {
        "kind": "failed",
        "error": f"{type(error).__name__}: {error}",
        "traceback": traceback.format_exc(),
        "errno": getattr(error, "errno", None),
        "again": not isinstance(error, ValueError),
    }


def main() -> None:
    connection = Connection(int(sys.argv[1]))
    orders: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
    stopping = threading.Event()
    threading.Thread(target=_listen, args=(connection, orders, stopping), daemon=True).start()

    def tell(message: Message) -> None:
        with suppress(OSError):  # the parent is gone: `_listen` hears of it too
            connection.send_bytes(json.dumps(message).encode())

    while (order := orders.get()) is not None and not stopping.is_set():
        tell(train_run(PlannedRun.from_json(order["run"]), Path(order["path"]), tell, stopping))
    _end()


def _listen(
    connection: Connection, orders: queue.SimpleQueue[Message | None], stopping: threading.Event
) -> None:
    """Pass orders on until the parent wants no more or is gone."""
    with suppress(EOFError, OSError):
        while "stop" not in (order := json.loads(connection.recv_bytes())):
            orders.put(order)
    stopping.set()
    orders.put(None)
    time.sleep(STOP_SECONDS)
    _end()  # an environment hangs, and nobody else may be left to end it


def _end() -> None:
    """At once, together with whatever an environment has started: all that counts is on disk."""
    sys.stdout.flush()
    sys.stderr.flush()
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os._exit(0)


if __name__ == "__main__":
    main()
