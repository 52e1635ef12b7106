"""The worker on a Ray cluster. longrun is imported after the environment variables are set.

NumPy and JAX read their number of threads when they are imported. Ray could set it as well
(`runtime_env`), but takes two seconds for each worker.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Files = dict[str, bytes]
"""The content of a run folder, by path within it."""
LAST = ["checkpoint/checkpoint.json", "summary.json"]
"""Files that say that others are complete."""


class RemoteWorker:
    """Trains one run at a time and answers questions about its progress meanwhile."""

    def __init__(self, variables: Mapping[str, str], paths: Sequence[str]) -> None:
        os.environ.update(variables)
        sys.path += [path for path in paths if path not in sys.path]  # for --env module:Id
        self._latest: dict[str, Any] | None = None
        self._stopping = threading.Event()

    def train(
        self, run: Mapping[str, Any], folder: str, token: str, saved: Sequence[Any]
    ) -> tuple[dict[str, Any], Files]:
        """Train a run; the last message, and its files if the sweep's folder is not visible here.

        `saved` holds a reference to the files of a run that was started before: Ray transfers them
        only where they are needed.
        """
        from longrun.lab.sweeps.worker_process import train_run
        from longrun.learning.runs.spec import RunSpec

        spec, path = RunSpec.from_json(run, "the order"), Path(folder)
        self._latest = None
        if _is_sweep(path.parent.parent, token):
            return train_run(spec, path, self.report, self._stopping), {}
        with tempfile.TemporaryDirectory() as temporary:
            path = Path(temporary) / path.name
            for reference in saved:
                import ray

                write_files(path, ray.get(reference))
            return train_run(spec, path, self.report, self._stopping), read_files(path)

    def progress(self) -> dict[str, Any] | None:
        """The latest message, once; None if there is no new one."""
        latest, self._latest = self._latest, None
        return latest

    def stop(self) -> None:
        self._stopping.set()

    def report(self, message: dict[str, Any]) -> None:
        """Keep a message for the next call of `progress`."""
        self._latest = message


def read_files(path: Path) -> Files:
    files = [file for file in path.rglob("*") if file.is_file()]
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


def write_files(path: Path, files: Files) -> None:
    """Write checkpoint.json and summary.json last, so that a crash leaves a run to resume."""
    from longrun.base.files import write_bytes

    for name in sorted(files, key=lambda name: LAST.index(name) if name in LAST else -1):
        write_bytes(path / name, files[name])


def _is_sweep(path: Path, token: str) -> bool:
    from longrun.base.files import read_json

    file = path / "sweep.json"
    return file.exists() and read_json(file).get("id") == token
