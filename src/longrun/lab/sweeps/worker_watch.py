"""The watch over a sweep's workers: one that is silent, or does not begin its run, is overdue."""

from __future__ import annotations

import time
from dataclasses import dataclass

from longrun.learning.envs.watchdog import START_SECONDS

SHORTEST_SILENCE = 30.0
"""Least limit of a worker's silence: on a busy machine a sign of life may come late."""
LONGEST_LOOK = 5.0
"""Most seconds that count between two looks: this process may have been suspended meanwhile."""


@dataclass
class _Times:
    """Times of a busy worker, in seconds."""

    silent: float = 0.0
    preparing: float = 0.0
    heard: bool = False
    begun: bool = False


class WorkerWatch:
    """How long each busy worker has given no sign of life, or prepared its run.

    Environments that hang while a run is trained are found by the worker itself. It cannot find
    that it was stopped, that an environment holds Python's lock, or that an import or the making
    of an environment does not return.
    """

    def __init__(self, step_timeout: float) -> None:
        limit = step_timeout or float("inf")
        self._silence, self._preparation = max(limit, SHORTEST_SILENCE), max(limit, START_SECONDS)
        self._times: dict[int, _Times] = {}
        self._looked = time.monotonic()

    def started(self, slot: int) -> None:
        """A run was given to the worker of this slot."""
        self._times[slot] = _Times()

    def heard(self, slot: int, begun: bool) -> None:
        """A message came; `begun` if it says that the run is being trained."""
        if times := self._times.get(slot):
            times.silent, times.heard = 0.0, True
            times.begun = times.begun or begun

    def ended(self, slot: int) -> None:
        """The run has ended, or its worker has."""
        self._times.pop(slot, None)

    def is_watched(self, slot: int) -> bool:
        return slot in self._times

    def overdue(self) -> dict[int, str]:
        """Slots whose workers have to be ended, and why. To be called every second or so."""
        now = time.monotonic()
        passed, self._looked = min(now - self._looked, LONGEST_LOOK), now
        for times in self._times.values():
            times.silent += passed
            times.preparing += passed
        found = {slot: self._reason(times) for slot, times in self._times.items()}
        advice = "if this can take longer, raise --step-timeout"
        return {slot: f"{reason}; {advice}" for slot, reason in found.items() if reason}

    def _reason(self, times: _Times) -> str:
        """Why a worker is overdue; empty if it is not."""
        if times.heard and times.silent >= self._silence:
            return (
                f"gave no sign of life for {self._silence:g} s: it was stopped, or an environment"
                " holds Python's lock"
            )
        if not times.begun and times.preparing >= self._preparation:
            return (
                f"did not begin its run in {self._preparation:g} s: it was stopped, or an import or"
                " the making of an environment does not return"
            )
        return ""
