"""Progress of a sweep: a live table on a terminal, otherwise one line for each run."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

from rich.console import Console, Group
from rich.live import Live as RichLive
from rich.table import Table
from rich.text import Text

from longrun.lab.sweeps.messages import one_line
from longrun.lab.sweeps.plan import PlannedRun

SHOWN = 32
"""Most runs that the table shows."""
REFRESH_SECONDS = 0.25
"""Time between two drawings, which take milliseconds: a large machine sends many messages."""

ToCome = Mapping[str, tuple[int, int]]
"""The number of runs that a search will still suggest for each environment, and their steps."""


class Speed(NamedTuple):
    """Steps done on an environment, and the seconds of workers that they took."""

    steps: int = 0
    seconds: float = 0.0

    def plus(self, steps: int, seconds: float) -> Speed:
        return Speed(self.steps + steps, self.seconds + seconds)


@dataclass
class _Running:
    run: PlannedRun
    start: float
    first: int = 0
    """Steps in the first message: a resumed run does not start at 0."""
    steps: int = 0
    rate: float = 0.0
    reward: float = float("nan")
    reported: bool = False


class Live:
    """Counts runs and steps, and estimates the time left from the speed on each environment."""

    def __init__(self, title: str, wanted: bool | None = None, log: bool = True) -> None:
        self._console = Console(stderr=True)
        shown = sys.stderr.isatty() if wanted is None else wanted
        live = RichLive(console=self._console, auto_refresh=False, transient=True)
        self._live = live if shown else None
        self._log = log and not shown
        self._title = title
        self._drawn = 0.0
        self._running: dict[int, _Running] = {}
        self._left: dict[str, int] = {}
        """Steps of each environment in runs that are waiting."""
        self._to_come: ToCome = {}
        self._measured: dict[str, Speed] = {}
        """Speed of the finished runs on each environment."""
        self._counts = {"runs": 0, "finished": 0, "failed": 0}

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def add(self, run: PlannedRun, finished: bool) -> None:
        self._counts["runs"] += 1
        self._counts["finished"] += finished
        if not finished:
            self._left[run.env] = self._left.get(run.env, 0) + run.all_steps

    def expect(self, to_come: ToCome) -> None:
        self._to_come = to_come

    def started(self, slot: int, run: PlannedRun) -> None:
        self._running[slot] = _Running(run, time.monotonic())
        self._left[run.env] -= run.all_steps

    def progress(self, slot: int, message: Mapping[str, Any]) -> None:
        running = self._running[slot]
        running.steps, running.reward = message["steps"], message["reward"]
        running.rate = message["steps_per_second"]
        if not running.reported:
            running.first, running.reported = running.steps, True

    def ended(self, slot: int, how: Literal["done", "again", "failed"], error: str = "") -> None:
        running = self._running.pop(slot)
        run, seconds = running.run, time.monotonic() - running.start
        if how == "done":
            self._counts["finished"] += 1
            speed = self._measured.get(run.env, Speed())
            self._measured[run.env] = speed.plus(run.all_steps - running.first, seconds)
        elif how == "again":
            self._left[run.env] += run.all_steps
        else:
            self._counts["failed"] += 1
        what = {"done": "done", "again": "failed, will be retried", "failed": "failed"}[how]
        line = f"{run.name}: {what} ({seconds:.0f} s){error and f': {one_line(error)}'}"
        if self._log or (how != "done" and self._live is None):
            print(f"{self._summary()}  {line}", flush=True)
        elif how != "done":
            self._console.print(line, markup=False, highlight=False)

    def refresh(self) -> None:
        if self._live is not None and time.monotonic() - self._drawn > REFRESH_SECONDS:
            self._live.update(self.table(), refresh=True)
            self._drawn = time.monotonic()

    def seconds_left(self) -> float | None:
        """Estimated seconds until all runs are finished; None before any speed was measured."""
        now, speeds = time.monotonic(), dict(self._measured)
        for r in self._running.values():
            speed = speeds.get(r.run.env, Speed())
            speeds[r.run.env] = speed.plus(r.steps - r.first, now - r.start)
        everything = Speed(*(sum(column) for column in zip(*speeds.values(), strict=True)))
        if not everything.steps:
            return None

        def seconds(env: str, steps: int) -> float:
            speed = speeds.get(env, everything)
            speed = speed if speed.steps else everything
            return steps * speed.seconds / speed.steps

        running = [seconds(r.run.env, r.run.all_steps - r.steps) for r in self._running.values()]
        waiting = [seconds(env, steps) for env, steps in self._left.items()]
        later = [seconds(env, steps) for env, (_, steps) in self._to_come.items()]
        # Workers share all runs, but each run is trained by one worker.
        share = sum(running + waiting + later) / max(1, len(running))
        return max([share, *running])

    def _summary(self) -> str:
        counts = self._counts
        runs = counts["runs"] + sum(runs for runs, _ in self._to_come.values())
        text = f"{counts['finished']} of {runs} runs finished"
        return text + (f", {counts['failed']} failed" if counts["failed"] else "")

    def table(self) -> Group:
        """The running runs, and a line about all of them."""
        table = Table(title=self._title, expand=False)
        table.add_column("run", overflow="fold")
        for column in ("done", "reward", "steps/s"):
            table.add_column(column, justify="right")
        for _, running in sorted(self._running.items())[:SHOWN]:
            table.add_row(
                running.run.name,
                f"{100 * running.steps / running.run.all_steps:.0f} %",
                "starting" if math.isnan(running.reward) else f"{running.reward:.3g}",
                f"{running.rate:,.0f}" if running.rate else "-",
            )
        rate = sum(running.rate for running in self._running.values())
        left = self.seconds_left()
        time_left = "-" if left is None else _duration(left)
        return Group(table, Text(f"{self._summary()}; {rate:,.0f} steps/s; {time_left} left"))


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes < 1:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
