"""What a sweep shows while it runs: a live table, or a line for each run where nobody looks."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import Any, Self

from rich.console import Console, Group
from rich.live import Live as RichLive
from rich.table import Table
from rich.text import Text

from longrun.experiments.sweeps.plan import Run

SHOWN = 32
"""Running runs in the table at most."""


@dataclass
class _Running:
    run: Run
    began: float
    first: int | None = None
    """steps when it was first heard of: a resumed run does not begin at 0"""
    steps: int = 0
    rate: float = 0.0
    reward: float = float("nan")


class Live:
    """Counts runs and steps; knows how fast it goes on each environment and what is left."""

    def __init__(self, title: str, wanted: bool | None = None, log: bool = True) -> None:
        self._console = Console(stderr=True)
        shown = sys.stderr.isatty() if wanted is None else wanted
        self._live = RichLive(console=self._console, auto_refresh=False) if shown else None
        self._log = log and not shown
        self._title = title
        self._running: dict[int, _Running] = {}
        self._left: dict[str, int] = {}
        """steps of each environment that are neither done nor running"""
        self._measured: dict[str, tuple[int, float]] = {}
        """steps and seconds that workers have spent on each environment"""
        self._counts = {"runs": 0, "finished": 0, "failed": 0}

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self.refresh()
            self._live.stop()

    def add(self, run: Run, finished: bool) -> None:
        self._counts["runs"] += 1
        self._counts["finished"] += finished
        if not finished:
            self._left[run.env] = self._left.get(run.env, 0) + run.all_steps

    def began(self, slot: int, run: Run) -> None:
        self._running[slot] = _Running(run, time.monotonic())
        self._left[run.env] -= run.all_steps

    def progress(self, slot: int, message: dict[str, Any]) -> None:
        running = self._running[slot]
        running.steps, running.reward = message["steps"], message["reward"]
        running.rate = message["steps_per_second"]
        running.first = running.steps if running.first is None else running.first

    def ended(self, slot: int, how: str) -> None:
        """`how`: done, or what went wrong."""
        running = self._running.pop(slot)
        run, seconds = running.run, time.monotonic() - running.began
        again = how.startswith("failed, tried again")
        if how == "done":
            self._counts["finished"] += 1
            steps, spent = self._measured.get(run.env, (0, 0.0))
            done = run.all_steps - (running.first or 0)
            self._measured[run.env] = (steps + done, spent + seconds)
        elif again:
            self._left[run.env] += run.all_steps
        else:
            self._counts["failed"] += 1
        if self._log or (how != "done" and self._live is None):
            print(f"{self._summary()}  {run.name}: {how} ({seconds:.0f} s)", flush=True)
        elif how != "done":
            self._console.print(f"{run.name}: {how}", markup=False)

    def refresh(self) -> None:
        if self._live is not None:
            self._live.update(self._table(), refresh=True)

    def seconds_left(self) -> float | None:
        """None until something has been measured."""
        rates = dict(self._measured)
        for running in self._running.values():
            steps, seconds = rates.get(running.run.env, (0, 0.0))
            done = running.steps - (running.first or 0)
            spent = time.monotonic() - running.began
            rates[running.run.env] = (steps + done, seconds + spent)
        total_steps = sum(steps for steps, _ in rates.values())
        total_seconds = sum(seconds for _, seconds in rates.values())
        if not total_steps:
            return None
        left = dict(self._left)
        for running in self._running.values():
            left[running.run.env] += running.run.all_steps - running.steps
        each = total_seconds / total_steps
        seconds = sum(
            steps * (rates[env][1] / rates[env][0] if rates.get(env, (0, 0))[0] else each)
            for env, steps in left.items()
        )
        return seconds / max(1, len(self._running))

    def _summary(self) -> str:
        counts = self._counts
        text = f"{counts['finished']} of {counts['runs']} runs finished"
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
                f"{running.reward:.3g}" if running.steps else "starting",
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
