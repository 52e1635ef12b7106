"""The sweep's folder: the runs, their folders, and which of them failed.

    sweep.json      every run of the sweep, and the command that made it
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
    as_read,
    make_folder,
    read_json,
    remove_leftovers,
    write_json,
)
from longrun.lab.sweeps.design import Design
from longrun.lab.sweeps.plan import Planned, apart, named, together
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
        """What Optuna searches, if it does; it suggests the runs."""

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
                if (folder.search is None) != (search is None):
                    raise folder.another("it is a search" if folder.search else "it is no search")
                if search is not None:
                    folder._grow_search(search)
                else:
                    folder._grow(runs, batched)
                return folder
            if not all(LEFTOVER.fullmatch(file.name) for file in path.iterdir()):
                raise FolderError(
                    f"'{path}' is not empty and is not a sweep folder; choose another --out"
                )
            remove_leftovers(path)
            found = together(runs) if batched else named(runs)
            folder = cls(path, uuid.uuid4().hex, found, search)
            folder._write()
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
            for name in content["runs"]:
                if not NAME.fullmatch(name):
                    raise FolderError(f"'{file}' is damaged: the name of a run is {name!r}")
            runs = {n: RunSpec.from_json(c, f"'{file}'") for n, c in content["runs"].items()}
            search = Design(**content["search"]) if "search" in content else None
            return cls(path, content["id"], runs, search)
        except FolderError:
            raise
        except (KeyError, TypeError, AttributeError, InputError) as error:
            raise FolderError(f"'{file}' is damaged: {error!r}") from None

    def add(self, runs: Mapping[str, RunSpec]) -> None:
        """Add runs that a search suggests; those that are there already are left out."""
        self._update(self.runs | {n: run for n, run in runs.items() if n not in self.runs})

    @property
    def envs(self) -> list[str]:
        """Environments of all runs, and of those that a search will suggest; each once."""
        searched = self.search.envs if self.search else []
        return list(dict.fromkeys([*(run.env for run in self.runs.values()), *searched]))

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

    def locked(self) -> FolderLock:
        """Lock the folder for writing. Raises FolderError if another process holds the lock."""
        return FolderLock(self.path)

    def another(self, why: str) -> FolderError:
        """The error that the folder is not of the requested sweep."""
        return FolderError(
            f"'{self.path}' holds another sweep: {why}; choose another --out, or resume it with"
            f" {self.resume_command()}"
        )

    def _grow(self, runs: Sequence[Planned], batched: bool) -> None:
        """Add steps and runs. Raises FolderError if a run that is there is not requested."""
        left = {dataclasses.replace(run.spec, steps=0): run for run in runs}
        requested = named(runs)
        grown: dict[str, RunSpec] = {}
        for name, spec in self.runs.items():
            steps = spec.steps
            for single in apart(spec):
                heir = left.pop(dataclasses.replace(single, steps=0), None)
                here = heir.spec if heir else requested.get(name)
                if why := _refusal(single, here, runs):
                    raise self.another(f"'{name}' {why}")
                assert here is not None
                steps = max(steps, here.steps)
            grown[name] = dataclasses.replace(spec, steps=steps)
        rest = list(left.values())
        new = together(rest, taken=grown) if batched else named(rest)
        if other := next((name for name in new if name in grown), None):
            raise self.another(f"'{other}' is a run with other options")
        self._update(grown | new)

    def _grow_search(self, search: Design) -> None:
        """Add trials. Raises FolderError if anything else differs from the search that is there."""
        assert self.search is not None
        trials = max(search.trials or 0, self.search.trials or 0)
        grown = dataclasses.replace(self.search, trials=trials)
        wanted = dataclasses.replace(search, batched=grown.batched)
        if why := difference(*(as_read(dataclasses.asdict(each)) for each in (grown, wanted))):
            raise self.another(f"it has {why}")
        if other := next((n for n, run in self.runs.items() if run.env not in search.envs), None):
            raise self.another(f"'{other}' is not part of this one")
        if grown != self.search:
            self.search = grown
            self._write()

    def _update(self, runs: Mapping[str, RunSpec]) -> None:
        if runs != self.runs:
            self.runs = dict(runs)
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


def _refusal(there: RunSpec, here: RunSpec | None, runs: Sequence[Planned]) -> str:
    """Why a run of the folder is not the requested one with other steps; "" if it is."""
    presets = list(dict.fromkeys(run.spec.preset for run in runs))
    if there.preset not in presets:
        return f"has preset={there.preset}, not {', '.join(presets)}"
    if here is None:
        return "is not part of this one"
    shorter, longer = sorted((there, here), key=lambda run: run.steps)
    if shorter.may_become(longer):
        return ""
    why = difference(there.as_json(), here.as_json())
    hint = " (a run that decays, or whose lambda adapts only if it is longer, cannot be extended)"
    return f"has {why}{hint if why.startswith('steps=') and shorter is there else ''}"
