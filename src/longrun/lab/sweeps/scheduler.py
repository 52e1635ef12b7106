"""Schedules a sweep: gives runs to idle workers, handles their messages, retries failed runs."""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from longrun.lab.sweeps.live_table import Live, ToCome
from longrun.lab.sweeps.local_workers import Workers
from longrun.lab.sweeps.messages import Message
from longrun.lab.sweeps.sweep_folder import Failure, SweepFolder
from longrun.learning.runs.spec import RunSpec
from longrun.learning.train.stop_signals import StopRequest

WAIT_SECONDS = 1.0
"""Longest wait for messages before the live table is drawn again."""
DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


class Search:
    """Suggests runs, from the results so far; this one has no more than those of the folder."""

    def suggest(self, count: int) -> Mapping[str, RunSpec]:
        """Suggest about so many further runs; none if there are none, now or at all."""
        return {}

    def finished(self, name: str) -> None:
        """Called when a run is finished and its summary is written."""

    def failed(self, name: str, error: str) -> None:
        """Called when a run has failed for good; `error` begins with the exception's name."""

    def to_come(self) -> ToCome:
        """What will still be suggested."""
        return {}


@dataclass
class Outcome:
    """Runs that are finished and runs that failed for good."""

    finished: list[str] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)


class Sweep:
    """One pass over a sweep's folder, until every run is finished or has failed for good."""

    def __init__(
        self,
        folder: SweepFolder,
        workers: Workers,
        live: Live,
        retries: int = 1,
        search: Search | None = None,
        stop: StopRequest | None = None,
    ) -> None:
        self._folder, self._workers, self._live = folder, workers, live
        self._search = search or Search()
        self._retries = retries
        self._stop = StopRequest() if stop is None else stop  # one without a signal is false
        self._waiting: deque[str] = deque()
        self._running: dict[int, str] = {}
        self._attempts: dict[str, int] = {}
        self._outcome = Outcome()

    def run(self) -> Outcome:
        """Train all runs. However this ends, the progress of every run is saved."""
        try:
            with self._live:
                self._take(self._folder.runs)
                self._folder.forget_failures(self._outcome.finished)
                self._fill()
                while self._running:
                    for slot, message in self._workers.messages(WAIT_SECONDS):
                        self.on_message(slot, message)
                    self._stop.obey()
                    self._fill()
                    self._live.refresh()
        except (KeyboardInterrupt, SystemExit):
            print(f"stopping: {len(self._running)} runs are being saved", flush=True)
            raise
        finally:
            self._workers.close()
        return self._outcome

    def _take(self, names: Iterable[str]) -> None:
        """Put unfinished runs into the queue, those that were started before ahead of new ones."""
        new: list[str] = []
        for name in names:
            self._folder.require_own(name)
            finished = self._folder.is_finished(name)
            self._live.add(name, self._folder.runs[name], finished)
            if finished:
                self._outcome.finished.append(name)
                self._search.finished(name)
            elif self._folder.folder(name).exists():
                self._waiting.append(name)
            else:
                new.append(name)
        self._waiting.extend(new)

    def _fill(self) -> None:
        """Give every idle worker a run, as long as there are any."""
        idle = [slot for slot in range(self._workers.slots) if slot not in self._running]
        # A suggested run may be finished already, so ask until there are enough or no more.
        while len(self._waiting) < len(idle):
            suggested = self._search.suggest(len(idle) - len(self._waiting))
            if not suggested:
                break
            self._folder.add(suggested)
            self._take(suggested)
        self._live.expect(self._search.to_come())
        for slot, name in zip(idle, list(self._waiting), strict=False):
            self._waiting.popleft()
            self._attempts[name] = self._attempts.get(name, 0) + 1
            self._running[slot] = name
            self._workers.start(slot, name)
            self._live.started(slot, name)

    def on_message(self, slot: int, message: Message) -> None:
        """Update the state of the slot's run."""
        name = self._running.get(slot)
        if name is None:
            return  # a worker that died while it was idle
        if message["kind"] == "progress":
            self._live.progress(slot, message)
            return
        del self._running[slot]
        if message["kind"] == "done":
            self._outcome.finished.append(name)
            self._folder.forget_failures([name])
            self._live.ended(slot, "done")
            self._search.finished(name)
        else:
            self._failed(slot, name, message)

    def _failed(self, slot: int, name: str, message: Message) -> None:
        if message.get("errno") in DISK_FULL:
            raise OSError(
                f"the disk is full; free some space and run the same command again:"
                f" {len(self._outcome.finished)} of {len(self._folder.runs)} runs are finished"
            )
        attempts = self._attempts[name]
        if message.get("again", True) and attempts <= self._retries:
            self._live.ended(slot, "again", message["error"])
            self._waiting.append(name)
            return
        failure = Failure(name, message["error"], attempts, message.get("traceback", ""))
        self._live.ended(slot, "failed", message["error"])
        self._outcome.failures.append(failure)
        self._folder.add_failure(failure)
        self._search.failed(name, failure.error)
