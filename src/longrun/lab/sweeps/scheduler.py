"""Schedules a sweep: gives runs to idle workers, handles their messages, retries failed runs."""

from __future__ import annotations

import errno
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from longrun.base.checks import STEP_TIMEOUT
from longrun.lab.sweeps.live_table import Live, ToCome
from longrun.lab.sweeps.local_workers import Workers
from longrun.lab.sweeps.sweep_folder import Failure, SweepFolder
from longrun.lab.sweeps.worker_process import Message
from longrun.lab.sweeps.worker_watch import WorkerWatch
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
        step_timeout: float = STEP_TIMEOUT,
    ) -> None:
        self._folder, self._workers, self._live = folder, workers, live
        self._search = search or Search()
        self._retries = retries
        self._step_timeout = step_timeout
        self._watch = WorkerWatch(step_timeout)
        self._waiting: deque[str] = deque()
        self._running: dict[int, str] = {}
        self._attempts: Counter[str] = Counter()
        self._outcome = Outcome()

    def run(self, stop: StopRequest | None = None) -> Outcome:
        """Train all runs. However this ends, the progress of every run is saved."""
        try:
            with self._live:
                self._take(self._folder.runs)
                self._fill()
                while self._running:
                    for slot, message in self._workers.messages(WAIT_SECONDS):
                        self.on_message(slot, message)
                    for slot, why in self._watch.overdue().items():
                        self.on_message(slot, self._workers.end(slot, why))
                    if stop is not None:
                        stop.obey()
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
                self._finished(name)
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
            self._folder.runs.update(suggested)
            self._take(suggested)
        self._live.expect(self._search.to_come())
        for slot in idle[: len(self._waiting)]:
            name = self._waiting.popleft()
            self._attempts[name] += 1
            self._running[slot] = name
            run = replace(self._folder.runs[name], step_timeout=self._step_timeout)
            self._watch.started(slot)
            self._workers.start(slot, run, self._folder.folder(name))
            self._live.started(slot, name)

    def on_message(self, slot: int, message: Message) -> None:
        """Update the state of the slot's run."""
        kind = message["kind"]
        if slot not in self._running:
            return  # a worker that is idle
        if kind == "waits":
            self._watch.started(slot)
        elif kind in ("alive", "progress"):
            self._watch.heard(slot, begun=kind == "progress")
            if kind == "progress":
                self._live.progress(slot, message)
        else:
            self._watch.ended(slot)
            name = self._running.pop(slot)
            if kind == "done":
                self._live.ended(slot, "done")
                self._finished(name)
            else:
                self._failed(slot, name, message)

    def _finished(self, name: str) -> None:
        self._outcome.finished.append(name)
        self._folder.note_failure(name, None)
        self._search.finished(name)

    def _failed(self, slot: int, name: str, message: Message) -> None:
        if message.get("errno") in DISK_FULL:
            raise OSError(
                f"the disk is full; free some space and run the same command again:"
                f" {len(self._outcome.finished)} of {len(self._folder.runs)} runs are finished"
            )
        error, attempts = message["error"], self._attempts[name]
        if message.get("again", True) and attempts <= self._retries:
            self._live.ended(slot, "again", error)
            self._waiting.append(name)
            return
        failure = Failure(name, error, attempts, message.get("traceback", ""))
        self._live.ended(slot, "failed", error)
        self._outcome.failures.append(failure)
        self._folder.note_failure(name, failure)
        self._search.failed(name, error)
