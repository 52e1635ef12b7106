"""Finished and unfinished runs as numbers: settings, their seeds, curves and intervals."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from longrun.config import make_config
from longrun.envs.spaces import Array
from longrun.train.evaluation import student_reach
from longrun.train.files import read_json
from longrun.train.run_folder import read_rows


@dataclass(frozen=True)
class Setting:
    """Replicas of one run that differ in their seeds alone."""

    env: str
    label: str
    """algorithm and what differs from its defaults"""
    seeds: tuple[int, ...]
    steps: Array
    """[K], where all of them were evaluated"""
    values: dict[str, Array]
    """for each column of evaluations.csv, [K, seeds]"""


def read_run(path: Path) -> list[Setting]:
    """The settings of a run folder, or a ValueError that says what is missing."""
    if not (path / "config.json").exists():
        raise ValueError(f"'{path}' is not a run folder: it has no config.json")
    config = read_json(path / "config.json")
    file = path / "evaluations.csv"
    rows = read_rows(file) if file.exists() else []
    if not rows:
        raise ValueError(f"'{path}' has no evaluations yet; train longer or with --eval-every")
    settings: dict[str, list[int]] = {}
    for index, replica in enumerate(config["replicas"]):
        settings.setdefault(_label(config, replica), []).append(index)
    return [_setting(label, which, config, rows) for label, which in settings.items()]


def _label(config: dict[str, Any], replica: dict[str, Any]) -> str:
    own = {k: v for k, v in replica.items() if k != "seed"}
    options = config["options"] | own
    preset = config.get("preset", "paper")
    defaults = dataclasses.asdict(make_config(config["algorithm"], preset))
    defaults |= {k: list(v) for k, v in defaults.items() if isinstance(v, tuple)}  # as JSON has it
    shown = {"discount", *own}  # whether or not they are the default
    changed = [f"{k}={v}" for k, v in options.items() if v != defaults.get(k) or k in shown]
    name = config["algorithm"].upper()
    return " ".join([name if preset == "paper" else f"{name} ({preset})", *changed])


def _setting(
    label: str, replicas: list[int], config: dict[str, Any], rows: list[dict[str, str]]
) -> Setting:
    columns = [c for c in rows[0] if c not in ("replica", "seed", "step")]
    by_place = {(int(row["replica"]), int(row["step"])): row for row in rows}
    steps = sorted({s for _, s in by_place if all((r, s) in by_place for r in replicas)})
    values = {
        column: np.array([[float(by_place[r, s][column]) for r in replicas] for s in steps])
        for column in columns
    }
    seeds = tuple(config["replicas"][r]["seed"] for r in replicas)
    return Setting(config["env"], label, seeds, np.array(steps), values)


def mean_interval(values: Array, confidence: float = 0.95) -> tuple[Array, Array, Array]:
    """Mean over the last axis (seeds) and Student's interval of it; [..., n] -> three [...]."""
    mean = values.mean(-1)
    if values.shape[-1] < 2:
        return mean, mean, mean
    reach = student_reach(values, confidence)
    return mean, mean - reach, mean + reach
