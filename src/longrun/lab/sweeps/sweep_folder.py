"""The sweep's folder: the runs, their folders, and which of them failed.

    sweep.json      the runs, or what Optuna searches, and the command that made the sweep
    runs/NAME/      ordinary run folders
    failures.json   failed runs with their errors, until they are finished
    workers/        output of the worker processes on this machine
    optuna.journal  the state of a search

A run is finished when its summary says so, which is written last. The state of a sweep is read from
its files alone, so that it can be killed at any moment and resumed.
"""

from __future__ import annotations

import dataclasses
import platform
import re
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from longrun import __version__
from longrun.base.errors import FolderError, InputError
from longrun.base.files import (
    LEFTOVER,
    FolderLock,
    make_folder,
    read_json,
    remove_leftovers,
    write_json,
)
from longrun.lab.sweeps.design import Design
from longrun.lab.sweeps.plan import Planned, grown
from longrun.learning.envs.factories import needs_trust, require_saved
from longrun.learning.runs.run_folder import RunFolder, is_finished
from longrun.learning.runs.spec import FORMAT, RunSpec, difference

NAME = re.compile(r"[\w=+-][\w.=+-]*", re.ASCII)
"""Names of run folders: a file of others must not name a path elsewhere."""


@dataclasses.dataclass(frozen=True)
class Failure:
    """A run that failed in its last attempt."""

    run: str
    error: str
    attempts: int
    traceback: str = ""


class SweepFolder:
    """A sweep's folder, and the descriptions of its runs by name."""

    def __init__(
        self, path: Path, token: str, runs: Mapping[str, RunSpec], search: Design | None = None
    ) -> None:
        self.path = path
        self.token = token
        """A random id, by which workers recognise the folder."""
        self.runs = dict(runs)
        self.search = search
        """What Optuna searches, if it does; its journal has the runs."""

    @classmethod
    def create(
        cls,
        path: Path,
        runs: Sequence[Planned],
        batched: bool = False,
        search: Design | None = None,
    ) -> SweepFolder:
        """A sweep of these runs, or the one that is there, which gets those that it lacks.

        If `batched`, replicas that fit into one compiled program become one run.
        """
        make_folder(path)
        with FolderLock(path):
            if (path / "sweep.json").exists():
                folder = cls.open(path)
            elif all(LEFTOVER.fullmatch(file.name) for file in path.iterdir()):
                remove_leftovers(path)
                folder = cls(path, uuid.uuid4().hex, {}, search)
            else:
                raise FolderError(
                    f"'{path}' is not empty and is not a sweep folder; choose another --out"
                )
            try:
                folder._grow(runs, batched, search)
            except InputError as error:
                raise FolderError(
                    f"'{path}' holds another sweep: {error}; choose another --out, or resume it"
                    f" with {folder.resume_command()}"
                ) from None
            return folder

    @classmethod
    def open(cls, path: Path) -> SweepFolder:
        """An existing sweep. Raises FolderError if the folder is not one, or is damaged."""
        file = path / "sweep.json"
        if not file.exists():
            raise FolderError(f"'{path}' is not a sweep folder: it has no sweep.json")
        content = read_json(file)
        if isinstance(content, dict) and content.get("format") != FORMAT:
            raise FolderError(f"'{file}' is of another version of longrun; choose another --out")
        try:
            if "search" in content:
                return cls(path, content["id"], {}, Design(**content["search"]))
            for name in content["runs"]:
                if not NAME.fullmatch(name):
                    raise FolderError(f"'{file}' is damaged: the name of a run is {name!r}")
            runs = {n: RunSpec.from_json(c, f"'{file}'") for n, c in content["runs"].items()}
            return cls(path, content["id"], runs)
        except FolderError:
            raise
        except (KeyError, TypeError, AttributeError, InputError) as error:
            raise FolderError(f"'{file}' is damaged: {error!r}") from None

    @property
    def envs(self) -> list[str]:
        """Environments of all runs, each once."""
        if self.search is not None:
            return list(self.search.envs)
        return list(dict.fromkeys(run.env for run in self.runs.values()))

    def folder(self, name: str) -> Path:
        return self.path / "runs" / name

    def is_finished(self, name: str) -> bool:
        return is_finished(self.folder(name), self.runs[name].steps)

    def require_trusted(self, trust: bool) -> None:
        """Raise InputError if workers would import a module that only the sweep's files name."""
        for env in self.envs:
            require_saved(env, self.path, trust)

    def resume_command(self) -> str:
        """The command that resumes the sweep."""
        trust = " --trust" if any(map(needs_trust, self.envs)) else ""
        return f"longrun sweep --resume --out {self.path}{trust}"

    def require_own(self, name: str) -> None:
        """Raise FolderError if the run's folder holds another run."""
        path, wanted = self.folder(name), self.runs[name]
        try:
            found = RunFolder(path).read_spec()
        except FolderError:
            return  # not started, or damaged: then this run will fail, and no other
        if not found.may_become(wanted):
            raise FolderError(
                f"'{path}' belongs to another sweep: it has"
                f" {difference(found.as_json(), wanted.as_json())}; move it away or choose another"
                " --out"
            )

    def read_failures(self) -> list[Failure]:
        """Failures of this and earlier passes, without runs that have been finished since."""
        with suppress(ValueError, TypeError):
            return [Failure(**failure) for failure in read_json(self.path / "failures.json")]
        return []

    def note_failure(self, name: str, failure: Failure | None) -> None:
        """Write how a run failed to failures.json, or that it did not."""
        before = self.read_failures()
        failures = [other for other in before if other.run != name]
        if failure is not None:
            failures.append(failure)
        if failures and failures != before:
            content = [dataclasses.asdict(each) for each in failures]
            write_json(self.path / "failures.json", content)
        elif before and not failures:
            (self.path / "failures.json").unlink()

    def _grow(self, runs: Sequence[Planned], batched: bool, search: Design | None) -> None:
        """Add runs, steps or trials. Raises InputError if more than these is different."""
        if (self.search is None) != (search is None):
            raise InputError("it is a search" if self.search else "it is no search")
        before = self.runs, self.search
        if self.search is None or search is None:
            self.runs = grown(self.runs, runs, batched)
        else:
            self.search = self.search.grown(search)
        if (self.runs, self.search) != before or not (self.path / "sweep.json").exists():
            self._write()

    def _write(self) -> None:
        """Write sweep.json; what says how the sweep was made stays as it is."""
        file = self.path / "sweep.json"
        made = {
            "format": FORMAT,
            "versions": {"longrun": __version__, "python": platform.python_version()},
            "command": sys.argv,
            "created": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "id": self.token,
        }
        search = {"search": dataclasses.asdict(self.search)} if self.search else {}
        runs = {"runs": {name: run.as_json() for name, run in self.runs.items()}}
        write_json(file, made | (read_json(file) if file.exists() else {}) | search | runs)
