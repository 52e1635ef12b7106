"""Pools of environments, in worker processes or in this one: run methods of shards for a replica.

`start` runs one, and returns a wait for all shards that have some of the replica's environments.
"""

from __future__ import annotations

import mmap
import os
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import nullcontext, suppress
from multiprocessing.connection import wait
from typing import Any

from longrun.base.checks import STEP_TIMEOUT
from longrun.base.errors import EnvironmentFailure, HungError, WorkerError
from longrun.learning.envs.factories import pickled
from longrun.learning.envs.plan import Plan, SharedArrays, unnamed_file
from longrun.learning.envs.processes import KILL_SECONDS, ONE_THREAD, Child, cause_of_exit, settle
from longrun.learning.envs.spaces import Array
from longrun.learning.envs.vector_shard import make_shard
from longrun.learning.envs.watchdog import LOOK_SECONDS, Watchdog, no_progress, place
from longrun.learning.envs.worker_part import parts_of

AHEAD = 2
"""Most commands that a worker holds: one that it runs, and the next.

A socket takes a few hundred small messages; with many replicas the sender would block.
"""
EXIT_SECONDS = 2.0
"""Time for a worker that has closed its connection to end by itself."""


class Worker(Child):
    """A worker process, with the commands that it has not done yet."""

    def __init__(self, plan: Plan, number: int, num_workers: int, fds: Sequence[int]) -> None:
        arguments = (os.getpid(), number, num_workers, *fds)
        super().__init__("longrun.learning.envs.worker_process", ONE_THREAD, arguments, fds)
        self.number = number
        self.name = f"worker {number} (process {self.process.pid})"
        self.waiting: deque[tuple[Future[None], Any]] = deque()
        self.trains, self.evaluates = (
            {part.replica for part in parts_of(number, num_workers, len(plan.seeds), envs)}
            for envs in (plan.num_envs, plan.eval_envs)
        )

    def send(self, message: Any) -> None:
        with suppress(OSError):  # the receiver thread notices the death and fails the future
            self.connection.send(message)


class ProcessPool:
    """Each worker owns a shard and runs whole rollouts without communication in between."""

    def __init__(self, plan: Plan, num_workers: int, step_timeout: float) -> None:
        content = pickled(plan)
        program = unnamed_file(len(content))  # unlike a socket it takes any size without waiting
        with mmap.mmap(program, len(content)) as memory:
            memory[:] = content
        self._memory = SharedArrays(plan.memory(num_workers))
        self.arrays: dict[str, Array] = self._memory
        self._lock = threading.Lock()
        self._failure: EnvironmentFailure | None = None
        self._workers: list[Worker] = []
        self._watchdog = Watchdog(self._memory["heartbeat"], step_timeout)
        self._receiver = threading.Thread(target=self._receive, daemon=True)
        try:
            for number in range(num_workers):
                fds = (program, self._memory.fd)
                self._workers.append(Worker(plan, number, num_workers, fds))
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
        with self._lock:
            if self._failure is not None:
                raise self._failure
            for worker in self._workers:
                if replica not in (worker.evaluates if command == "evaluate" else worker.trains):
                    continue
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
        alive = list(self._workers)
        while alive:
            ready = wait([worker.connection for worker in alive], LOOK_SECONDS)
            for worker in [each for each in alive if each.connection in ready]:
                try:
                    failure = worker.connection.recv()
                    if not isinstance(failure, EnvironmentFailure | None):
                        raise TypeError
                except Exception:  # it was closed, or what comes is not of the worker
                    failure = self._death(worker)
                    alive.remove(worker)
                if failure is None:
                    self._finish(worker)
                else:
                    self._fail(failure)
            for worker in [each for each in alive if each.has_ended()]:  # which no message tells
                self._fail(self._death(worker))
                alive.remove(worker)
            busy = [bool(worker.waiting) for worker in self._workers]
            if message := self._watchdog.stalled(busy, [worker.name for worker in self._workers]):
                self._fail(WorkerError(message))

    def _finish(self, worker: Worker) -> None:
        with self._lock:
            if worker.waiting:  # empty once the pool was closed
                worker.waiting.popleft()[0].set_result(None)
                if len(worker.waiting) >= AHEAD:
                    worker.send(worker.waiting[AHEAD - 1][1])

    def _death(self, worker: Worker) -> WorkerError:
        """The error for a worker that is dead or has no connection; it is ended if it lives."""
        status = 0
        with suppress(subprocess.TimeoutExpired):
            status = worker.process.wait(EXIT_SECONDS)
        worker.end(0)
        what = "closed its connection, wrote to it, or exited"
        if status:
            what = f"died: {cause_of_exit(status)}"
        where = place(self.arrays["heartbeat"][worker.number])
        return WorkerError(f"{worker.name} {what}; {where}")

    def _fail(self, error: EnvironmentFailure) -> None:
        with self._lock:
            self._failure = self._failure or error
            for worker in self._workers:
                while worker.waiting:
                    worker.waiting.popleft()[0].set_exception(self._failure)


class LocalPool:
    """Everything in this process, one call at a time, with equal results.

    Nothing can interrupt an environment here. If one hangs, `look` and `close`, called by another
    thread, raise HungError, and the thread that called `start` is left behind.
    """

    def __init__(self, plan: Plan, step_timeout: float = STEP_TIMEOUT) -> None:
        self._memory = SharedArrays(plan.memory())
        self.arrays: dict[str, Array] = self._memory
        self._shard = make_shard(plan, self.arrays, worker=0, num_workers=1)
        self._lock = threading.Lock()
        self._step_timeout = step_timeout
        self._watchdog = Watchdog(self._memory["heartbeat"], step_timeout)
        self._closed = self._failed = False

    @property
    def has_failed(self) -> bool:
        return self._failed or self._closed

    def start(self, command: str, replica: int, *arguments: Any) -> Callable[[], None]:
        with self._lock:
            if self._closed:
                raise WorkerError("the environments were closed")
            try:
                getattr(self._shard, command)(replica, *arguments)
            except BaseException:
                self._failed = True
                raise
        return lambda: None

    def look(self) -> None:
        """Raise HungError if a request has made no progress for too long."""
        if message := self.stalled():
            raise HungError(message)

    def stalled(self) -> str | None:
        """The message about a request without progress, if there is one."""
        return self._watchdog.stalled([self._lock.locked()], ["this process"])

    def close(self) -> None:
        """Close the environments, never while one is being stepped. Raises HungError."""
        self._closed = True
        while not self._lock.acquire(timeout=LOOK_SECONDS):
            self.look()
        try:
            self._memory.close()
            # An environment that has failed may fail again: its first error is the one to show.
            with suppress(EnvironmentFailure) if self._failed else nullcontext():
                self._close_shard()
        finally:
            self._lock.release()

    def _close_shard(self) -> None:
        """Close in another thread, which can be left behind if an environment does not return."""
        closed: Future[None] = Future()
        threading.Thread(target=settle, args=(closed, self._shard.close), daemon=True).start()
        try:
            closed.result(self._step_timeout or None)
        except TimeoutError:
            where = "an environment is being closed"
            raise HungError(no_progress("this process", self._step_timeout, where)) from None


Pool = LocalPool | ProcessPool


def open_pool(plan: Plan, num_workers: int, step_timeout: float = STEP_TIMEOUT) -> Pool:
    """`step_timeout`: seconds that a request may go without progress, 0 for no limit."""
    if num_workers:
        return ProcessPool(plan, num_workers, step_timeout)
    return LocalPool(plan, step_timeout)
