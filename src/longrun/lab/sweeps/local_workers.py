"""Workers on this machine: one single-threaded process for each core."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import wait
from pathlib import Path
from typing import Protocol

from longrun.base.checks import STEP_TIMEOUT
from longrun.lab.sweeps.messages import Message
from longrun.lab.sweeps.sweep_folder import SweepFolder
from longrun.lab.sweeps.worker_process import STOP_SECONDS
from longrun.lab.sweeps.worker_watch import WorkerWatch
from longrun.learning.envs.processes import ONE_THREAD, Child, cause_of_exit

EXIT_SECONDS = 5.0
"""Time for a worker that has closed its connection to end by itself."""


class Workers(Protocol):
    """Slots that train one run each.

    Messages are those of `worker_process.train_run`, and "died" for a worker that ended without
    one.
    """

    slots: int

    def start(self, slot: int, name: str) -> None: ...
    def messages(self, seconds: float) -> Iterator[tuple[int, Message]]: ...
    def close(self) -> None: ...


class LocalWorkers:
    """One process for each slot; one that died is replaced when its slot is needed again.

    One that hangs (see `WorkerWatch`) is ended, and reported as one that died.
    """

    def __init__(
        self,
        folder: SweepFolder,
        slots: int,
        native: bool,
        step_timeout: float = STEP_TIMEOUT,
    ) -> None:
        self.slots = slots
        self.variables = worker_variables(one_thread=slots > 1, cpu_only=not native)
        """Environment variables of each worker, besides those of this process."""
        self._folder = folder
        self._step_timeout = step_timeout
        self._watch = WorkerWatch(step_timeout)
        self._children: dict[int, Child] = {}

    def start(self, slot: int, name: str) -> None:
        if slot not in self._children:
            self._spawn(slot)
        run = replace(self._folder.runs[name], step_timeout=self._step_timeout)
        order = {"run": run.as_json(), "path": str(self._folder.folder(name).absolute())}
        self._watch.started(slot)
        with suppress(OSError):  # the worker died: `messages` reports it
            self._children[slot].connection.send_bytes(json.dumps(order).encode())

    def messages(self, seconds: float) -> Iterator[tuple[int, Message]]:
        """Wait up to so many seconds for the next messages, each with its slot."""
        ready = wait([child.connection for child in self._children.values()], seconds)
        for slot, child in list(self._children.items()):
            if child.connection in ready:
                try:
                    message = json.loads(child.connection.recv_bytes())
                except (EOFError, OSError):
                    message = self._remove(slot)
                if self._heard(slot, message):
                    yield slot, message
            elif child.has_ended():
                yield slot, self._remove(slot)
        for slot, why in self._watch.overdue().items():
            yield slot, self._remove(slot, why)

    def close(self) -> None:
        """Ask all workers to save and end; kill those that have not ended in time."""
        for child in self._children.values():
            with suppress(OSError):
                child.connection.send_bytes(b'{"stop": true}')
        deadline = time.monotonic() + STOP_SECONDS
        for child in self._children.values():
            child.end(max(0.0, deadline - time.monotonic()))
            child.connection.close()

    def _heard(self, slot: int, message: Message) -> bool:
        """Note what a message says about the worker; False if it says nothing about its run."""
        self._watch.heard(slot, message["kind"] == "progress")
        if message["kind"] not in ("alive", "progress"):
            self._watch.ended(slot)
        if message.get("ends") and slot in self._children:
            self._remove(slot)
        return bool(message["kind"] != "alive")

    def _spawn(self, slot: int) -> None:
        log = self._log(slot)
        log.parent.mkdir(exist_ok=True)
        module = "longrun.lab.sweeps.worker_process"
        with log.open("ab") as output:
            self._children[slot] = Child(module, self.variables, output=output)

    def _log(self, slot: int) -> Path:
        return self._folder.path / "workers" / f"{slot}.log"

    def _remove(self, slot: int, why: str = "") -> Message:
        """End a worker that is gone, or hangs for the reason given; the message that reports it."""
        self._watch.ended(slot)
        child = self._children.pop(slot)
        child.connection.close()
        status = child.end(0.0 if why else EXIT_SECONDS)
        what = why or f"died: {cause_of_exit(status)} (see {self._log(slot)})"
        return {"kind": "died", "error": f"the worker process {child.process.pid} {what}"}


def worker_variables(one_thread: bool, cpu_only: bool) -> dict[str, str]:
    """Environment variables of a worker.

    `one_thread` where there are several workers. `cpu_only` where the environments run on the CPU:
    their networks are small, and a worker would take a share of the GPU's memory for nothing.
    """
    threads = ONE_THREAD | {"NPROC": "1"} if one_thread else {}
    return threads | ({"JAX_PLATFORMS": "cpu"} if cpu_only else {})
