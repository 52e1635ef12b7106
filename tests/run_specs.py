"""Descriptions of runs for tests that use the loops or the watches directly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from longrun.learning.options.config import Config
from longrun.learning.runs.evaluation_report import EvaluationReport
from longrun.learning.runs.spec import RunSpec
from longrun.learning.train.progress import Progress


def spec_of(configs: Sequence[Config], seeds: Sequence[int], steps: int, **more: Any) -> RunSpec:
    """A run of these replicas on an environment whose name does not matter."""
    return RunSpec(env="Any-v0", configs=tuple(configs), seeds=tuple(seeds), steps=steps, **more)


def progress_of(
    iteration: int,
    metrics: Mapping[str, float],
    evaluation: EvaluationReport | None = None,
    replica: int = 0,
) -> Progress:
    """What a watch is given after an iteration; the seed is 7 more than the replica's number."""
    run: Any = None
    return Progress(replica, 7 + replica, iteration, 0, 0, 0.0, dict(metrics), evaluation, run)
