"""The watch over a sweep's workers: one that is silent, or does not begin its run, is overdue.

Environments that hang while a run is trained are found by the worker itself. It cannot find that it
was stopped, that an environment holds Python's lock, or that an import or the making of an
environment does not return.
"""

from __future__ import annotations

import time

from longrun.learning.envs.watchdog import START_SECONDS

SHORTEST_SILENCE = 30.0
"""Least limit of a worker's silence: on a busy machine a sign of life may come late."""
LONGEST_LOOK = 5.0
"""Most seconds that count between two looks: this process may have been suspended meanwhile."""


class WorkerWatch:
    """How long each busy worker has given no sign of life, or prepared its run."""

    def __init__(self, step_timeout: float) -> None:
        limit = step_timeout or float("inf")
        self._silence, self._preparation = max(limit, SHORTEST_SILENCE), max(limit, START_SECONDS)
        self._silent: dict[int, float] = {}
        """seconds since the last message, once there was one"""
        self._preparing: dict[int, float] = {}
        """seconds since the run was given, until it begins"""
        self._looked = time.monotonic()

    def started(self, slot: int) -> None:
        """A run was given to the worker of this slot."""
        self._preparing[slot] = 0.0

    def heard(self, slot: int, begun: bool) -> None:
        """A message came; `begun` if it says that the run is being trained."""
        self._silent[slot] = 0.0
        if begun:
            self._preparing.pop(slot, None)

    def ended(self, slot: int) -> None:
        """The run has ended, or its worker has."""
        self._silent.pop(slot, None)
        self._preparing.pop(slot, None)

    def overdue(self) -> dict[int, str]:
        """Slots whose workers have to be ended, and why. To be called every second or so."""
        now = time.monotonic()
        passed, self._looked = min(now - self._looked, LONGEST_LOOK), now
        self._silent = {slot: seconds + passed for slot, seconds in self._silent.items()}
        self._preparing = {slot: seconds + passed for slot, seconds in self._preparing.items()}
        late = (
            f"did not begin its run in {self._preparation:g} s: it was stopped, or an import or the"
            " making of an environment does not return"
        )
        mute = (
            f"gave no sign of life for {self._silence:g} s: it was stopped, or an environment holds"
            " Python's lock"
        )
        found = {slot: late for slot, s in self._preparing.items() if s >= self._preparation}
        found |= {slot: mute for slot, s in self._silent.items() if s >= self._silence}
        advice = "if this can take longer, raise --step-timeout"
        return {slot: f"{why}; {advice}" for slot, why in found.items()}
