"""What callbacks are given after each iteration, and the line on the terminal that shows it."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from longrun.base.errors import InputError
from longrun.learning.runs.evaluation_report import EvaluationReport

if TYPE_CHECKING:
    from longrun.learning.train.training import Training


LONGEST_TITLE = 30
"""Characters of the title on the live line: at 80 columns the time left must fit behind it."""
TIME_WIDTH = 7
"""Width of the remaining time, h:mm:ss."""
LINE_SECONDS = 30.0
"""Time between two lines of progress where there is no terminal."""


@dataclass(frozen=True)
class Progress:
    """What `on_log` is given after each iteration of each replica."""

    replica: int
    """the replica's number in the run, 0 for an agent's own"""
    seed: int
    iteration: int
    """iterations that the replica has done"""
    step: int
    """environment steps that the replica has learned from"""
    total_steps: int
    """`step` at the end of the training"""
    steps_per_second: float
    """steps per second of all replicas together"""
    metrics: dict[str, float]
    """the columns of metrics.csv for this iteration"""
    evaluation: EvaluationReport | None
    """None after iterations without one"""
    run: Training = field(repr=False, compare=False)
    """the run: `run.log_dir` is its folder, and `run.checkpoint()` all that was learned"""


OnLog = Callable[[Progress], Any]
"""A callback; it may return False to stop the run, and any other value continues it."""
OnLogs = OnLog | Sequence[OnLog]


class Callbacks:
    """The user's callbacks, one or several; `close` is called when the training has ended."""

    def __init__(self, on_log: OnLogs | None, evaluates: bool) -> None:
        """`evaluates`: whether there are evaluations, which some callbacks need."""
        self._all = [on_log] if callable(on_log) else list(on_log or [])
        for callback in self._all:
            if not callable(callback):
                raise InputError(
                    f"on_log={callback!r} must be a function of progress, or a list of these"
                )
            if not evaluates and getattr(callback, "needs_evaluations", False):
                name = getattr(callback, "__name__", "on_log")
                raise InputError(f"{name} needs evaluations; set eval_every, such as 10_000")

    def __call__(self, events: Sequence[Progress]) -> bool:
        """Whether to continue: only a boolean False stops a run. All are called in any case."""
        answers = [callback(event) for event in events for callback in self._all]
        return all(not isinstance(a, bool | np.bool_) or bool(a) for a in answers)

    def close(self) -> None:
        """Let those that hold something open release it."""
        for callback in self._all:
            getattr(callback, "close", lambda: None)()


def time_text(seconds: float) -> str:
    """A time of two minutes or more in minutes, a shorter one in seconds."""
    return f"{seconds / 60:.0f} min" if seconds >= 120 else f"{math.ceil(seconds)} s"


class ProgressBar:
    """Progress, the last reward, speed, time left: a live line on a terminal, else one at times.

    `wanted` shows the live line in any case (True) or nothing at all (False).
    """

    def __init__(self, title: str, done: Sequence[int], total: int, wanted: bool | None) -> None:
        """done: steps of each replica so far; total: steps of each at the end."""
        from rich import progress as rich
        from rich.console import Console
        from rich.markup import escape
        from rich.table import Column

        shown = sys.stderr.isatty() if wanted is None else wanted
        narrow, time_left = (Column(no_wrap=True, min_width=width) for width in (5, TIME_WIDTH))
        self._bar = rich.Progress(
            rich.TextColumn("[bold]{task.description}"),
            rich.BarColumn(bar_width=20),
            # These two keep their widths on a narrow terminal, which cuts off the status instead.
            rich.TextColumn("{task.percentage:>3.0f} %", table_column=narrow),
            rich.TimeRemainingColumn(compact=True, table_column=time_left),
            rich.TextColumn("{task.fields[status]}"),
            console=Console(stderr=True),
            disable=not shown,
        )
        if len(done) > 1:
            title += f" x {len(done)}"
        short = title if len(title) <= LONGEST_TITLE else title[: LONGEST_TITLE - 1] + "…"
        self._task = self._bar.add_task(
            escape(short), total=total * len(done), completed=sum(done), status="starting"
        )
        self._at = dict(enumerate(done))
        self._title, self._total = title, total * len(done)
        self._lines = wanted is None and not shown
        self._next_line = time.monotonic() + LINE_SECONDS

    def __call__(self, events: Sequence[Progress]) -> None:
        """Update the line."""
        if not events:
            return
        self._at |= {event.replica: event.step for event in events}
        speed = events[-1].steps_per_second  # 0 until something was timed
        status = f"last batch {events[-1].metrics['reward']:.3g} per step"
        status += f", {speed:,.0f} steps/s" if speed else ""
        done = sum(self._at.values())
        self._bar.update(self._task, completed=done, status=status)
        if self._lines and time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + LINE_SECONDS
            part = f"{done / self._total:.0%} of {self._total:,} steps"
            left = f", {time_text((self._total - done) / speed)} left" if speed else ""
            print(f"{self._title}: {part}, {status}{left}", file=sys.stderr, flush=True)

    def __enter__(self) -> ProgressBar:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()
