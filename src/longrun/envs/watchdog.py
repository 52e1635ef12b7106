"""The parent's watch over its workers: a request may not go without progress for too long."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from longrun.envs.heartbeat import ACTIVITY, MAKING
from longrun.envs.spaces import Array
from longrun.errors import InputError

STEP_TIMEOUT = 300.0
"""Default of `step_timeout`, in seconds."""
START_SECONDS = 300.0
"""Shortest limit for the start of a worker and for making an environment: both import modules."""
LOOK_SECONDS = 0.5
"""Between two looks at the workers."""


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
