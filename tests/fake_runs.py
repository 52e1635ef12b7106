"""Run folders without training: written by the real writer, with made-up numbers."""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from longrun.base.files import read_json, write_json
from longrun.lab.results.settings import Setting, SettingReplica
from longrun.learning.options.config_options import make_config
from longrun.learning.options.presets import DEFAULT
from longrun.learning.runs.evaluation_report import CostRate, EvaluationReport
from longrun.learning.runs.run_folder import RunFolder
from longrun.learning.runs.spec import RunSpec

Curve = Mapping[int, float]
"""Average reward at each step of evaluation."""


def fake_run(
    path: Path,
    *curves: Curve,
    algorithm: str = "apo",
    env: str = "Drift-v0",
    seeds: Sequence[int] = (),
    options: Sequence[Mapping[str, Any]] = ({},),
    preset: str = DEFAULT,
    ends: bool = True,
    steps: int = 1000,
    finished: bool = False,
    metrics: Mapping[str, Sequence[float]] | None = None,
    costs: Sequence[dict[str, CostRate]] = (),
    unsettled: Collection[int] = (),
) -> Path:
    """A run of one replica for each curve; episodes have 10 steps, or do not end.

    Replica i has seed i and the i-th options (the last of them if there are fewer). In metrics.csv
    `gain` is the average reward of the evaluation at the same step and `value_mean` its negative;
    or, if `metrics` are given, each replica has a row of them every 10 steps. `costs` are those of
    all evaluations of each replica; `unsettled` has the steps of evaluations that have not settled.
    """
    seeds = seeds or range(len(curves))
    configs = [
        make_config(algorithm, preset, **options[min(i, len(options) - 1)])
        for i in range(len(seeds))
    ]
    source = {"identity": env}
    spec = RunSpec(env=env, configs=tuple(configs), seeds=tuple(seeds), steps=steps, preset=preset)
    folder = RunFolder.create(path, spec, source)
    for index, (seed, curve) in enumerate(zip(seeds, curves, strict=True)):
        where = {"replica": index, "seed": seed}
        own = costs[index] if costs else {}
        reports = {
            s: replace(_report(r, ends), costs=own, settled=s not in unsettled)
            for s, r in curve.items()
        }
        folder.add_evaluations((where | {"step": s}, report) for s, report in reports.items())
        if metrics is None:
            rows = [{"step": s, "gain": r, "value_mean": -float(r)} for s, r in curve.items()]
        else:
            columns = zip(*metrics.values(), strict=True)
            rows = [
                {"step": 10 * k, **dict(zip(metrics, row, strict=True))}
                for k, row in enumerate(columns, 1)
            ]
        folder.add_metrics(where | row for row in rows)
    if finished:
        folder.write_summary({"steps": steps})
    return path


def _report(reward: float, ends: bool) -> EvaluationReport:
    nothing = float("nan")
    returns, length = (10 * reward, 10.0) if ends else (nothing, nothing)
    return EvaluationReport(reward, reward - 1, reward + 1, returns, length, int(ends), 100)


def fake_sweep(path: Path, runs: Mapping[str, tuple[Curve, Mapping[str, Any]]]) -> Path:
    """A sweep of runs of one seed: for each name its curve and what else `fake_run` takes."""
    path.mkdir(parents=True)
    write_json(path / "sweep.json", {"runs": {}})
    for name, (curve, more) in runs.items():
        fake_run(path / "runs" / name, curve, **more)
    return path


def change_config(run: Path, **changes: Any) -> Path:
    """Replace entries of a run's config.json, by values that no configuration allows, too."""
    write_json(run / "config.json", read_json(run / "config.json") | changes)
    return run


def fake_setting(
    label: str, steps: Sequence[int], values: Mapping[str, Any], env: str = "E-v0"
) -> Setting:
    """A setting without files: values are [K, seeds], and the seeds are 0, 1, ..."""
    arrays = {name: np.array(each, float) for name, each in values.items()}
    seeds = range(next(iter(arrays.values())).shape[1])
    replicas = tuple(SettingReplica(Path("run"), seed, seed) for seed in seeds)
    return Setting(env, label, make_config("apo"), DEFAULT, replicas, np.array(steps), arrays)


def rising(height: float, steps: int = 1000, points: int = 10) -> dict[int, float]:
    """A curve that rises to a height in a straight line."""
    every = steps // points
    return {step: height * step / steps for step in range(every, steps + 1, every)}


def csv_rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def require_refusal(
    command: Callable[[list[str]], int],
    arguments: Sequence[str],
    message: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A command must raise an error of one line that contains the message, and write nothing.

    It runs in the folder, which is empty; RUN among the arguments is a run with one curve.
    """
    monkeypatch.chdir(folder)
    run = fake_run(folder / "run", rising(1))
    with pytest.raises(ValueError) as refusal:
        command([str(run) if word == "RUN" else word for word in arguments])
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert [path.name for path in folder.iterdir()] == ["run"]
