"""The sweep's folder: the plan, the run folders, and which runs failed.

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
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from longrun import __version__
from longrun.base.errors import FolderError
from longrun.base.files import (
    LEFTOVER,
    FolderLock,
    make_folder,
    read_json,
    remove_leftovers,
    write_json,
)
from longrun.lab.sweeps.differences import difference, refusal
from longrun.lab.sweeps.plan import PlannedRun, apart, together
from longrun.learning.envs.factories import needs_trust, require_saved
from longrun.learning.runs.run_folder import RunFolder, is_finished

MEANING = 4
"""Version of what sweep.json means, the presets that it names included."""


@dataclasses.dataclass(frozen=True)
class Failure:
    """A run that failed in its last attempt."""

    run: str
    error: str
    attempts: int
    traceback: str = ""


class SweepFolder:
    """A sweep's folder and the runs planned in it."""

    def __init__(
        self, path: Path, token: str, runs: Sequence[PlannedRun], searched: Sequence[str] = ()
    ) -> None:
        self.path = path
        self.token = token
        """A random id, by which workers recognise the folder."""
        self.runs = list(runs)
        self._searched = list(searched)
        """Environments of the searches in the folder, whose runs are suggested later."""

    @classmethod
    def create(
        cls,
        path: Path,
        runs: Sequence[PlannedRun],
        batched: bool = False,
        preset_option: str = "--preset",
        **made_by: Any,
    ) -> SweepFolder:
        """Create a sweep of these runs, or open the one that is there and add those it lacks.

        If `batched`, replicas that fit into one compiled program become one run. `preset_option` is
        what the user's command calls a preset, for messages.
        """
        make_folder(path)
        with FolderLock(path):
            if (path / "sweep.json").exists():
                folder = cls.open(path)
                folder._grow(runs, batched, preset_option)
                return folder
            if not all(LEFTOVER.fullmatch(file.name) for file in path.iterdir()):
                raise FolderError(
                    f"'{path}' is not empty and is not a sweep folder; choose another --out"
                )
            remove_leftovers(path)
            runs = together(runs) if batched else runs
            folder = cls(path, uuid.uuid4().hex, runs, _searched_envs(made_by))
            folder._write(made_by)
            return folder

    @classmethod
    def open(cls, path: Path) -> SweepFolder:
        """An existing sweep. Raises FolderError if the folder is not one, or is damaged."""
        if not (path / "sweep.json").exists():
            raise FolderError(f"'{path}' is not a sweep folder: it has no sweep.json")
        try:
            content = read_sweep(path)
            runs = [PlannedRun.from_json(run) for run in content["runs"]]
            for run in runs:
                if not isinstance(run.name, str) or run.name in ("", "..") or "/" in run.name:
                    raise TypeError(f"the name of a run is {run.name!r}")  # a path elsewhere
            searched = _searched_envs(content)
            for env in (*(run.env for run in runs), *searched):
                if not isinstance(env, str):
                    raise TypeError(f"the name of an environment is {env!r}")
            return cls(path, content["id"], runs, searched)
        except (KeyError, TypeError, AttributeError) as error:
            raise FolderError(f"'{path / 'sweep.json'}' is damaged: {error!r}") from None

    def add(self, runs: Sequence[PlannedRun]) -> None:
        """Add runs that a search suggests; those that are there already are left out."""
        names = {run.name for run in self.runs}
        new = [run for run in runs if run.name not in names]
        if new:
            self.runs += new
            self.update()

    def update(self, **made_by: Any) -> None:
        """Write sweep.json again with the present runs, and these other entries changed."""
        content = read_sweep(self.path)
        self._write({k: v for k, v in content.items() if k not in ("id", "runs")} | made_by)

    @property
    def envs(self) -> list[str]:
        """Environments of all runs, and of those that searches will suggest; each once."""
        return list(dict.fromkeys([*(run.env for run in self.runs), *self._searched]))

    def folder(self, run: PlannedRun) -> Path:
        return self.path / "runs" / run.name

    def is_finished(self, run: PlannedRun) -> bool:
        return is_finished(self.folder(run), run.steps)

    def require_trusted(self, trust: bool) -> None:
        """Raise InputError if workers would import a module that only the sweep's files name."""
        for env in self.envs:
            require_saved(env, self.path, trust)

    def resume_command(self) -> str:
        """The command that resumes the sweep."""
        trust = " --trust" if any(map(needs_trust, self.envs)) else ""
        return f"longrun sweep --resume --out {self.path}{trust}"

    def require_own(self, run: PlannedRun) -> None:
        """Raise FolderError if the run's folder holds another run."""
        path = self.folder(run)
        try:
            found, wanted = RunFolder(path).read_spec(), run.spec()
        except FolderError:
            return  # not started, or damaged: then this run will fail, and no other
        if not found.may_become(wanted):
            why = difference("", found.as_json(), wanted.as_json())
            raise FolderError(
                f"'{path}' belongs to another sweep: it has {why};"
                " move it away or choose another --out"
            )

    def read_failures(self) -> list[Failure]:
        """Failures of this and earlier passes, without runs that have been finished since."""
        with suppress(ValueError, TypeError):
            return [Failure(**failure) for failure in read_json(self.path / "failures.json")]
        return []

    def add_failure(self, failure: Failure) -> None:
        others = [other for other in self.read_failures() if other.run != failure.run]
        self._write_failures([*others, failure])

    def forget_failures(self, finished: Sequence[PlannedRun]) -> None:
        """Remove finished runs from failures.json."""
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

    def locked(self) -> FolderLock:
        """Lock the folder for writing. Raises FolderError if another process holds the lock."""
        return FolderLock(self.path)

    def _grow(self, runs: Sequence[PlannedRun], batched: bool, preset_option: str) -> None:
        """Add runs that are not there yet. Raises FolderError if a run there is not among these."""
        if "search" in read_json(self.path / "sweep.json"):
            raise self.another("it is a search")
        wanted = {run.identity: run for run in runs}
        named = {run.name: run for run in runs}
        grown: list[PlannedRun] = []
        for run in self.runs:
            steps = run.steps
            for single in apart(run):
                here = wanted.pop(single.identity, None) or named.get(run.name)
                if why := refusal(single, here, runs, preset_option):
                    raise self.another(f"'{run.name}' {why}")
                assert here is not None
                wanted.pop(here.identity, None)
                steps = max(steps, here.steps)
            grown.append(dataclasses.replace(run, steps=steps))
        taken = [run.name for run in grown]
        new = together(list(wanted.values()), taken) if batched else list(wanted.values())
        if other := next((run.name for run in new if run.name in taken), None):
            raise self.another(f"'{other}' is a run with other options")
        if grown != self.runs:
            self.runs = grown
            self.update()
        self.add(new)

    def another(self, why: str) -> FolderError:
        """The error that the folder is not of the requested sweep."""
        return FolderError(
            f"'{self.path}' holds another sweep: {why}; choose another --out, or resume it with"
            f" {self.resume_command()}"
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


def read_sweep(path: Path) -> dict[str, Any]:
    """The content of the folder's sweep.json. Raises FolderError if another version wrote it."""
    content: dict[str, Any] = read_json(path / "sweep.json")
    if isinstance(content, dict) and content["meaning"] != MEANING:
        raise FolderError(
            f"'{path / 'sweep.json'}' is of another version of longrun; choose another --out"
        )
    return content


def _searched_envs(content: Mapping[str, Any]) -> list[str]:
    """Environments that the searches of a sweep.json name, used or not."""
    envs: list[str] = []
    for study in content.get("search", []):
        envs += [study["block"]["env"], *study["objective"]["references"]]
    return envs
