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
from typing import Any, Protocol

from longrun.envs.workers import ONE_THREAD
from longrun.experiments.sweeps.folder import SweepFolder
from longrun.experiments.sweeps.plan import Run

STOP_SECONDS = 60.0
"""How long a worker has to save its run when the sweep is interrupted."""


class Workers(Protocol):
    """Slots that train a run each. Messages are those of `worker.train_run`, and "died"."""

    slots: int

    def start(self, slot: int, run: Run) -> None: ...
    def messages(self, seconds: float) -> Iterator[tuple[int, dict[str, Any]]]: ...
    def close(self) -> None: ...


class LocalWorkers:
    """Processes with one thread of XLA each; one that died is replaced when it is needed again."""

    def __init__(self, folder: SweepFolder, slots: int, native: bool) -> None:
        self.slots = slots
        self._folder = folder
        self._native = native
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._connections: dict[int, Connection] = {}

    def start(self, slot: int, run: Run) -> None:
        if slot not in self._connections:
            self._spawn(slot)
        order = {"run": run.as_json(), "path": str(self._folder.folder(run))}
        with suppress(OSError):  # a worker that died: `messages` tells
            self._connections[slot].send_bytes(json.dumps(order).encode())

    def messages(self, seconds: float) -> Iterator[tuple[int, dict[str, Any]]]:
        """What arrives within so many seconds, as soon as something does."""
        slots = {connection: slot for slot, connection in self._connections.items()}
        for connection in wait(list(slots), seconds):
            assert isinstance(connection, Connection)
            slot = slots[connection]
            try:
                yield slot, json.loads(connection.recv_bytes())
            except (EOFError, OSError):
                yield slot, {"kind": "died", "error": self._bury(slot), "again": True}

    def close(self) -> None:
        """Ask all to save and end, and see that they do."""
        for connection in self._connections.values():
            with suppress(OSError):
                connection.send_bytes(b'{"stop": true}')
        deadline = time.monotonic() + STOP_SECONDS
        for process in self._processes.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # and whatever an environment had started
            process.wait()
        for connection in self._connections.values():
            connection.close()

    def _spawn(self, slot: int) -> None:
        ours, theirs = Pipe()
        log = self._folder.path / "workers" / f"{slot}.log"
        log.parent.mkdir(exist_ok=True)
        with log.open("ab") as output:
            self._processes[slot] = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "longrun.experiments.sweeps.worker",
                    str(theirs.fileno()),
                ],
                pass_fds=(theirs.fileno(),),
                env=os.environ | self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ctrl-C is for the sweep, which then lets us save
            )
        self._connections[slot] = ours
        theirs.close()

    def _environment(self) -> dict[str, str]:
        """Of a worker: one thread where there are many, and no part of a GPU for small networks."""
        found = {"PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
        if self.slots > 1:
            found |= dict.fromkeys((*ONE_THREAD, "NPROC"), "1")
        if not self._native:
            found |= {"JAX_PLATFORMS": "cpu"}
        return found

    def _bury(self, slot: int) -> str:
        process = self._processes.pop(slot)
        self._connections.pop(slot).close()
        status = process.wait()
        cause = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        log = Path(self._folder.path.name) / "workers" / f"{slot}.log"
        return f"the worker process {process.pid} died: {cause} (see {log})"
