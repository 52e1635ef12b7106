"""Progress of a run: what `on_log` is given, the progress bar and TensorBoard."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from longrun.base.errors import InputError
from longrun.learning.runs.evaluation_report import EvaluationReport


@dataclass(frozen=True)
class Progress:
    """What `on_log` is given after each iteration of each replica."""

    replica: int
    """the replica's number in the run, 0 for an agent's own"""
    seed: int
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


OnLog = Callable[[Progress], Any]
"""A callback; it may return False to stop the run, and any other value continues it."""


OnLogs = OnLog | Sequence[OnLog]


class Callbacks:
    """One or several callbacks as one; `close` is called when the training has ended."""

    def __init__(self, on_log: OnLogs | None) -> None:
        if callable(on_log):
            self._all: list[OnLog] = [on_log]
        else:
            self._all = list(on_log or [])
        if wrong := [each for each in self._all if not callable(each)]:
            raise InputError(
                f"on_log={wrong[0]!r} must be a function of progress, or a list of these"
            )

    def __call__(self, progress: Progress) -> bool:
        """Whether to continue: only a boolean False stops a run. All are called in any case."""
        answers = [callback(progress) for callback in self._all]
        return all(not isinstance(a, bool | np.bool_) or bool(a) for a in answers)

    def require_evaluations(self, evaluates: bool) -> None:
        """Raise InputError if one of them needs evaluations and there are none."""
        for callback in self._all:
            if not evaluates and getattr(callback, "needs_evaluations", False):
                name = getattr(callback, "__name__", "on_log")
                raise InputError(f"{name} needs evaluations; set eval_every, such as 10_000")

    def close(self) -> None:
        """Let those that hold something open release it."""
        for callback in self._all:
            getattr(callback, "close", lambda: None)()


LONGEST_TITLE = 30
"""Characters of the title on the live line: at 80 columns the time left must fit behind it."""
TIME_WIDTH = 7
"""Width of the remaining time, h:mm:ss."""
LINE_SECONDS = 30.0
"""Time between two lines of progress where there is no terminal."""


def time_text(seconds: float) -> str:
    """A time of two minutes or more in minutes, a shorter one in seconds."""
    return f"{seconds / 60:.0f} min" if seconds >= 120 else f"{math.ceil(seconds)} s"


class ProgressBar:
    """Progress, the last reward, speed, time left: a live line on a terminal, else one at times.

    `wanted` shows the live line in any case (True) or nothing at all (False).
    """

    def __init__(self, title: str, replicas: int, done: int, total: int, wanted: bool | None):
        """`done` and `total` count the steps of all replicas."""
        from rich.console import Console
        from rich.markup import escape
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
        from rich.table import Column

        shown = sys.stderr.isatty() if wanted is None else wanted
        self._bar = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=20),
            # These two keep their widths on a narrow terminal, which cuts off the status instead.
            TextColumn("{task.percentage:>3.0f} %", table_column=Column(no_wrap=True, min_width=5)),
            TimeRemainingColumn(
                compact=True, table_column=Column(no_wrap=True, min_width=TIME_WIDTH)
            ),
            TextColumn("{task.fields[status]}"),
            console=Console(stderr=True),
            disable=not shown,
        )
        if replicas > 1:
            title += f" x {replicas}"
        short = title if len(title) <= LONGEST_TITLE else title[: LONGEST_TITLE - 1] + "…"
        self._task = self._bar.add_task(
            escape(short), total=total, completed=done, status="starting"
        )
        self._at = dict.fromkeys(range(replicas), done // replicas)
        self._title, self._total = title, total
        self._lines = wanted is None and not shown
        self._next_line = time.monotonic() + LINE_SECONDS

    def show(self, progress: Progress) -> None:
        """Update the line."""
        speed = progress.steps_per_second  # 0 until something was timed
        status = f"last batch {progress.metrics['reward']:.3g} per step"
        status += f", {speed:,.0f} steps/s" if speed else ""
        self._at[progress.replica] = progress.step
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


def require_tensorboard(folder: object) -> None:
    """Raise InputError if the package or the folder to write to is missing."""
    if find_spec("tensorboardX") is None:
        raise InputError("tensorboard=True needs a package; pip install tensorboardX")
    if folder is None:
        raise InputError("tensorboard=True needs log_dir, the folder for its files")


class TensorBoard:
    """Writes metrics as event files below a run folder; with a path of None it writes nothing."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._writers: dict[int, Any] = {}

    def write(self, progress: Progress) -> None:
        """Add the metrics of an iteration, and its evaluation if there is one."""
        if self._path is None:
            return
        writer = self._writer(self._path, progress.replica)
        for name, value in progress.metrics.items():
            writer.add_scalar(f"train/{name}", value, progress.step)
        if progress.evaluation is not None:
            for name in ("average_reward", "episode_return", "episode_length"):
                value = getattr(progress.evaluation, name)
                if math.isfinite(value):  # where no episode ended there is no return
                    writer.add_scalar(f"evaluation/{name}", value, progress.step)

    def _writer(self, path: Path, replica: int) -> Any:
        from tensorboardX import SummaryWriter

        if replica not in self._writers:
            place = path / "tensorboard" / f"replica_{replica}"
            self._writers[replica] = SummaryWriter(str(place))
        return self._writers[replica]

    def __enter__(self) -> TensorBoard:
        return self

    def __exit__(self, *_: object) -> None:
        for writer in self._writers.values():
            writer.close()
