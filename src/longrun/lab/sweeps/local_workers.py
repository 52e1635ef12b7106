"""Workers on this machine: one single-threaded process for each core."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.connection import wait
from pathlib import Path
from typing import Protocol

from longrun.lab.sweeps.sweep_folder import SweepFolder
from longrun.lab.sweeps.worker_process import STOP_SECONDS, Message
from longrun.learning.envs.processes import ONE_THREAD, Child, cause_of_exit
from longrun.learning.runs.spec import RunSpec

EXIT_SECONDS = 5.0
"""Time for a worker that has closed its connection to end by itself."""


class Workers(Protocol):
    """Slots that train one run each; `worker_process` explains the messages."""

    slots: int

    def start(self, slot: int, run: RunSpec, path: Path) -> None:
        """Begin to train a run in its folder."""

    def messages(self, seconds: float) -> Iterator[tuple[int, Message]]:
        """Wait up to so many seconds for the next messages, each with its slot."""

    def end(self, slot: int, why: str) -> Message:
        """End the worker of a slot, which hangs; the message that reports it."""

    def close(self) -> None:
        """Ask all workers to save and end; kill those that have not ended in time."""


class LocalWorkers:
    """One process for each slot; one that died is replaced when its slot is needed again."""

    def __init__(self, folder: SweepFolder, slots: int, native: bool) -> None:
        self.slots = slots
        self.variables = worker_variables(one_thread=slots > 1, cpu_only=not native)
        """Environment variables of each worker, besides those of this process."""
        self._logs = folder.path / "workers"
        self._children: dict[int, Child] = {}

    def start(self, slot: int, run: RunSpec, path: Path) -> None:
        if slot not in self._children:
            self._logs.mkdir(exist_ok=True)
            with self._log(slot).open("ab") as output:
                module = "longrun.lab.sweeps.worker_process"
                self._children[slot] = Child(module, self.variables, output=output)
        order = {"run": run.as_json(), "path": str(path.absolute())}
        with suppress(OSError):  # the worker died: `messages` reports it
            self._children[slot].connection.send_bytes(json.dumps(order).encode())

    def messages(self, seconds: float) -> Iterator[tuple[int, Message]]:
        ready = wait([child.connection for child in self._children.values()], seconds)
        for slot, child in list(self._children.items()):
            if child.connection in ready:
                try:
                    message = json.loads(child.connection.recv_bytes())
                except (EOFError, OSError):
                    message = self.end(slot)
                if message.get("ends"):  # at once: its slot may get another run
                    self.end(slot)
                yield slot, message
            elif child.has_ended():
                yield slot, self.end(slot)

    def end(self, slot: int, why: str = "") -> Message:
        child = self._children.pop(slot)
        child.connection.close()
        status = child.end(0.0 if why else EXIT_SECONDS)
        what = why or f"died: {cause_of_exit(status)} (see {self._log(slot)})"
        return {"kind": "died", "error": f"the worker process {child.process.pid} {what}"}

    def close(self) -> None:
        for child in self._children.values():
            with suppress(OSError):
                child.connection.send_bytes(b'{"stop": true}')
        deadline = time.monotonic() + STOP_SECONDS
        for child in self._children.values():
            child.end(max(0.0, deadline - time.monotonic()))
            child.connection.close()

    def _log(self, slot: int) -> Path:
        return self._logs / f"{slot}.log"


def worker_variables(one_thread: bool, cpu_only: bool) -> dict[str, str]:
    """Environment variables of a worker.

    `one_thread` where there are several workers. `cpu_only` where the environments run on the CPU:
    their networks are small, and a worker would take a share of the GPU's memory for nothing.
    """
    threads = ONE_THREAD | {"NPROC": "1"} if one_thread else {}
    return threads | ({"JAX_PLATFORMS": "cpu"} if cpu_only else {})
