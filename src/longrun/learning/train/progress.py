"""What callbacks are given after each iteration, and how several of them are called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from longrun.base.errors import InputError
from longrun.learning.runs.evaluation_report import EvaluationReport
from longrun.learning.runs.spec import RunSpec
from longrun.learning.train.checkpoint import Checkpoint


class Trained(Protocol):
    """A run while it is trained."""

    @property
    def spec(self) -> RunSpec:
        """The description of the run."""

    @property
    def log_dir(self) -> Path | None:
        """The run folder; None without one."""

    def checkpoint(self) -> Checkpoint:
        """What has been learned so far, by all replicas."""


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
    run: Trained = field(repr=False, compare=False)
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
