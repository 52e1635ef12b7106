"""The run folder: what made the run, what happened in it, what it came to."""

from __future__ import annotations

import csv
import dataclasses
import io
import math
import platform
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from importlib import metadata
from pathlib import Path
from typing import Any

from longrun import __version__
from longrun.config import Config, algorithm_name, differing
from longrun.errors import FolderError
from longrun.files import locked_folder, read_json, write_bytes, write_json
from longrun.train.evaluation import EvaluationReport

PACKAGES = ("jax", "jaxlib", "numpy", "optax", "gymnasium", "mujoco")


class RunFolder:
    """Appends rows as they come and flushes each, so that a crash loses none."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoint = path / "checkpoint"

    @classmethod
    def create(cls, path: Path, description: Mapping[str, Any]) -> RunFolder:
        """A new folder; one that holds a run already is left alone."""
        if (path / "config.json").exists():
            raise FolderError(f"'{path}' already holds a run; resume it or choose another folder")
        write_json(path / "config.json", description)
        return cls(path)

    def locked(self) -> AbstractContextManager[None]:
        """Lock the folder for writing. Raises FolderError if another process holds the lock."""
        return locked_folder(self.path)

    def add_metrics(self, rows: Iterable[Mapping[str, Any]]) -> None:
        _append(self.path / "metrics.csv", rows)

    def add_evaluations(
        self, evaluations: Iterable[tuple[Mapping[str, int], EvaluationReport]]
    ) -> None:
        """Each with where it was: replica, seed and step."""
        rows = [
            {
                **where,
                "average_reward": evaluation.average_reward,
                "average_reward_low": evaluation.low,
                "average_reward_high": evaluation.high,
                "episode_return": evaluation.episode_return,
                "episode_length": evaluation.episode_length,
            }
            for where, evaluation in evaluations
        ]
        _append(self.path / "evaluations.csv", rows)

    def last_evaluations(self) -> dict[int, dict[str, float | None]]:
        """For each replica evaluated so far its latest figures; None where no episode ended."""
        path = self.path / "evaluations.csv"
        latest = {int(r["replica"]): r for r in (read_rows(path) if path.exists() else [])}
        return {
            replica: {
                column: None if math.isnan(float(value)) else float(value)
                for column, value in row.items()
                if column not in ("replica", "seed", "step")
            }
            for replica, row in latest.items()
        }

    def forget_after(self, steps: Sequence[int]) -> None:
        """Drop rows later than each replica's step: what follows the checkpoint is done again."""
        for name in ("metrics.csv", "evaluations.csv"):
            path = self.path / name
            if path.exists():
                rows = [r for r in read_rows(path) if int(r["step"]) <= steps[int(r["replica"])]]
                if rows:
                    write_bytes(path, _as_csv(rows, header=True).encode())
                else:
                    path.unlink()

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        write_json(self.path / "summary.json", summary)

    def read_config(self) -> dict[str, Any]:
        content: dict[str, Any] = read_json(self.path / "config.json")
        return content

    def extend_to(self, steps: int) -> None:
        """Write down that the run now ends later, if it does."""
        config = self.read_config()
        if steps > config["steps"]:
            write_json(self.path / "config.json", config | {"steps": steps})


def describe_run(
    env: str, configs: Sequence[Config], seeds: Sequence[int], steps: int, **settings: Any
) -> dict[str, Any]:
    """Everything that makes a run, for config.json."""
    return {
        "algorithm": algorithm_name(configs[0]),
        "env": env,
        "steps": steps,
        "options": dataclasses.asdict(configs[0]),
        "replicas": [
            {"seed": seed, **{name: getattr(config, name) for name in differing(configs)}}
            for seed, config in zip(seeds, configs, strict=True)
        ],
        **settings,
        "versions": {"longrun": __version__, "python": platform.python_version()}
        | {name: _version(name) for name in PACKAGES},
        "platform": platform.platform(),
        "command": sys.argv,
        "created": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }


def read_rows(path: Path) -> list[dict[str, str]]:
    """Rows of a CSV; a last line that a crash cut short is left out."""
    with path.open(newline="") as file:
        reader = csv.DictReader(file)
        return [row for row in reader if None not in row.values() and None not in row]


def _append(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    text = _as_csv(rows, header=not path.exists())
    if text:
        with path.open("a") as file:
            file.write(text)


def _as_csv(rows: Iterable[Mapping[str, Any]], header: bool) -> str:
    rows = list(rows)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else (), lineterminator="\n")
    if header and rows:
        writer.writeheader()
    writer.writerows(
        {k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows
    )
    return text.getvalue()


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
