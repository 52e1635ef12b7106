"""The pool without worker processes: environments run in the training process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import nullcontext, suppress
from typing import Any

from longrun.base.checks import STEP_TIMEOUT
from longrun.base.errors import EnvironmentFailure, HungError, WorkerError
from longrun.learning.envs.plan import Plan, SharedArrays
from longrun.learning.envs.spaces import Array
from longrun.learning.envs.vector_shard import make_shard
from longrun.learning.envs.watchdog import LOOK_SECONDS, Watchdog, no_progress


class LocalPool:
    """Everything in this process, one call at a time, with equal results.

    Nothing can interrupt an environment here. If one hangs, `look` and `close`, called by another
    thread, raise HungError, and the thread that called `start` is left behind.
    """

    def __init__(
        self, plan: Plan, step_timeout: float = STEP_TIMEOUT, who: str = "the training process"
    ) -> None:
        """`who`: what messages call this process."""
        self._memory = SharedArrays(plan.memory())
        self.arrays: dict[str, Array] = self._memory
        self._shard = make_shard(plan, self.arrays, worker=0, num_workers=1)
        self._lock = threading.Lock()
        self._step_timeout, self._who = step_timeout, who
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
        if not self._watchdog.is_due():
            return None
        return self._watchdog.stalled([self._lock.locked()], lambda _: self._who)

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

        def close() -> None:
            try:
                self._shard.close()
                closed.set_result(None)
            except BaseException as error:
                closed.set_exception(error)

        threading.Thread(target=close, daemon=True).start()
        try:
            closed.result(self._step_timeout or None)
        except TimeoutError:
            message = no_progress(self._who, self._step_timeout, "an environment is being closed")
            raise HungError(message) from None
