"""Runs a sweep: creates its folder, starts workers, prints the results."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from longrun.base.checks import STEP_TIMEOUT, checked_timeout, whole_number
from longrun.base.errors import LongrunError
from longrun.base.files import remove_leftovers
from longrun.base.memory import available_cores
from longrun.lab.sweeps.live_table import Live
from longrun.lab.sweeps.local_workers import LocalWorkers, Workers
from longrun.lab.sweeps.optuna_search import OptunaSearch, import_optuna
from longrun.lab.sweeps.plan import runs_of
from longrun.lab.sweeps.request import Request, blocks_of, studies_of
from longrun.lab.sweeps.scheduler import Outcome, Sweep
from longrun.lab.sweeps.study import Study, read_studies, search_difference, written_studies
from longrun.lab.sweeps.sweep_folder import SweepFolder
from longrun.learning.envs.native.lookup import is_native
from longrun.learning.train.stop_signals import stop_signals

DEVICE_SECONDS = 120.0
"""Time for another process to import JAX and to find its devices."""


def create_sweep(request: Request, path: Path) -> SweepFolder:
    """The sweep's folder, new or to be resumed; nothing is written if the request is wrong."""
    batched = on_device(request.envs)
    if request.search != "optuna":
        return SweepFolder.create(path, runs_of(blocks_of(request)), batched)
    import_optuna()
    return _optuna_folder(path, studies_of(request, batched))


def run_sweep(
    folder: SweepFolder,
    workers: int | None = None,
    ray: str | None = None,
    retries: int = 1,
    quiet: bool = False,
    step_timeout: float = STEP_TIMEOUT,
) -> int:
    """Train all unfinished runs and print tables. The exit status is 1 if a run failed."""
    from longrun.lab.sweeps.closing_table import show_ending

    outcome, search = train_sweep(folder, workers, ray, retries, quiet, step_timeout)
    show_ending(folder, outcome, search)
    return 1 if outcome.failures else 0


def train_sweep(
    folder: SweepFolder,
    workers: int | None = None,
    ray: str | None = None,
    retries: int = 1,
    quiet: bool = False,
    step_timeout: float = STEP_TIMEOUT,
) -> tuple[Outcome, OptunaSearch | None]:
    """Train all unfinished runs."""
    retries = whole_number("retries", retries)
    slots = None if workers is None else whole_number("workers", workers, 1)
    timeout = checked_timeout(step_timeout)
    with folder.locked():
        remove_leftovers(folder.path)
        studies = read_studies(folder.path)
        search = OptunaSearch(folder, studies) if studies else None
        started = _workers(folder, slots, ray, studies, timeout)
        return _train_all(folder, started, ray, retries, quiet, search), search


def _train_all(
    folder: SweepFolder,
    workers: Workers,
    ray: str | None,
    retries: int,
    quiet: bool,
    search: OptunaSearch | None,
) -> Outcome:
    where = f"{workers.slots} at once" + (f" on Ray {ray}" if ray else "")
    runs = len(folder.runs) + sum(more for more, _ in (search.to_come() if search else {}).values())
    print(f"sweep in {folder.path}: {runs} runs, {where}", flush=True)
    live = Live(f"sweep {folder.path}", wanted=False if quiet else None, log=not quiet)
    again = folder.resume_command() + (f" --ray {ray}" if ray else "")
    try:
        with stop_signals() as stop:
            return Sweep(folder, workers, live, retries, search, stop).run()
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"; {again} resumes it") from None
    except SystemExit:
        print(f"longrun: terminated; {again} resumes it", file=sys.stderr)
        raise


def _workers(
    folder: SweepFolder,
    slots: int | None,
    ray: str | None,
    studies: Sequence[Study],
    step_timeout: float,
) -> Workers:
    native = any(map(is_native, folder.envs))
    if ray is not None:
        from longrun.lab.sweeps.ray_workers import RayWorkers

        return RayWorkers(folder, ray, slots, native, step_timeout)
    if slots is None:
        # Programs that share a device wait for each other or run out of memory.
        slots = 1 if on_device(folder.envs) else available_cores()
    if not studies:
        slots = min(slots, len(folder.runs))  # a single worker may use all cores
    return LocalWorkers(folder, slots, native, step_timeout)


def on_device(envs: Sequence[str]) -> bool:
    """Whether some environments are JAX-native and JAX has a GPU or TPU.

    Replicas are then joined into one program, which a device runs in about the time of one of them.
    On a CPU one process for each run is faster (docs/decisions/024).
    """
    return any(map(is_native, envs)) and default_backend() != "cpu"


def default_backend() -> str:
    """JAX's default backend, found in another process: this one would hold the device from then."""
    command = [sys.executable, "-c", "import jax; print(jax.default_backend())"]
    try:
        asked = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=DEVICE_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise LongrunError(
            f"JAX has not found its devices within {DEVICE_SECONDS:g} seconds; see whether another"
            " process holds them, or set the environment variable JAX_PLATFORMS=cpu"
        ) from None
    return asked.stdout.strip() or "cpu"


def _optuna_folder(path: Path, studies: Sequence[Study]) -> SweepFolder:
    """A new search, or the one that is there, which may get more trials than before."""
    wanted = written_studies(studies)
    if not (path / "sweep.json").exists():
        return SweepFolder.create(path, [], search=wanted)
    folder, there = SweepFolder.open(path), read_studies(path)
    grown = [dataclasses.replace(s, trials=max(s.trials, studies[0].trials)) for s in there]
    if written_studies(grown) != wanted:
        raise folder.another(search_difference(grown, studies))
    envs = {env for study in studies for env in study.envs}
    if other := next((run.name for run in folder.runs if run.env not in envs), None):
        raise folder.another(f"'{other}' is not part of this one")
    if grown != there:
        with folder.locked():
            folder.update(search=wanted)
    return folder
