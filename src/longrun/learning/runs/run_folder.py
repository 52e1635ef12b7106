"""The run folder: config.json, metrics.csv, evaluations.csv, summary.json and a checkpoint."""

from __future__ import annotations

import csv
import io
import math
import platform
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from longrun import __version__
from longrun.base.errors import FolderError
from longrun.base.files import (
    FolderLock,
    make_folder,
    named_errors,
    read_json,
    remove_leftovers,
    write_bytes,
    write_json,
)
from longrun.learning.runs.checkpoint_files import read_checkpoint
from longrun.learning.runs.evaluation_report import EvaluationReport
from longrun.learning.runs.run_csv import columns_of, read_rows
from longrun.learning.runs.spec import RunSpec, require_entries

ROWS = ("metrics.csv", "evaluations.csv")
"""Files with a row for each iteration, or each evaluation."""
PACKAGES = ("jax", "jaxlib", "numpy", "optax", "gymnasium", "mujoco")
ABOUT: dict[str, Any] = {"env_source": dict, "command": list, "created": str}
"""What config.json holds besides the description, as far as it is read."""
ENV_SOURCE: dict[str, Any] = {"identity": str, "arguments": list | None, "attributes": dict | None}


class RunFolder:
    """One run's files. Rows are flushed as they are added, so that a crash loses none.

    `create` and `reopen` lock the folder before they look at it, and it stays locked until `close`;
    a folder that is made directly is for reading.
    """

    def __init__(self, path: Path, lock: FolderLock | None = None) -> None:
        self.path = path
        self.checkpoint = path / "checkpoint"
        self._lock = lock

    @classmethod
    def create(cls, path: Path, spec: RunSpec, env_source: Mapping[str, Any]) -> RunFolder:
        """A new folder. Raises FolderError if it holds a run, a sweep or folders of these."""
        make_folder(path)
        folder = cls(path, FolderLock(path))
        if why := _taken(path):
            folder.close()
            raise FolderError(why)
        remove_leftovers(path)
        (folder.checkpoint / "checkpoint.json").unlink(missing_ok=True)  # it has learned nothing
        about = {"env_source": dict(env_source)} | provenance()
        write_json(path / "config.json", spec.as_json() | about)
        return folder

    @classmethod
    def reopen(
        cls, path: Path, spec: RunSpec, done: Sequence[int], digest: str | None
    ) -> RunFolder:
        """A run to be resumed from a checkpoint that was read before.

        spec: what the run becomes, maybe with more steps; done: the steps of each replica in the
        checkpoint, later rows are dropped; digest: the checkpoint's. Raises FolderError if another
        process writes the folder, or has replaced the checkpoint since it was read.
        """
        folder = cls(path, FolderLock(path))
        try:
            header = folder.checkpoint / "checkpoint.json"
            stored = read_json(header).get("sha256") if header.exists() else None
            if stored != digest:
                raise FolderError(f"'{path}' has been trained by another process; load it again")
            remove_leftovers(path)
            folder.drop_rows_after(done)
            there, content = folder.read_config()
            if there != spec:
                write_json(path / "config.json", content | spec.as_json())
        except BaseException:
            folder.close()
            raise
        return folder

    def close(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            self._lock.release()

    def add_metrics(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Append rows to metrics.csv."""
        _append(self.path / "metrics.csv", rows)

    def add_evaluations(
        self, evaluations: Iterable[tuple[Mapping[str, int], EvaluationReport]]
    ) -> None:
        """Append evaluations to evaluations.csv, each with its replica, seed and step."""
        _append(
            self.path / "evaluations.csv",
            [{**where, **_columns(evaluation)} for where, evaluation in evaluations],
        )

    def last_evaluations(self, replicas: int) -> dict[int, dict[str, float | None]]:
        """The latest figures of each replica evaluated so far, for JSON.

        None where no episode ended, and where an interval is unbounded: that of a single step.
        """
        file = self.path / "evaluations.csv"
        rows = read_rows(file, columns_of(file), replicas)
        latest = {int(replica): k for k, replica in enumerate(rows.replica)}
        return {
            replica: {
                column: float(values[k]) if math.isfinite(values[k]) else None
                for column, values in rows.values.items()
            }
            for replica, k in latest.items()
        }

    def drop_rows_after(self, steps: Sequence[int]) -> None:
        """Drop rows later than each replica's step; a resumed run writes them again."""
        for name in ROWS:
            file = self.path / name
            if not file.exists():
                continue
            rows = read_rows(file, (), len(steps))
            kept = [
                line
                for line, replica, step in zip(rows.lines, rows.replica, rows.step, strict=True)
                if step <= steps[replica]
            ]
            if kept:
                write_bytes(file, "\n".join([rows.header, *kept, ""]).encode())
            else:
                file.unlink()

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Write summary.json, which says that the run is finished."""
        write_json(self.path / "summary.json", summary)

    def read_spec(self) -> RunSpec:
        """What config.json describes. Raises FolderError if it is missing, damaged or another's."""
        return self.read_config()[0]

    def read_config(self) -> tuple[RunSpec, dict[str, Any]]:
        """What config.json describes, and its content, which also has where it was made."""
        file = self.path / "config.json"
        content = read_json(file)
        spec = RunSpec.from_json(content, f"'{file}'")
        require_entries(content, ABOUT, f"'{file}'")
        require_entries(content["env_source"], ENV_SOURCE, f"'{file}'")
        return spec, content


def holds_run(path: Path) -> bool:
    """Whether the config.json of a folder is that of a run, and not another program's."""
    try:
        RunFolder(path).read_spec()
    except FolderError:
        return False
    return True


def _taken(path: Path) -> str:
    """Why a new run cannot be written to this folder; "" if it can.

    A run beside others would hide them: what reads results takes the folder for that one run. A run
    that ended before it learned anything, such as one whose environment failed, is replaced.
    """
    learned = [name for name in ROWS if (path / name).is_file()]
    learned += ["checkpoint"] if _is_trained(path) else []
    if (path / "config.json").exists() and (learned or not holds_run(path)):
        return (
            f"'{path}' already holds a run; longrun train --resume --out {path} resumes it, as does"
            " learn(log_dir=...) of the agent that load returns; or choose another folder"
        )
    if learned:
        return (
            f"'{path}' has {' and '.join(learned)} of a run whose config.json is missing; choose"
            " another folder"
        )
    if (path / "sweep.json").exists():
        return f"'{path}' holds a sweep; choose another folder for the run"
    runs = [file.parent for file in path.glob("*/config.json") if holds_run(file.parent)]
    others = [*runs, *(file.parent for file in path.glob("*/sweep.json"))]
    if not others:
        return ""
    return (
        f"'{path}' holds other runs, such as '{min(others)}'; choose a folder such as '{path}/NAME'"
    )


def _is_trained(path: Path) -> bool:
    """Whether a checkpoint is not that of the start; one that cannot be read may not be."""
    if not (path / "checkpoint" / "checkpoint.json").exists():
        return False
    try:
        tensors = read_checkpoint(path).tensors
    except FolderError:
        return True
    return any(value.any() for name, value in tensors.items() if name.endswith(".state.iteration"))


def is_finished(path: Path, steps: int) -> bool:
    """Whether a run folder has a summary, which is written last, of at least this many steps.

    A summary that cannot be read does not count: the run's checkpoint writes it again. A run that
    was given more steps is unfinished until it writes a new summary.
    """
    with suppress(ValueError, AttributeError, TypeError):
        return bool(read_json(path / "summary.json").get("steps", 0) >= steps)
    return False


def _columns(evaluation: EvaluationReport) -> dict[str, float]:
    """What evaluations.csv has of a report: the three last columns for each recorded cost."""
    columns = {
        "average_reward": evaluation.average_reward,
        "average_reward_low": evaluation.low,
        "average_reward_high": evaluation.high,
        "episode_return": evaluation.episode_return,
        "episode_length": evaluation.episode_length,
        "episodes": evaluation.episodes,
        "settled": int(evaluation.settled),
    }
    for name, cost in evaluation.costs.items():
        ends = {f"cost_{name}_low": cost.low, f"cost_{name}_high": cost.high}
        columns |= {f"cost_{name}": cost.rate, **ends}
    return columns


def _append(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    rows = list(rows)
    if not rows:
        return
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    if not path.exists():
        writer.writeheader()
    writer.writerows(
        {k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows
    )
    with named_errors(path), path.open("a") as file:
        file.write(text.getvalue())


def provenance() -> dict[str, Any]:
    """Entries of config.json that do not say what is trained."""
    return {
        "versions": {"longrun": __version__, "python": platform.python_version()}
        | {name: _version(name) for name in PACKAGES},
        "platform": platform.platform(),
        "command": sys.argv,
        "created": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }


@cache
def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
