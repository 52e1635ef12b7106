"""Workers on a Ray cluster: one actor for each slot, placed by Ray where a core is free.

Where a worker sees the sweep's folder (the same machine, a shared file system), the run is trained
in it. Elsewhere it is trained in a temporary folder, which is copied back when the run ends or is
stopped; if such a worker dies, its progress is lost.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

from longrun.base.errors import InputError
from longrun.lab.sweeps.local_workers import worker_variables
from longrun.lab.sweeps.ray_actor import RemoteWorker, read_files, write_files
from longrun.lab.sweeps.sweep_folder import SweepFolder
from longrun.lab.sweeps.worker_process import STOP_SECONDS, Message
from longrun.learning.runs.spec import RunSpec

CONNECT_SECONDS = 4.0
ANSWER_SECONDS = 12.0
"""Time limits for a cluster to answer; a wrong address is reported within 20 s in all."""


def connect(address: str) -> Any:
    """The ray module, connected. Raises InputError if no cluster answers at the address."""
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # otherwise Ray warns
    try:
        import ray
    except ImportError:
        raise InputError("--ray needs a package; pip install ray") from None
    if address != "auto":
        require_answer(address)
    settings = {"log_to_driver": False, "logging_level": logging.ERROR}
    started: Future[Any] = Future()

    def start() -> None:
        try:
            started.set_result(ray.init(address=address, **settings))
        except BaseException as error:
            started.set_exception(error)

    threading.Thread(target=start, daemon=True).start()
    try:
        error = started.exception(ANSWER_SECONDS)
    except TimeoutError:
        raise _no_answer(address, f"no answer in {ANSWER_SECONDS:.0f} s") from None
    if error is not None:
        raise _no_answer(address, _one_line(error))
    return ray


def require_answer(address: str) -> None:
    """Raise InputError at once if no server listens there; Ray itself would try for a minute."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdigit():
        raise InputError(f"--ray {address} must be auto or HOST:PORT, for example 10.0.0.1:6379")
    try:
        socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise _no_answer(address, _one_line(error)) from None


def _no_answer(address: str, why: str) -> InputError:
    return InputError(
        f"--ray {address}: no Ray cluster answers ({why}); start one with ray start --head"
    )


def _one_line(error: BaseException) -> str:
    """The first line of an error's text; the exception's representation if it has no text."""
    return next(iter(str(error).strip().splitlines()), repr(error))


class RayWorkers:
    """One actor for each slot; slots and messages are those of `LocalWorkers`."""

    def __init__(self, folder: SweepFolder, address: str, slots: int | None, native: bool) -> None:
        self._ray = connect(address)
        self._token = folder.token
        resources = self._ray.cluster_resources()
        devices = resources.get("GPU", 0) if native else 0
        self.slots = slots or max(1, int(devices or resources.get("CPU", 1)))
        self._needs = {"num_gpus": 1} if devices else {"num_cpus": 1}
        self._actors: dict[int, Any] = {}
        self._paths: dict[int, Path] = {}
        self._results: dict[int, Any] = {}
        """References to what `RemoteWorker.train` will return, by busy slot."""
        self._asked: dict[int, Any] = {}
        """Calls of `RemoteWorker.progress` that have not returned yet."""
        self._placed: set[int] = set()
        """Slots whose actors have answered."""

    def start(self, slot: int, run: RunSpec, path: Path) -> None:
        if slot not in self._actors:
            variables = worker_variables(one_thread=True, cpu_only="num_gpus" not in self._needs)
            # Two calls at once: `train`, and `progress` meanwhile.
            actor = self._ray.remote(**self._needs, max_concurrency=2)(RemoteWorker)
            paths = [os.path.abspath(path) for path in sys.path]
            self._actors[slot] = actor.remote(variables, paths)
        self._paths[slot] = path = path.absolute()
        saved = [self._ray.put(read_files(path))] if path.exists() else []
        self._results[slot] = self._actors[slot].train.remote(
            run.as_json(), str(path), self._token, saved
        )

    def messages(self, seconds: float) -> Iterator[tuple[int, Message]]:
        ready, _ = self._ray.wait(list(self._results.values()), timeout=seconds)
        for slot in [slot for slot, result in self._results.items() if result in ready]:
            yield slot, self._outcome(slot)
        for slot in self._results.keys() - self._asked.keys():
            self._asked[slot] = self._actors[slot].progress.remote()
        if self._asked:  # an actor that has not been placed yet answers later
            answers = list(self._asked.values())
            ready, _ = self._ray.wait(answers, num_returns=len(answers), timeout=seconds)
        for slot, answer in list(self._asked.items()):
            if answer in ready:
                with suppress(self._ray.exceptions.RayError):  # it died: its result reports that
                    self._placed.add(slot)
                    yield slot, self._ray.get(self._asked.pop(slot)) or {"kind": "alive"}
            elif slot not in self._placed:
                yield slot, {"kind": "waits"}

    def end(self, slot: int, why: str) -> Message:
        for found in (self._results, self._asked):
            found.pop(slot, None)
        self._placed.discard(slot)
        with suppress(Exception):
            self._ray.kill(self._actors.pop(slot))
        return {"kind": "died", "error": f"the Ray worker {why}"}

    def close(self) -> None:
        try:
            for slot in self._results:
                self._actors[slot].stop.remote()
            results = list(self._results.values())
            if results:
                self._ray.wait(results, num_returns=len(results), timeout=STOP_SECONDS)
            for slot, result in list(self._results.items()):
                if self._ray.wait([result], timeout=0)[0]:
                    self._outcome(slot)  # writes the files that a worker sent back
        finally:
            for actor in self._actors.values():
                with suppress(Exception):
                    self._ray.kill(actor)
            self._ray.shutdown()

    def _outcome(self, slot: int) -> Message:
        """The last message of a slot whose run has ended; its files are written where needed."""
        result = self._results.pop(slot)
        self._asked.pop(slot, None)
        message: Message
        try:
            message, files = self._ray.get(result)
        except self._ray.exceptions.RayError as error:
            return self.end(slot, f"died: {_one_line(error)}")
        if message.get("ends"):
            self.end(slot, "")
        write_files(self._paths[slot], files)
        return message
