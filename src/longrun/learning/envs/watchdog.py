"""The limits on time: a worker's request, or a call of this process, that makes no progress."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from longrun.base.errors import HungError, InputError
from longrun.learning.envs.heartbeat import ACTIVITY, MAKING
from longrun.learning.envs.spaces import Array

STEP_TIMEOUT = 300.0
"""Default of `step_timeout`, in seconds."""
START_SECONDS = 300.0
"""Shortest limit for the start of a worker and for making an environment: both import modules."""
LOOK_SECONDS = 0.5
"""Time between two looks at the workers."""


def checked_timeout(value: object) -> float:
    """The option `step_timeout`: seconds, 0 for no limit."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float | np.integer | np.floating)
        or not 0 <= value < np.inf
    ):
        raise InputError(f"step_timeout={value!r} must be a number of seconds; 0 for no limit")
    return float(value)


def no_progress(who: str, seconds: float, where: str) -> str:
    """The message about one that has reached its limit."""
    return (
        f"{who} made no progress for {seconds:g} s: {where}; if this can take longer, raise"
        " step_timeout (--step-timeout)"
    )


class Watchdog:
    """Compares the workers' rows (see `heartbeat`) with those of the last look."""

    def __init__(self, rows: Array, step_timeout: float) -> None:
        self._rows = rows
        self._step_timeout = step_timeout or np.inf
        self._seen = rows.copy()
        self._still = np.zeros(len(rows))
        """seconds that each worker has been busy without progress"""
        self._looked = time.monotonic()

    def is_due(self) -> bool:
        return time.monotonic() - self._looked >= LOOK_SECONDS

    def stalled(self, busy: Sequence[bool]) -> tuple[int, float] | None:
        """A worker that has reached its limit, and that limit in seconds; None if all are well."""
        now = time.monotonic()
        # When this process could not look, the workers may have been frozen or starved as well.
        passed = min(now - self._looked, 2 * LOOK_SECONDS)
        self._looked = now
        rows = self._rows.copy()
        alive = (rows != self._seen).any(axis=1) | ~np.asarray(busy)
        self._seen = rows
        self._still = np.where(alive, 0.0, self._still + passed)
        longest = max(self._step_timeout, START_SECONDS)
        limits = np.where(rows[:, ACTIVITY] <= MAKING, longest, self._step_timeout)
        for worker in np.flatnonzero(self._still >= limits):
            return int(worker), float(limits[worker])
        return None


@contextmanager
def making_limit(name: str, step_timeout: float) -> Iterator[None]:
    """Raise HungError if making the environment `name` in this block takes too long."""
    limit = max(step_timeout, START_SECONDS) if step_timeout else np.inf
    begin = time.monotonic()

    def stalled() -> str | None:
        if time.monotonic() - begin < limit:
            return None
        return no_progress("this process", limit, f"making the environment '{name}'")

    with interrupted_if(stalled):
        yield


@contextmanager
def interrupted_if(stalled: Callable[[], str | None]) -> Iterator[None]:
    """Raise HungError in this block once `stalled`, called twice a second, returns a message.

    A signal interrupts what runs, which is possible in the main thread only, and not where C code
    keeps Python's lock. Where SIGALRM is in use, or does not exist, there is no limit.
    """
    main, over, messages = threading.main_thread(), threading.Event(), list[str]()
    free = hasattr(signal, "SIGALRM") and signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
    if not free or threading.current_thread() is not main:
        yield
        return

    def interrupt(number: int, frame: object) -> None:
        if not over.is_set():
            raise HungError(messages[0])

    def look() -> None:
        while not over.wait(LOOK_SECONDS):
            if message := stalled():
                messages.append(message)
                signal.pthread_kill(main.ident or 0, signal.SIGALRM)
                return

    signal.signal(signal.SIGALRM, interrupt)
    watch = threading.Thread(target=look, daemon=True)
    watch.start()
    try:
        yield
    except BaseException as error:  # of the environment, or one that a HungError was turned into
        if messages and not isinstance(error, HungError):
            raise HungError(messages[0]) from error
        raise
    finally:
        over.set()
        watch.join()
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
