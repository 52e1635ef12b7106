"""Workers on this machine: one single-threaded process for each core."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Protocol

from longrun.envs.worker_pool import ONE_THREAD
from longrun.sweeps.plan import PlannedRun
from longrun.sweeps.sweep_folder import SweepFolder
from longrun.sweeps.worker_process import STOP_SECONDS, Message

DYING_SECONDS = 5.0
"""How long a worker that has hung up may take to end by itself."""


class Workers(Protocol):
    """Slots that train a run each. Messages are those of `worker.train_run`, and "died"."""

    slots: int

    def start(self, slot: int, run: PlannedRun) -> None: ...
    def messages(self, seconds: float) -> Iterator[tuple[int, Message]]: ...
    def close(self) -> None: ...


class LocalWorkers:
    """Processes with one thread of XLA each; one that died is replaced when it is needed again."""

    def __init__(self, folder: SweepFolder, slots: int, native: bool) -> None:
        self.slots = slots
        self._folder = folder
        self._native = native
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._connections: dict[int, Connection] = {}

    def start(self, slot: int, run: PlannedRun) -> None:
        if slot not in self._connections:
            self._spawn(slot)
        order = {"run": run.as_json(), "path": str(self._folder.folder(run).absolute())}
        with suppress(OSError):  # a worker that died: `messages` tells
            self._connections[slot].send_bytes(json.dumps(order).encode())

    def messages(self, seconds: float) -> Iterator[tuple[int, Message]]:
        """What arrives within so many seconds, as soon as something does."""
        ready = wait(list(self._connections.values()), seconds)
        for slot, connection in list(self._connections.items()):
            if connection in ready:
                try:
                    yield slot, json.loads(connection.recv_bytes())
                except (EOFError, OSError):
                    yield slot, self._bury(slot)
            # A process that an environment has forked can keep a dead worker's line open.
            elif self._processes[slot].poll() is not None and not connection.poll():
                yield slot, self._bury(slot)

    def close(self) -> None:
        """Ask all to save and end, and see that they do."""
        for connection in self._connections.values():
            with suppress(OSError):
                connection.send_bytes(b'{"stop": true}')
        deadline = time.monotonic() + STOP_SECONDS
        for process in self._processes.values():
            _end(process, max(0.0, deadline - time.monotonic()))
        for connection in self._connections.values():
            connection.close()

    def _spawn(self, slot: int) -> None:
        ours, theirs = Pipe()
        program = [sys.executable, "-P", "-m", "longrun.sweeps.worker_process"]
        log = self._log(slot)
        log.parent.mkdir(exist_ok=True)
        with log.open("ab") as output:
            self._processes[slot] = subprocess.Popen(
                [*program, str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                env=os.environ | self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ctrl-C is for the sweep, which then lets us save
            )
        self._connections[slot] = ours
        theirs.close()

    def _log(self, slot: int) -> Path:
        return self._folder.path / "workers" / f"{slot}.log"

    def _environment(self) -> dict[str, str]:
        """Of a worker: one thread where there are many, and no part of a GPU for small networks."""
        found = {"PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
        if self.slots > 1:
            found |= dict.fromkeys((*ONE_THREAD, "NPROC"), "1")
        if not self._native:
            found |= {"JAX_PLATFORMS": "cpu"}
        return found

    def _bury(self, slot: int) -> Message:
        process = self._processes.pop(slot)
        self._connections.pop(slot).close()
        status = _end(process, DYING_SECONDS)
        cause = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        error = f"the worker process {process.pid} died: {cause} (see {self._log(slot)})"
        return {"kind": "died", "error": error}


def _end(process: subprocess.Popen[bytes], seconds: float) -> int:
    """Let it end by itself, then end it and whatever an environment had started in it."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    return process.wait()
