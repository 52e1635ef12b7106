"""The sweep itself: hands runs to workers, hears how they go, tries failed ones again."""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from longrun.experiments.sweeps.folder import Failure, SweepFolder
from longrun.experiments.sweeps.live import Live
from longrun.experiments.sweeps.local import Workers
from longrun.experiments.sweeps.plan import Run

LISTEN_SECONDS = 1.0


class Search(Protocol):
    """Comes up with runs as results come in."""

    def suggest(self, count: int) -> list[Run]:
        """Up to about so many more runs; none for now, or for good, when there are none."""
        ...

    def heard(self, run: Run, failed: bool) -> None:
        """The run is over."""
        ...


class NoSearch:
    """All runs are known from the start."""

    def suggest(self, count: int) -> list[Run]:
        return []

    def heard(self, run: Run, failed: bool) -> None:
        pass


@dataclass
class Outcome:
    """How the sweep ended."""

    finished: list[Run] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)


class Sweep:
    """One pass over a sweep's folder, until every run is finished or given up."""

    def __init__(
        self,
        folder: SweepFolder,
        workers: Workers,
        live: Live,
        retries: int = 1,
        search: Search | None = None,
    ) -> None:
        self._folder, self._workers, self._live = folder, workers, live
        self._search = search or NoSearch()
        self._retries = retries
        self._waiting: deque[Run] = deque()
        self._running: dict[int, Run] = {}
        self._attempts: dict[str, int] = {}
        self.outcome = Outcome()

    def run(self) -> Outcome:
        """On the way out, whatever the reason, all that was trained is on disk."""
        self._take(self._folder.runs)
        try:
            with self._live:
                self._fill()
                while self._running:
                    for slot, message in self._workers.messages(LISTEN_SECONDS):
                        self._hear(slot, message)
                    self._live.refresh()
                    self._fill()
        finally:
            self._workers.close()
        return self.outcome

    def _take(self, runs: Sequence[Run]) -> None:
        """Finished ones are done; the others wait, those that were begun before the rest."""
        new: list[Run] = []
        for run in runs:
            self._folder.require_own(run)
            finished = self._folder.is_finished(run)
            self._live.add(run, finished)
            if finished:
                self.outcome.finished.append(run)
                self._search.heard(run, failed=False)
            elif self._folder.folder(run).exists():
                self._waiting.append(run)
            else:
                new.append(run)
        self._waiting.extend(new)

    def _fill(self) -> None:
        """Give every idle worker something to do."""
        idle = [slot for slot in range(self._workers.slots) if slot not in self._running]
        if len(self._waiting) < len(idle):
            suggested = self._search.suggest(len(idle) - len(self._waiting))
            self._folder.add(suggested)
            self._take(suggested)
        for slot in idle:
            if not self._waiting:
                return
            run = self._waiting.popleft()
            self._attempts[run.name] = self._attempts.get(run.name, 0) + 1
            self._running[slot] = run
            self._workers.start(slot, run)
            self._live.began(slot, run)

    def _hear(self, slot: int, message: dict[str, Any]) -> None:
        run = self._running.get(slot)
        if run is None:
            return
        if message["kind"] == "progress":
            self._live.progress(slot, message)
            return
        del self._running[slot]
        if message["kind"] == "done":
            self.outcome.finished.append(run)
            self._live.ended(slot, "done")
            self._search.heard(run, failed=False)
        else:
            self._failed(slot, run, message)

    def _failed(self, slot: int, run: Run, message: dict[str, Any]) -> None:
        if message.get("errno") == errno.ENOSPC:
            raise OSError(
                f"the disk is full; free some space and give the same command again:"
                f" {len(self.outcome.finished)} of {len(self._folder.runs)} runs are finished"
            )
        attempts = self._attempts[run.name]
        if message.get("again") and attempts <= self._retries:
            self._live.ended(slot, f"failed, tried again: {message['error']}")
            self._waiting.append(run)
            return
        self._live.ended(slot, f"failed: {message['error']}")
        self.outcome.failures.append(Failure(run.name, message["error"], attempts))
        self._folder.write_failures(self.outcome.failures)
        self._search.heard(run, failed=True)
