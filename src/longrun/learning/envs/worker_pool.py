"""The parent's side of the worker processes: request a replica's rollout, wait for it."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from multiprocessing.connection import wait
from typing import Any

from longrun.base.checks import STEP_TIMEOUT
from longrun.base.errors import EnvironmentFailure, WorkerError
from longrun.learning.envs.factories import pickled
from longrun.learning.envs.local_pool import LocalPool
from longrun.learning.envs.plan import Plan, SharedArrays, file_of
from longrun.learning.envs.processes import (
    KILL_SECONDS,
    ONE_THREAD,
    Child,
    cause_of_exit,
)
from longrun.learning.envs.spaces import Array
from longrun.learning.envs.watchdog import LOOK_SECONDS, Watchdog, place
from longrun.learning.envs.worker_part import parts_of

AHEAD = 2
"""Most commands that a worker holds: one that it runs, and the next.

A socket takes a few hundred small messages; with many replicas the sender would block.
"""
EXIT_SECONDS = 2.0
"""Time for a worker that has closed its connection to end by itself."""


class Worker(Child):
    """A worker process, with the commands that it has not done yet."""

    def __init__(self, number: int, num_workers: int, fds: Sequence[int]) -> None:
        arguments = (os.getpid(), number, num_workers, *fds)
        super().__init__("longrun.learning.envs.worker_process", ONE_THREAD, arguments, fds)
        self.waiting: deque[tuple[Future[None], Any]] = deque()

    def send(self, message: Any) -> None:
        with suppress(OSError):  # the receiver thread notices the death and fails the future
            self.connection.send(message)


class ProcessPool:
    """Each worker owns a shard and runs whole rollouts without communication in between."""

    def __init__(self, plan: Plan, num_workers: int, step_timeout: float) -> None:
        program = file_of(pickled(plan))
        self._memory = SharedArrays(plan.memory(num_workers))
        self.arrays: dict[str, Array] = self._memory
        self._owners = _owners(num_workers, len(plan.seeds), plan.num_envs)
        self._evaluators = _owners(num_workers, len(plan.seeds), plan.eval_envs)
        self._lock = threading.Lock()
        self._failure: EnvironmentFailure | None = None
        self._workers: list[Worker] = []
        self._watchdog = Watchdog(self._memory["heartbeat"], step_timeout)
        self._receiver = threading.Thread(target=self._receive, daemon=True)
        try:
            for number in range(num_workers):
                self._workers.append(Worker(number, num_workers, (program, self._memory.fd)))
        except BaseException:
            self.close()
            raise
        finally:
            os.close(program)
        self._receiver.start()

    @property
    def has_failed(self) -> bool:
        """Whether a worker has failed or died, or all were closed."""
        return self._failure is not None

    def start(self, command: str, replica: int, *arguments: Any) -> Callable[[], None]:
        """Send a command to all workers that own some of the replica; they run it in order."""
        futures: list[Future[None]] = []
        owners = self._evaluators if command == "evaluate" else self._owners
        with self._lock:
            if self._failure is not None:
                raise self._failure
            for worker in (self._workers[number] for number in owners[replica]):
                futures.append(Future())
                worker.waiting.append((futures[-1], (command, (replica, *arguments))))
                if len(worker.waiting) <= AHEAD:
                    worker.send(worker.waiting[-1][1])

        def wait_for_all() -> None:
            for future in futures:
                future.result()

        return wait_for_all

    def look(self) -> None:
        """Nothing to do: the receiver thread looks, and pending calls fail."""

    def close(self) -> None:
        """Ask all workers to close, kill those that have not after 0.5 s; pending calls fail."""
        with self._lock:
            self._failure = self._failure or WorkerError("the workers were closed")
            for worker in self._workers:
                worker.send(("close", ()))
        deadline = time.monotonic() + 0.5
        for worker in self._workers:
            worker.end(max(0.0, deadline - time.monotonic()))
        if self._receiver.is_alive():
            self._receiver.join(KILL_SECONDS)
        self._fail(self._failure)  # calls that wait for a process that could not be killed
        for worker in self._workers:
            worker.connection.close()
        self._memory.close()

    def _receive(self) -> None:
        """Set results and failures of the futures until every worker has closed its connection."""
        alive = dict(enumerate(self._workers))
        while alive:
            ready = wait([worker.connection for worker in alive.values()], LOOK_SECONDS)
            for number, worker in list(alive.items()):
                if worker.connection in ready:
                    try:
                        failure = worker.connection.recv()
                        if not isinstance(failure, EnvironmentFailure | None):
                            raise TypeError
                    except Exception:  # it was closed, or what comes is not of the worker
                        self._fail(self._death(number))
                        del alive[number]
                    else:
                        if failure is None:
                            self._finish(worker)
                        else:
                            self._fail(failure)
            if self._watchdog.is_due():
                self._look(alive)

    def _look(self, alive: dict[int, Worker]) -> None:
        """Fail if a worker is dead or has stalled, which no message tells."""
        for number, worker in list(alive.items()):
            if worker.has_ended():
                self._fail(self._death(number))
                del alive[number]
        busy = [bool(worker.waiting) for worker in self._workers]
        if message := self._watchdog.stalled(busy, self._name):
            self._fail(WorkerError(message))

    def _finish(self, worker: Worker) -> None:
        with self._lock:
            if worker.waiting:  # empty once the pool was closed
                worker.waiting.popleft()[0].set_result(None)
                if len(worker.waiting) >= AHEAD:
                    worker.send(worker.waiting[AHEAD - 1][1])

    def _death(self, number: int) -> WorkerError:
        """The error for a worker that is dead or has no connection; it is ended if it lives."""
        worker, status = self._workers[number], 0
        with suppress(subprocess.TimeoutExpired):
            status = worker.process.wait(EXIT_SECONDS)
        worker.end(0)
        what = "closed its connection, wrote to it, or exited"
        if status:
            what = f"died: {cause_of_exit(status)}"
        where = place(self.arrays["heartbeat"][number])
        return WorkerError(f"{self._name(number)} {what}; {where}")

    def _name(self, number: int) -> str:
        return f"worker {number} (process {self._workers[number].process.pid})"

    def _fail(self, error: EnvironmentFailure) -> None:
        with self._lock:
            self._failure = self._failure or error
            for worker in self._workers:
                while worker.waiting:
                    worker.waiting.popleft()[0].set_exception(self._failure)


Pool = LocalPool | ProcessPool
"""Runs methods of shards for a replica; `start` returns a wait for the replica's shards."""


def open_pool(plan: Plan, num_workers: int, step_timeout: float = STEP_TIMEOUT) -> Pool:
    """`step_timeout`: seconds that a request may go without progress, 0 for no limit."""
    if num_workers:
        return ProcessPool(plan, num_workers, step_timeout)
    return LocalPool(plan, step_timeout)


def _owners(num_workers: int, replicas: int, per_replica: int) -> dict[int, list[int]]:
    """The workers that own some environments of each replica."""
    owners: dict[int, list[int]] = defaultdict(list)
    for worker in range(num_workers):
        for part in parts_of(worker, num_workers, replicas, per_replica):
            owners[part.replica].append(worker)
    return owners
