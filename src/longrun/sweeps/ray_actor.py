"""What lives on a Ray cluster. Nothing is imported at the top: the environment comes first.

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


class RemoteWorker:
    """Trains one run at a time and answers how it goes meanwhile."""

    def __init__(self, environment: Mapping[str, str], paths: Sequence[str]) -> None:
        os.environ.update(environment)
        sys.path += [path for path in paths if path not in sys.path]  # for --env module:Id
        self._latest: dict[str, Any] | None = None
        self._stopping = threading.Event()

    def train(
        self, run: Mapping[str, Any], place: str, token: str, begun: Sequence[Any]
    ) -> tuple[dict[str, Any], Files]:
        """How it ended, and the run's files where the sweep's folder is out of reach.

        `begun` holds a reference to the files that there were already, if any: they travel only
        where they are needed.
        """
        from longrun.sweeps.plan import PlannedRun
        from longrun.sweeps.worker_process import train_run

        def here(path: Path) -> dict[str, Any]:
            return train_run(PlannedRun.from_json(run), path, self._tell, self._stopping)

        self._latest = None
        path = Path(place)
        if _is_sweep(path.parent.parent, token):
            return here(path), {}
        with tempfile.TemporaryDirectory() as elsewhere:
            path = Path(elsewhere) / path.name
            for reference in begun:
                import ray

                write_files(path, ray.get(reference))
            return here(path), read_files(path)

    def progress(self) -> dict[str, Any] | None:
        """The latest word, once."""
        latest, self._latest = self._latest, None
        return latest

    def stop(self) -> None:
        self._stopping.set()

    def _tell(self, message: dict[str, Any]) -> None:
        self._latest = message


def read_files(path: Path) -> Files:
    files = [file for file in path.rglob("*") if file.is_file()]
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


def write_files(path: Path, files: Files) -> None:
    """Those that vouch for others last, so that a crash in between leaves a run to go on with."""
    from longrun.files import write_bytes

    last = ["checkpoint/checkpoint.json", "summary.json"]
    for name in sorted(files, key=lambda name: last.index(name) if name in last else -1):
        write_bytes(path / name, files[name])


def _is_sweep(path: Path, token: str) -> bool:
    from longrun.files import read_json

    file = path / "sweep.json"
    return file.exists() and read_json(file).get("id") == token
