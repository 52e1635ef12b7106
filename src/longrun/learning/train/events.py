"""What a training loop starts from, and what it reports while it trains."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from longrun.learning.envs.spaces import Array
from longrun.learning.learn.types import TrainState
from longrun.learning.runs.evaluation_report import EvaluationReport


class Snapshot(NamedTuple):
    """All that is needed to resume a replica."""

    state: TrainState
    environments: Mapping[str, Array]
    """named arrays that restore the environments; on a device empty before the first step"""


class TrainingEvent(NamedTuple):
    """What a replica reports after an iteration."""

    replica: int
    iteration: int
    metrics: dict[str, float]
    evaluation: EvaluationReport | None


Latest = Callable[[], Snapshot]
"""Gives a replica's snapshot; a device copies its state to the host when it is called."""
OnEvents = Callable[[Sequence[TrainingEvent], Mapping[int, Latest]], bool]
"""Called with events in order, and the replicas' snapshots after them; False stops the run. While
there is no event for long, a loop may call it without any, to hear whether to stop."""


@dataclass
class Seconds:
    """Time spent in each part of a run, mean over replicas; collecting overlaps value fitting.

    On a device everything is one program, whose time is `update`.
    """

    collect: float = 0.0
    update: float = 0.0
    evaluate: float = 0.0
