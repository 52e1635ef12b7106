"""Run folders that were never trained: the real writer, made-up numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from longrun.config import make_config
from longrun.train.evaluation import EvaluationReport
from longrun.train.run_folder import RunFolder, describe_run

Curve = Mapping[int, float]
"""Average reward at each step of evaluation."""


def fake_run(
    path: Path,
    *curves: Curve,
    algorithm: str = "apo",
    env: str = "Drift-v0",
    seeds: Sequence[int] = (),
    options: Sequence[Mapping[str, Any]] = ({},),
    preset: str = "paper",
    ends: bool = True,
) -> Path:
    """A run of one replica for each curve; episodes have 10 steps, or do not `end`.

    Replica i has seed i and the i-th options (the last of them if there are fewer). `value_mean`,
    in metrics.csv, is the negative average reward.
    """
    seeds = seeds or range(len(curves))
    configs = [
        make_config(algorithm, preset, **options[min(i, len(options) - 1)])
        for i in range(len(seeds))
    ]
    folder = RunFolder.create(path, describe_run(env, configs, seeds, 1000, preset=preset))
    for index, (seed, curve) in enumerate(zip(seeds, curves, strict=True)):
        places = [({"replica": index, "seed": seed, "step": s}, r) for s, r in curve.items()]
        folder.add_evaluations((where, _report(reward, ends)) for where, reward in places)
        folder.add_metrics(where | {"gain": r, "value_mean": -float(r)} for where, r in places)
    return path


def _report(reward: float, ends: bool) -> EvaluationReport:
    nothing = float("nan")
    returns, length = (10 * reward, 10.0) if ends else (nothing, nothing)
    return EvaluationReport(reward, reward - 1, reward + 1, returns, length, int(ends), 100)


def fake_sweep(path: Path, runs: Mapping[str, tuple[Curve, Mapping[str, Any]]]) -> Path:
    """A sweep of runs of one seed: for each name its curve and what else `fake_run` takes."""
    path.mkdir(parents=True)
    (path / "sweep.json").write_text("{}\n")
    for name, (curve, more) in runs.items():
        fake_run(path / "runs" / name, curve, **more)
    return path


def rising(height: float, steps: int = 1000, points: int = 10) -> dict[int, float]:
    """A curve that rises to a height in a straight line."""
    every = steps // points
    return {step: height * step / steps for step in range(every, steps + 1, every)}
