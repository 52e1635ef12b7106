"""The sweep's folder: what was asked, the runs, and which of them failed.

    sweep.json      every run of the sweep, by name, and what made it
    runs/NAME/      ordinary run folders
    failures.json   runs that failed, with their errors; the others are not touched by them

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
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from longrun import __version__
from longrun.experiments.sweeps.plan import Run
from longrun.train.files import read_json, write_json


@dataclasses.dataclass(frozen=True)
class Failure:
    """A run that was given up."""

    run: str
    error: str
    attempts: int


class SweepFolder:
    def __init__(self, path: Path, token: str, runs: Sequence[Run]) -> None:
        self.path = path
        self.token = token
        """what tells this sweep from all others"""
        self.runs = list(runs)

    @classmethod
    def create(cls, path: Path, runs: Sequence[Run], **made_by: Any) -> SweepFolder:
        """A new sweep, or one with the same runs gone on with, or one that grows by some."""
        if (path / "sweep.json").exists():
            return cls.open(path)._grown(runs)
        if path.exists() and any(path.iterdir()):
            raise ValueError(f"'{path}' is not empty and holds no sweep; choose another --out")
        folder = cls(path, uuid.uuid4().hex, runs)
        folder._write(made_by)
        return folder

    @classmethod
    def open(cls, path: Path) -> SweepFolder:
        if not (path / "sweep.json").exists():
            raise ValueError(f"'{path}' is not a sweep: it has no sweep.json")
        content = read_json(path / "sweep.json")
        try:
            runs = [Run.from_json(run) for run in content["runs"]]
            return cls(path, content["id"], runs)
        except (KeyError, TypeError) as error:
            raise ValueError(f"'{path / 'sweep.json'}' is damaged: {error!r}") from None

    def add(self, runs: Sequence[Run]) -> None:
        """More runs, as a search comes to them; those that are there already are left out."""
        names = {run.name for run in self.runs}
        new = [run for run in runs if run.name not in names]
        if new:
            self.runs += new
            content = read_json(self.path / "sweep.json")
            self._write({k: v for k, v in content.items() if k not in ("id", "runs")})

    def folder(self, run: Run) -> Path:
        return self.path / "runs" / run.name

    def is_finished(self, run: Run) -> bool:
        file = self.folder(run) / "summary.json"
        return file.exists() and read_json(file)["steps"] >= run.steps

    def require_own(self, run: Run) -> None:
        """The run's folder holds this run, if anything; otherwise nothing is touched."""
        file = self.folder(run) / "config.json"
        if not file.exists():
            return
        found = read_json(file)
        options = _as_read(dataclasses.asdict(run.configs()[0]))
        known = found.get("options", {})  # a later version may have more options than made the run
        wanted = {
            "env": run.env,
            "algorithm": run.algorithm,
            "options": {name: value for name, value in options.items() if name in known},
            "seeds": run.seeds,
            "steps": run.steps,
        }
        found["seeds"] = [replica["seed"] for replica in found.get("replicas", [])]
        for name, value in wanted.items():
            if found.get(name) != value:
                difference = _difference(name, found.get(name), value)
                raise ValueError(
                    f"'{file.parent}' belongs to another sweep: it has {difference};"
                    " move it away or choose another --out"
                )

    def read_failures(self) -> list[Failure]:
        file = self.path / "failures.json"
        return [Failure(**failure) for failure in read_json(file)] if file.exists() else []

    def write_failures(self, failures: Sequence[Failure]) -> None:
        if failures or (self.path / "failures.json").exists():
            write_json(self.path / "failures.json", [dataclasses.asdict(f) for f in failures])

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One sweep at a time; the lock dies with the process."""
        folder = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        except BlockingIOError:
            raise ValueError(f"'{self.path}' is being worked on by another sweep") from None
        finally:
            os.close(folder)

    def _grown(self, runs: Sequence[Run]) -> SweepFolder:
        wanted = {run.name: run for run in runs}
        for run in self.runs:
            if run.name not in wanted:
                raise ValueError(
                    f"'{self.path}' holds another sweep: '{run.name}' is not part of this one;"
                    f" choose another --out, or go on with longrun sweep --resume --out {self.path}"
                )
            there, here = _as_read(run.as_json()), _as_read(wanted[run.name].as_json())
            if there != here:
                name = next(n for n in here if there.get(n) != here[n])
                raise ValueError(
                    f"'{self.path}' holds another sweep: '{run.name}' has"
                    f" {_difference(name, there.get(name), here[name])}; choose another --out"
                )
        self.add(runs)
        return self

    def _write(self, made_by: Mapping[str, Any]) -> None:
        about = {
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


def _difference(name: str, there: Any, here: Any) -> str:
    if isinstance(there, dict) and isinstance(here, dict):
        inner = next(k for k in {**here, **there} if there.get(k) != here.get(k))
        return _difference(inner, there.get(inner), here.get(inner))
    return f"{name}={there}, not {here}"
