"""The limits on time: a worker's request, or a call of this process, that makes no progress.

Each worker writes where it is to a row of shared memory, its heartbeat. The parent reads it without
asking the worker, which may hang in C code or be stopped.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from longrun.base.errors import HungError
from longrun.learning.envs.spaces import Array
from longrun.learning.envs.worker_part import Part

START_SECONDS = 300.0
"""Shortest limit for the start of a worker and for making an environment: both import modules."""
LOOK_SECONDS = 0.5
"""Time between two looks at the workers."""


CELLS = 8
"""int64 numbers of each worker: a cache line, so that workers do not slow each other down"""
ACTIVITY, REPLICA, ITERATION, FIRST, COUNT, TURN, RESETS, BEGUN = range(CELLS)
"""The cells. COUNT environments from FIRST on take turns, and TURN counts these from 0. RESETS is
odd during a reset. BEGUN counts activities, so that a row differs from all earlier ones."""
STARTING, MAKING, RESETTING, ROLLOUT, EVALUATION, IDLE, RESTORING = range(7)
"""Activities."""
PLACES = {
    STARTING: "while it was starting",
    MAKING: "making {}",
    RESETTING: "{} in its reset",
    IDLE: "before its next request",
    RESTORING: "{} in its set_state",
}
"""What messages say of activities that are no steps."""


def no_progress(who: str, seconds: float, where: str) -> str:
    """The message about one that has reached its limit."""
    return (
        f"{who} made no progress for {seconds:g} s: {where}; if this can take longer, raise"
        " step_timeout (--step-timeout)"
    )


class Heartbeat:
    """The worker's side of its row. The step loops write `row[TURN]` themselves, for speed."""

    def __init__(self, row: Array) -> None:
        self.row = memoryview(row)  # type: ignore[arg-type]  # of which NumPy's types do not tell

    def begin(self, activity: int, part: Part, iteration: int = 0) -> None:
        """Begin an activity: the environments of `part` take turns, from turn 0 on."""
        row = self.row
        row[TURN] = row[RESETS] = 0
        row[REPLICA], row[ITERATION] = part.replica, iteration
        row[FIRST], row[COUNT] = part.first, part.last - part.first
        row[ACTIVITY] = activity
        row[BEGUN] += 1

    def rest(self) -> None:
        self.row[ACTIVITY] = IDLE
        self.row[BEGUN] += 1

    def reset(self) -> None:
        """Count the beginning or the end of an environment's reset; call it at both."""
        self.row[RESETS] += 1


def place(row: Array) -> str:
    """Environment and step of a worker, in words."""
    activity, replica, iteration, first, count, turn, resets, _ = row.tolist()
    step, env = divmod(turn, max(count, 1))
    name = f"environment {first + env} of replica {replica}"
    if activity in PLACES:
        return PLACES[activity].format(name)
    evaluation = "the evaluation after " if activity == EVALUATION else ""
    where = "in a reset at" if resets % 2 else "at"
    return f"{name} {where} step {step} of {evaluation}iteration {iteration}"


class Watchdog:
    """Compares the rows of workers' heartbeats with those of the last look."""

    def __init__(self, rows: Array, step_timeout: float) -> None:
        self._rows = rows
        self._step_timeout = step_timeout or np.inf
        self._seen = rows.copy()
        self._still = np.zeros(len(rows))
        """seconds that each worker has been busy without progress"""
        self._looked = time.monotonic()

    def stalled(self, busy: Sequence[bool], names: Sequence[str]) -> str | None:
        """The message about a worker that has reached its limit; None if all are well.

        It looks at most each `LOOK_SECONDS`.
        """
        now = time.monotonic()
        if now - self._looked < LOOK_SECONDS:
            return None
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
            return no_progress(names[int(worker)], limits[worker], place(rows[worker]))
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
