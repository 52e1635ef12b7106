"""Progress of a sweep: a live table on a terminal, otherwise one line for each run."""

from __future__ import annotations

import math
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

from rich.console import Console, Group
from rich.live import Live as RichLive
from rich.table import Table
from rich.text import Text

from longrun.learning.runs.spec import RunSpec

SHOWN = 32
"""Most runs that the table shows."""
REFRESH_SECONDS = 0.25
"""Time between two drawings, which take milliseconds: a large machine sends many messages."""

ToCome = Mapping[str, tuple[int, int]]
"""The number of runs that a search will still suggest for each environment, and their steps."""


@dataclass
class _Run:
    """A run, and how far it is; steps are those of all replicas together."""

    name: str
    env: str
    total: int
    state: Literal["waiting", "running", "done", "failed"] = "waiting"
    first: int | None = None
    """steps in the first message: a resumed run does not start at 0"""
    steps: int = 0
    began: float = 0.0
    seconds: float = 0.0
    """how long it took, once it has ended"""
    rate: float = 0.0
    reward: float = float("nan")


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
        self._runs: dict[str, _Run] = {}
        self._running: dict[int, _Run] = {}
        self._to_come: ToCome = {}

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def add(self, name: str, run: RunSpec, finished: bool) -> None:
        total = run.steps * len(run.seeds)
        self._runs[name] = _Run(name, run.env, total, "done" if finished else "waiting")

    def expect(self, to_come: ToCome) -> None:
        self._to_come = to_come

    def started(self, slot: int, name: str) -> None:
        waiting = self._runs[name]
        run = _Run(name, waiting.env, waiting.total, "running", began=time.monotonic())
        self._runs[name] = self._running[slot] = run

    def progress(self, slot: int, message: Mapping[str, Any]) -> None:
        run = self._running[slot]
        run.steps, run.reward = message["steps"], message["reward"]
        run.rate = message["steps_per_second"]
        if run.first is None:
            run.first = run.steps

    def ended(self, slot: int, how: Literal["done", "again", "failed"], error: str = "") -> None:
        run = self._running.pop(slot)
        seconds = time.monotonic() - run.began
        self._runs[run.name] = ended = _Run(run.name, run.env, run.total)
        if how == "done":
            ended.first, ended.steps, ended.seconds = run.first, run.total, seconds
        if how != "again":
            ended.state = how
        what = {"done": "done", "again": "failed, will be retried", "failed": "failed"}[how]
        line = f"{run.name}: {what} ({seconds:.0f} s){error and f': {error}'}"
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
        now = time.monotonic()
        steps, seconds = Counter[str](), defaultdict[str, float](float)
        left = Counter({env: more for env, (_, more) in self._to_come.items()})
        for run in self._runs.values():
            steps[run.env] += run.steps - (run.first or 0)
            seconds[run.env] += now - run.began if run.state == "running" else run.seconds
            left[run.env] += run.total if run.state == "waiting" else 0
        if not steps.total():
            return None

        def time_of(env: str, more: int) -> float:
            """The time at the speed of the environment, or of all where none is known."""
            if steps[env]:
                return more * seconds[env] / steps[env]
            return more * sum(seconds.values()) / steps.total()

        running = [time_of(run.env, run.total - run.steps) for run in self._running.values()]
        others = sum(time_of(env, more) for env, more in left.items())
        # Workers share all runs, but each run is trained by one worker.
        return max([(sum(running) + others) / max(1, len(running)), *running])

    def _summary(self) -> str:
        states = Counter(run.state for run in self._runs.values())
        runs = len(self._runs) + sum(runs for runs, _ in self._to_come.values())
        failed = f", {states['failed']} failed" if states["failed"] else ""
        return f"{states['done']} of {runs} runs finished{failed}"

    def table(self) -> Group:
        """The running runs, and a line about all of them."""
        table = Table(title=self._title, expand=False)
        table.add_column("run", overflow="fold")
        for column in ("done", "reward", "steps/s"):
            table.add_column(column, justify="right")
        for _, run in sorted(self._running.items())[:SHOWN]:
            table.add_row(
                run.name,
                f"{100 * run.steps / run.total:.0f} %",
                "starting" if math.isnan(run.reward) else f"{run.reward:.3g}",
                f"{run.rate:,.0f}" if run.rate else "-",
            )
        rate = sum(run.rate for run in self._running.values())
        left = self.seconds_left()
        time_left = "-" if left is None else _duration(left)
        return Group(table, Text(f"{self._summary()}; {rate:,.0f} steps/s; {time_left} left"))


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes < 1:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
