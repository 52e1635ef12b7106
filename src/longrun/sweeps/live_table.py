"""What a sweep shows while it runs: a live table, or a line for each run where nobody looks."""

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

from longrun.sweeps.plan import PlannedRun

SHOWN = 32
"""Running runs in the table at most."""
REFRESH_SECONDS = 0.25
"""Drawing takes milliseconds, and a large machine has many workers that tell something."""

ToCome = Mapping[str, tuple[int, int]]
"""For each environment the runs that a search will still suggest, and their steps altogether."""


class Speed(NamedTuple):
    """What workers have spent on an environment."""

    steps: int = 0
    seconds: float = 0.0

    def plus(self, steps: int, seconds: float) -> Speed:
        return Speed(self.steps + steps, self.seconds + seconds)


@dataclass
class _Running:
    run: PlannedRun
    began: float
    first: int = 0
    """steps when it was first heard of: a resumed run does not begin at 0"""
    steps: int = 0
    rate: float = 0.0
    reward: float = float("nan")
    heard: bool = False


class Live:
    """Counts runs and steps; knows how fast it goes on each environment and what is left."""

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
        """steps of each environment that are neither done nor running"""
        self._to_come: ToCome = {}
        self._measured: dict[str, Speed] = {}
        """of runs that are finished"""
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

    def began(self, slot: int, run: PlannedRun) -> None:
        self._running[slot] = _Running(run, time.monotonic())
        self._left[run.env] -= run.all_steps

    def progress(self, slot: int, message: Mapping[str, Any]) -> None:
        running = self._running[slot]
        running.steps, running.reward = message["steps"], message["reward"]
        running.rate = message["steps_per_second"]
        if not running.heard:
            running.first, running.heard = running.steps, True

    def ended(self, slot: int, how: Literal["done", "again", "failed"], error: str = "") -> None:
        running = self._running.pop(slot)
        run, seconds = running.run, time.monotonic() - running.began
        if how == "done":
            self._counts["finished"] += 1
            speed = self._measured.get(run.env, Speed())
            self._measured[run.env] = speed.plus(run.all_steps - running.first, seconds)
        elif how == "again":
            self._left[run.env] += run.all_steps
        else:
            self._counts["failed"] += 1
        what = {"done": "done", "again": "failed, tried again", "failed": "failed"}[how]
        news = f"{run.name}: {what} ({seconds:.0f} s){error and f': {one_line(error)}'}"
        if self._log or (how != "done" and self._live is None):
            print(f"{self._summary()}  {news}", flush=True)
        elif how != "done":
            self._console.print(news, markup=False, highlight=False)

    def refresh(self) -> None:
        if self._live is not None and time.monotonic() - self._drawn > REFRESH_SECONDS:
            self._live.update(self._table(), refresh=True)
            self._drawn = time.monotonic()

    def seconds_left(self) -> float | None:
        """None until something has been measured."""
        now, speeds = time.monotonic(), dict(self._measured)
        for r in self._running.values():
            speed = speeds.get(r.run.env, Speed())
            speeds[r.run.env] = speed.plus(r.steps - r.first, now - r.began)
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
        # All workers share the work, but none can share the longest run.
        share = sum(running + waiting + later) / max(1, len(running))
        return max([share, *running])

    def _summary(self) -> str:
        counts = self._counts
        runs = counts["runs"] + sum(runs for runs, _ in self._to_come.values())
        text = f"{counts['finished']} of {runs} runs finished"
        return text + (f", {counts['failed']} failed" if counts["failed"] else "")

    def _table(self) -> Group:
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


def one_line(error: str) -> str:
    return error.strip().partition("\n")[0]


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes < 1:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
