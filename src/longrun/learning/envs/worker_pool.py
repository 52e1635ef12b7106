"""The parent's side of the worker processes: request a replica's rollout, wait for it."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any, Protocol

from longrun.base.errors import EnvironmentFailure, NonFiniteError, WorkerError
from longrun.learning.envs.factories import pickled
from longrun.learning.envs.local_pool import LocalPool
from longrun.learning.envs.plan import Plan
from longrun.learning.envs.processes import (
    KILL_SECONDS,
    ONE_THREAD,
    cause_of_exit,
    end_process,
    limited_pipe,
    start_process,
)
from longrun.learning.envs.shared_memory import SharedArrays, file_of
from longrun.learning.envs.spaces import Array
from longrun.learning.envs.watchdog import LOOK_SECONDS, STEP_TIMEOUT, Watchdog, no_progress, place
from longrun.learning.envs.worker_part import parts_of

AHEAD = 2
"""Most commands that a worker holds: one that it runs, and the next.

A socket takes a few hundred small messages; with many replicas the sender would block.
"""
EXIT_SECONDS = 2.0
"""Time for a worker that has closed its connection to end by itself."""


class Pool(Protocol):
    """Runs a shard's methods for a replica; `start` returns a wait for the replica's shards."""

    arrays: dict[str, Array]

    @property
    def has_failed(self) -> bool: ...
    def start(self, command: str, replica: int, *arguments: Any) -> Callable[[], None]: ...
    def look(self) -> None: ...
    def close(self) -> None: ...


def open_pool(plan: Plan, num_workers: int, step_timeout: float = STEP_TIMEOUT) -> Pool:
    """`step_timeout`: seconds that a request may go without progress, 0 for no limit."""
    if num_workers:
        return ProcessPool(plan, num_workers, step_timeout)
    return LocalPool(plan, step_timeout)


class ProcessPool:
    """Each worker owns a shard and runs whole rollouts without communication in between."""

    def __init__(self, plan: Plan, num_workers: int, step_timeout: float) -> None:
        program = file_of(pickled(plan))
        self._memory = SharedArrays(plan.memory(num_workers))
        self.arrays: dict[str, Array] = self._memory
        self._owners = _owners(num_workers, len(plan.seeds), plan.num_envs)
        self._evaluators = _owners(num_workers, len(plan.seeds), plan.eval_envs)
        self._lock = threading.Lock()
        self._waiting: list[deque[tuple[Future[None], Any]]] = [deque() for _ in range(num_workers)]
        self._failure: EnvironmentFailure | None = None
        self._workers: list[subprocess.Popen[bytes]] = []
        self._ended: set[int] = set()
        self._connections: list[Connection] = []
        self._watchdog = Watchdog(self._memory["heartbeat"], step_timeout)
        self._receiver: threading.Thread | None = None
        try:
            for worker in range(num_workers):
                self._start(worker, num_workers, program)
        except BaseException:
            self.close()
            raise
        finally:
            os.close(program)
        self._receiver = threading.Thread(target=self._receive, daemon=True)
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
            for worker in owners[replica]:
                if self._failure is not None:
                    raise self._failure
                future: Future[None] = Future()
                futures.append(future)
                self._waiting[worker].append((future, (command, (replica, *arguments))))
                if len(self._waiting[worker]) <= AHEAD:
                    self._send(worker, self._waiting[worker][-1][1])

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
            for connection in self._connections:
                with suppress(OSError):
                    connection.send(("close", ()))
        deadline = time.monotonic() + 0.5
        for worker in range(len(self._workers)):
            self._end(worker, max(0.0, deadline - time.monotonic()))
        if self._receiver is not None:
            self._receiver.join(KILL_SECONDS)
        self._fail(self._failure)  # calls that wait for a process that could not be killed
        for connection in self._connections:
            connection.close()
        self._memory.close()

    def _start(self, worker: int, num_workers: int, program: int) -> None:
        ours, theirs = limited_pipe()
        fds = (theirs.fileno(), program, self._memory.fd)
        arguments = (os.getpid(), worker, num_workers, *fds)
        self._connections.append(ours)
        self._workers.append(
            start_process("longrun.learning.envs.worker_process", arguments, fds, ONE_THREAD)
        )
        theirs.close()

    def _receive(self) -> None:
        """Set results and failures of the futures until every worker has closed its connection."""
        alive = {connection: worker for worker, connection in enumerate(self._connections)}
        while alive:
            ready = wait(alive, LOOK_SECONDS)
            for connection in [c for c in alive if c in ready]:
                try:
                    kind, detail, trace = connection.recv()
                except Exception:  # it was closed, or what comes is not of the worker
                    self._fail(self._death(alive.pop(connection)))
                else:
                    self._handle(alive[connection], kind, detail, trace)
            if self._watchdog.is_due():
                self._look(alive)

    def _handle(self, worker: int, kind: str, detail: str, trace: str) -> None:
        """A worker's message: a command is done, or has failed."""
        if kind == "done":
            self._finish(worker)
        elif kind == "non-finite":
            self._fail(NonFiniteError(detail))
        else:
            error = WorkerError(f"worker {worker} failed: {detail}")
            error.add_note(trace)
            self._fail(error)

    def _look(self, alive: dict[Connection, int]) -> None:
        """Fail if a worker is dead or has stalled, which no message tells."""
        # A process that an environment has forked can keep a dead worker's connection open.
        for connection, worker in list(alive.items()):
            if self._workers[worker].poll() is not None and not connection.poll():
                self._fail(self._death(alive.pop(connection)))
        if stalled := self._watchdog.stalled([bool(queue) for queue in self._waiting]):
            worker, seconds = stalled
            where = place(self.arrays["heartbeat"][worker])
            self._fail(WorkerError(no_progress(self._name(worker), seconds, where)))

    def _finish(self, worker: int) -> None:
        with self._lock:
            queue = self._waiting[worker]
            if queue:  # empty once the pool was closed
                queue.popleft()[0].set_result(None)
                if len(queue) >= AHEAD:
                    self._send(worker, queue[AHEAD - 1][1])

    def _send(self, worker: int, message: Any) -> None:
        with suppress(OSError):  # the receiver thread notices the death and fails the future
            self._connections[worker].send(message)

    def _death(self, worker: int) -> WorkerError:
        """The error for a worker that is dead or has no connection; it is ended if it lives."""
        process, status = self._workers[worker], 0
        with suppress(subprocess.TimeoutExpired):
            status = process.wait(EXIT_SECONDS)
        self._end(worker, 0)
        what = (
            f"died: {cause_of_exit(status)}"
            if status
            else "closed its connection, wrote to it, or exited"
        )
        where = place(self.arrays["heartbeat"][worker])
        return WorkerError(f"{self._name(worker)} {what}; {where}")

    def _end(self, worker: int, seconds: float) -> None:
        """End a worker, once: later another process may have its number."""
        with self._lock:
            if worker in self._ended:
                return
            self._ended.add(worker)
        end_process(self._workers[worker], seconds)

    def _name(self, worker: int) -> str:
        return f"worker {worker} (process {self._workers[worker].pid})"

    def _fail(self, error: EnvironmentFailure) -> None:
        with self._lock:
            self._failure = self._failure or error
            for queue in self._waiting:
                while queue:
                    queue.popleft()[0].set_exception(self._failure)


def _owners(num_workers: int, replicas: int, per_replica: int) -> dict[int, list[int]]:
    """The workers that own some environments of each replica."""
    owners: dict[int, list[int]] = defaultdict(list)
    for worker in range(num_workers):
        for part in parts_of(worker, num_workers, replicas, per_replica):
            owners[part.replica].append(worker)
    return owners
