"""The parent's side of the worker processes: request a replica's rollout, wait for it."""

from __future__ import annotations

import subprocess
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any, Protocol

from longrun.envs.factories import pickled
from longrun.envs.parts import parts_of
from longrun.envs.processes import ONE_THREAD, cause_of_exit, end_process, start_process
from longrun.envs.shard import Plan, Shard
from longrun.envs.shared_memory import SharedArrays
from longrun.envs.spaces import Array
from longrun.errors import EnvironmentFailure, NonFiniteError, WorkerError

AHEAD = 2
"""Most commands that a worker holds: one that it runs, and the next.

A socket takes a few hundred small messages; with many replicas the sender would block.
"""


class Pool(Protocol):
    """Runs a shard's methods for a replica; `start` returns a wait for the replica's shards."""

    arrays: dict[str, Array]

    def start(self, command: str, replica: int, *arguments: Any) -> Callable[[], None]: ...
    def close(self) -> None: ...


def open_pool(plan: Plan, num_workers: int) -> Pool:
    return ProcessPool(plan, num_workers) if num_workers else LocalPool(plan)


class LocalPool:
    """Everything in this process, one call at a time: for debugging, with equal results."""

    def __init__(self, plan: Plan) -> None:
        self._memory = SharedArrays(plan.memory())
        self.arrays: dict[str, Array] = self._memory
        self._shard = Shard(plan, self.arrays, worker=0, num_workers=1)
        self._lock = threading.Lock()
        self._closed = False

    def start(self, command: str, replica: int, *arguments: Any) -> Callable[[], None]:
        with self._lock:
            if self._closed:
                raise WorkerError("the environments were closed")
            getattr(self._shard, command)(replica, *arguments)
        return lambda: None

    def close(self) -> None:
        with self._lock:  # never while an environment is being stepped
            self._closed = True
            self._shard.close()
            self._memory.close()


class ProcessPool:
    """Each worker owns a shard and runs whole rollouts without communication in between."""

    def __init__(self, plan: Plan, num_workers: int) -> None:
        program = pickled(plan)
        self._memory = SharedArrays(plan.memory())
        self.arrays: dict[str, Array] = self._memory
        self._owners = _owners(num_workers, len(plan.seeds), plan.num_envs)
        self._evaluators = _owners(num_workers, len(plan.seeds), plan.eval_envs)
        self._lock = threading.Lock()
        self._waiting: list[deque[tuple[Future[None], Any]]] = [deque() for _ in range(num_workers)]
        self._failure: EnvironmentFailure | None = None
        self._workers: list[subprocess.Popen[bytes]] = []
        self._connections: list[Connection] = []
        self._receiver: threading.Thread | None = None
        try:
            for worker in range(num_workers):
                self._start(worker, num_workers)
            for connection in self._connections:
                with suppress(OSError):  # of a worker that died: the receiver reports it
                    connection.send_bytes(program)
        except BaseException:
            self.close()
            raise
        self._receiver = threading.Thread(target=self._receive, daemon=True)
        self._receiver.start()

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

    def close(self) -> None:
        """Ask all workers to close, kill those that have not after 0.5 s; pending calls fail."""
        with self._lock:
            self._failure = self._failure or WorkerError("the workers were closed")
            for connection in self._connections:
                with suppress(OSError):
                    connection.send(("close", ()))
        deadline = time.monotonic() + 0.5
        for process in self._workers:
            end_process(process, max(0.0, deadline - time.monotonic()))
        if self._receiver is not None:
            self._receiver.join()
        for connection in self._connections:
            connection.close()
        self._memory.close()

    def _start(self, worker: int, num_workers: int) -> None:
        ours, theirs = Pipe()
        fds = (theirs.fileno(), self._memory.fd)
        arguments = (worker, num_workers, *fds)
        self._connections.append(ours)
        self._workers.append(
            start_process("longrun.envs.worker_process", arguments, fds, ONE_THREAD)
        )
        theirs.close()

    def _receive(self) -> None:
        """Until every worker has closed its connection: set results and failures of the futures."""
        alive = {connection: worker for worker, connection in enumerate(self._connections)}
        while alive:
            ready = wait(alive)
            for connection in [c for c in alive if c in ready]:
                try:
                    kind, detail = connection.recv()
                except (EOFError, OSError):
                    self._fail(WorkerError(self._cause_of_death(alive.pop(connection))))
                    continue
                if kind == "error":
                    self._fail(WorkerError(f"worker {alive[connection]} failed:\n{detail}"))
                elif kind == "non-finite":
                    self._fail(NonFiniteError(detail))
                else:
                    self._finish(alive[connection])

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

    def _cause_of_death(self, worker: int) -> str:
        process = self._workers[worker]
        status = process.wait()
        return f"worker {worker} (process {process.pid}) died: {cause_of_exit(status)}"

    def _fail(self, error: EnvironmentFailure) -> None:
        with self._lock:
            self._failure = self._failure or error
            for queue in self._waiting:
                while queue:
                    queue.popleft()[0].set_exception(self._failure)


def _owners(num_workers: int, replicas: int, per_replica: int) -> dict[int, list[int]]:
    """For each replica the workers that own some of its environments."""
    owners: dict[int, list[int]] = defaultdict(list)
    for worker in range(num_workers):
        for part in parts_of(worker, num_workers, replicas, per_replica):
            owners[part.replica].append(worker)
    return owners
