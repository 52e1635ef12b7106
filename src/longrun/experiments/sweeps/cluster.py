"""Workers on a Ray cluster: one actor for each slot, placed by Ray where a core is free.

Where a worker sees the sweep's folder (the same machine, a shared file system), the run is trained
in it and can be resumed. Elsewhere it is trained in a temporary folder and comes back when it is
done: a worker that dies there starts its run anew.
"""

from __future__ import annotations

import logging
import os
import queue
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from longrun.envs.workers import ONE_THREAD
from longrun.experiments.sweeps.folder import SweepFolder
from longrun.experiments.sweeps.plan import Run
from longrun.experiments.sweeps.worker import train_run
from longrun.train.files import read_json, write_bytes

ANSWER_SECONDS = 15.0
"""How long a cluster may take to answer."""
STOP_SECONDS = 60.0


def connect(address: str) -> Any:
    """Ray, connected, or a ValueError that says what does not answer."""
    try:
        import ray
    except ImportError:
        raise ValueError("--ray needs a package; pip install 'longrun[ray]'") from None
    if address != "auto":
        _require_answer(address)
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    failure: queue.Queue[BaseException | None] = queue.Queue()

    def init() -> None:
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
            failure.put(None)
        except BaseException as error:
            failure.put(error)

    threading.Thread(target=init, daemon=True).start()
    try:
        error = failure.get(timeout=ANSWER_SECONDS)
    except queue.Empty:
        error = TimeoutError(f"no answer in {ANSWER_SECONDS:.0f} s")
    if error is not None:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else repr(error)
        raise ValueError(
            f"--ray {address}: no Ray cluster answers ({reason}); start one with ray start --head"
        )
    return ray


def _require_answer(address: str) -> None:
    """A wrong address is found out here in a moment; Ray itself would try for a minute."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdigit():
        raise ValueError(f"--ray {address} must be auto or HOST:PORT, for example 10.0.0.1:6379")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except OSError as error:
        raise ValueError(
            f"--ray {address}: no Ray cluster answers ({error}); start one with ray start --head"
        ) from None


class RayWorkers:
    """The same slots and messages as on one machine."""

    def __init__(self, folder: SweepFolder, address: str, slots: int | None, native: bool) -> None:
        self._ray = connect(address)
        self._folder = folder
        resources = self._ray.cluster_resources()
        devices = resources.get("GPU", 0) if native else 0
        self.slots = slots or max(1, int(devices or resources.get("CPU", 1)))
        self._needs = {"num_gpus": 1} if devices else {"num_cpus": 1}
        self._actors: dict[int, Any] = {}
        self._results: dict[int, Any] = {}
        self._runs: dict[int, Run] = {}

    def start(self, slot: int, run: Run) -> None:
        if slot not in self._actors:
            one_thread = dict.fromkeys((*ONE_THREAD, "NPROC"), "1")
            cpu = {} if "num_gpus" in self._needs else {"JAX_PLATFORMS": "cpu"}
            actor = self._ray.remote(**self._needs, max_concurrency=2)(RemoteWorker)
            environment = {"env_vars": one_thread | cpu}
            self._actors[slot] = actor.options(runtime_env=environment).remote()
        self._runs[slot] = run
        place = str(self._folder.folder(run).absolute())
        self._results[slot] = self._actors[slot].train.remote(
            run.as_json(), place, self._folder.token
        )

    def messages(self, seconds: float) -> Iterator[tuple[int, dict[str, Any]]]:
        ready, _ = self._ray.wait(list(self._results.values()), timeout=seconds)
        for slot, result in list(self._results.items()):
            if result in ready:
                del self._results[slot]
                yield slot, self._outcome(slot, result)
        asked = {slot: self._actors[slot].progress.remote() for slot in self._results}
        for slot, answer in asked.items():
            with suppress(Exception):  # not there yet, or dying: the result will tell
                message = self._ray.get(answer, timeout=seconds)
                if message is not None:
                    yield slot, message

    def close(self) -> None:
        """Ask all to save and end, and see that they do."""
        stops = [self._actors[slot].stop.remote() for slot in self._results]
        with suppress(Exception):
            self._ray.get(stops, timeout=5)
            self._ray.wait(
                list(self._results.values()), num_returns=len(stops), timeout=STOP_SECONDS
            )
        for actor in self._actors.values():
            with suppress(Exception):
                self._ray.kill(actor)
        self._ray.shutdown()

    def _outcome(self, slot: int, result: Any) -> dict[str, Any]:
        try:
            outcome, files = self._ray.get(result)
        except self._ray.exceptions.RayError as error:
            with suppress(Exception):
                self._ray.kill(self._actors.pop(slot))
            reason = str(error).strip().splitlines()[0]
            return {"kind": "died", "error": f"the Ray worker died: {reason}", "again": True}
        for name, content in sorted(files.items(), key=lambda f: f[0] == "summary.json"):
            write_bytes(self._folder.folder(self._runs[slot]) / name, content)
        done: dict[str, Any] = outcome
        return done


class RemoteWorker:
    """Lives on the cluster: trains one run at a time and answers how it goes meanwhile."""

    def __init__(self) -> None:
        self._latest: dict[str, Any] | None = None
        self._stopping = False

    def train(
        self, run: dict[str, Any], place: str, token: str
    ) -> tuple[dict[str, Any], dict[str, bytes]]:
        """How it ended, and the run's files where the sweep's folder is out of reach."""
        self._latest, self._stopping = None, False
        path = Path(place)
        if _is_sweep(path.parent.parent, token):
            return train_run(Run.from_json(run), path, self._tell), {}
        with tempfile.TemporaryDirectory() as elsewhere:
            path = Path(elsewhere) / path.name
            outcome = train_run(Run.from_json(run), path, self._tell)
            files = [file for file in path.rglob("*") if file.is_file()]
            return outcome, {str(file.relative_to(path)): file.read_bytes() for file in files}

    def progress(self) -> dict[str, Any] | None:
        """The latest word, once."""
        latest, self._latest = self._latest, None
        return latest

    def stop(self) -> None:
        self._stopping = True

    def _tell(self, message: dict[str, Any]) -> bool:
        self._latest = message
        return not self._stopping


def _is_sweep(path: Path, token: str) -> bool:
    file = path / "sweep.json"
    return file.exists() and read_json(file).get("id") == token
