"""The sweep's folder: what was asked, the runs, and which of them failed.

    sweep.json      every run of the sweep, by name, and what made it
    runs/NAME/      ordinary run folders
    failures.json   runs that failed, with their errors, until they are finished
    workers/        what worker processes on this machine have printed
    optuna.journal  the state of a search

A run is finished when its summary says so, which is written last. All else is worked out from the
files, so that a sweep can be killed at any moment and started again.
"""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import platform
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from longrun import __version__
from longrun.config import field_defaults
from longrun.errors import FolderError
from longrun.files import read_json, write_json
from longrun.sweeps.json_content import MEANING, read_sweep
from longrun.sweeps.plan import PlannedRun, apart, together


@dataclasses.dataclass(frozen=True)
class Failure:
    """A run that was given up."""

    run: str
    error: str
    attempts: int
    traceback: str = ""


class SweepFolder:
    def __init__(self, path: Path, token: str, runs: Sequence[PlannedRun]) -> None:
        self.path = path
        self.token = token
        """what tells this sweep from all others"""
        self.runs = list(runs)

    @classmethod
    def create(
        cls, path: Path, runs: Sequence[PlannedRun], batched: bool = False, **made_by: Any
    ) -> SweepFolder:
        """A new sweep of these runs, or the same gone on with, or one that grows by some.

        If `batched`, replicas of one program are one run.
        """
        if (path / "sweep.json").exists():
            folder = cls.open(path)
            with folder.locked():
                folder._grow(runs, batched)
            return folder
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise FolderError(f"'{path}' is not empty and holds no sweep; choose another --out")
        folder = cls(path, uuid.uuid4().hex, together(runs) if batched else runs)
        folder._write(made_by)
        return folder

    @classmethod
    def open(cls, path: Path) -> SweepFolder:
        if not (path / "sweep.json").exists():
            raise FolderError(f"'{path}' is not a sweep: it has no sweep.json")
        try:
            content = read_sweep(path)
            runs = [PlannedRun.from_json(run) for run in content["runs"]]
            return cls(path, content["id"], runs)
        except (KeyError, TypeError, AttributeError) as error:
            raise FolderError(f"'{path / 'sweep.json'}' is damaged: {error!r}") from None

    def add(self, runs: Sequence[PlannedRun]) -> None:
        """More runs, as a search comes to them; those that are there already are left out."""
        names = {run.name for run in self.runs}
        new = [run for run in runs if run.name not in names]
        if new:
            self.runs += new
            self.note()

    def note(self, **made_by: Any) -> None:
        """Write the runs down, and what else has changed."""
        content = read_sweep(self.path)
        self._write({k: v for k, v in content.items() if k not in ("id", "runs")} | made_by)

    def folder(self, run: PlannedRun) -> Path:
        return self.path / "runs" / run.name

    def is_finished(self, run: PlannedRun) -> bool:
        """A summary that cannot be read is no summary: the run's checkpoint makes it again."""
        with suppress(ValueError, AttributeError, TypeError):
            steps = read_json(self.folder(run) / "summary.json").get("steps", 0)
            return bool(steps >= run.steps)
        return False

    def require_own(self, run: PlannedRun) -> None:
        """The run's folder holds this run, if anything; otherwise nothing is touched."""
        file = self.folder(run) / "config.json"
        try:
            found = read_json(file)
        except ValueError:
            return  # there is none, or it is damaged: then this run will fail, and no other
        # A later version may have more options than the one that made the run.
        found["options"] = _as_read(field_defaults(run.algorithm)) | found.get("options", {})
        wanted = {
            "env": run.env,
            "algorithm": run.algorithm,
            "options": _as_read(dataclasses.asdict(run.configs()[0])),
            "seeds": run.seeds,
            "steps": run.steps,
        }
        if _may_grow(run, found.get("steps", 0)):
            found["steps"] = run.steps
        found["seeds"] = [replica["seed"] for replica in found.get("replicas", [])]
        if why := _difference("", {name: found.get(name) for name in wanted}, wanted):
            raise FolderError(
                f"'{file.parent}' belongs to another sweep: it has {why};"
                " move it away or choose another --out"
            )

    def read_failures(self) -> list[Failure]:
        """Of this pass and those before it, without runs that have been finished since."""
        with suppress(ValueError, TypeError):
            return [Failure(**failure) for failure in read_json(self.path / "failures.json")]
        return []

    def add_failure(self, failure: Failure) -> None:
        others = [other for other in self.read_failures() if other.run != failure.run]
        self._write_failures([*others, failure])

    def forget_failures(self, finished: Sequence[PlannedRun]) -> None:
        names = {run.name for run in finished}
        failures = self.read_failures()
        left = [failure for failure in failures if failure.run not in names]
        if len(left) < len(failures):
            self._write_failures(left)

    def _write_failures(self, failures: Sequence[Failure]) -> None:
        file = self.path / "failures.json"
        if failures:
            write_json(file, [dataclasses.asdict(failure) for failure in failures])
        else:
            file.unlink()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One sweep at a time; the lock dies with the process."""
        folder = os.open(self.path, os.O_RDONLY)
        try:
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise FolderError(
                    f"'{self.path}' is being worked on by another sweep; wait for it or stop it"
                ) from None
            yield
        finally:
            os.close(folder)

    def _grow(self, runs: Sequence[PlannedRun], batched: bool) -> None:
        """By those that are not there yet; those that are must be among the wanted ones."""
        if "search" in read_json(self.path / "sweep.json"):
            raise self._another("it is a search")
        wanted = {run.identity: run for run in runs}
        named = {run.name: run for run in runs}
        grown: list[PlannedRun] = []
        for run in self.runs:
            steps = run.steps
            for single in apart(run):
                here = wanted.pop(single.identity, None) or named.get(run.name)
                if here is None:
                    raise self._another(f"'{run.name}' is not part of this one")
                if _may_grow(here, run.steps):
                    steps = here.steps
                    single = dataclasses.replace(single, steps=steps)
                if why := _difference("", _comparable(single), _comparable(here)):
                    raise self._another(f"'{run.name}' has {why}")
            grown.append(dataclasses.replace(run, steps=steps))
        if grown != self.runs:
            self.runs = grown
            self.note()
        new = list(wanted.values())
        self.add(together(new, taken=[run.name for run in self.runs]) if batched else new)

    def _another(self, why: str) -> FolderError:
        return FolderError(
            f"'{self.path}' holds another sweep: {why}; choose another --out, or go on with"
            f" longrun sweep --resume --out {self.path}"
        )

    def _write(self, made_by: Mapping[str, Any]) -> None:
        about = {
            "meaning": MEANING,
            "versions": {"longrun": __version__, "python": platform.python_version()},
            "command": sys.argv,
            "created": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        }
        runs = [run.as_json() for run in self.runs]
        write_json(
            self.path / "sweep.json", about | dict(made_by) | {"id": self.token, "runs": runs}
        )


def _as_read(content: Any) -> Any:
    """As it comes back from a file: tuples as lists."""
    return json.loads(json.dumps(content))


def _may_grow(run: PlannedRun, steps: int) -> bool:
    """Whether it is what a run of fewer steps comes to: not where the learning rate has decayed."""
    decays = any(config.learning_rate_decay for config in run.configs())
    return 0 < steps < run.steps and not decays


def _comparable(run: PlannedRun) -> Any:
    content = run.as_json() | {"name": None, "options": {**run.fixed, **run.options}, "fixed": None}
    return _as_read(content)


def _difference(name: str, there: Any, here: Any) -> str:
    """The first, in words; nothing where there is none."""
    if isinstance(there, dict) and isinstance(here, dict):
        inner = (_difference(k, there.get(k), here.get(k)) for k in {**here, **there})
        return next(filter(None, inner), "")
    return f"{name}={there}, not {here}" if there != here else ""
