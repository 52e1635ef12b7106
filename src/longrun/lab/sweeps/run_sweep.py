"""Runs a sweep: creates its folder, starts workers, prints the results."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np

from longrun.base.checks import STEP_TIMEOUT, checked_timeout, whole_number
from longrun.base.errors import LongrunError
from longrun.base.files import FolderLock, remove_leftovers
from longrun.base.memory import available_cores
from longrun.lab.results.comparison_table import print_final
from longrun.lab.results.read import read_results
from longrun.lab.sweeps.design import Design
from longrun.lab.sweeps.live_table import Live
from longrun.lab.sweeps.local_workers import LocalWorkers, Workers
from longrun.lab.sweeps.optuna_search import OptunaSearch, import_optuna
from longrun.lab.sweeps.scheduler import Outcome, Sweep
from longrun.lab.sweeps.sweep_folder import SweepFolder
from longrun.learning.envs.native.protocol import is_native
from longrun.learning.train.open_run import open_env
from longrun.learning.train.stop_signals import stop_signals

DEVICE_SECONDS = 120.0
"""Time for another process to import JAX and to find its devices."""


def create_sweep(path: Path, **arguments: Any) -> SweepFolder:
    """The folder of the sweep that the arguments of a `Design` describe, new or to be resumed.

    They may have NumPy's numbers. Nothing is written if they are wrong.
    """
    design = Design(**_plain(arguments))
    names = dict(zip(design.envs, _names(design.envs), strict=True))
    references = {names[env]: float(score) for env, score in design.references.items()}
    batched = on_device(design.envs)
    design = dataclasses.replace(
        design, envs=[*names.values()], references=references, batched=batched
    )
    if design.search != "optuna":
        return SweepFolder.create(path, design.runs(), batched)
    import_optuna()
    for study in design.studies():
        for corner in study.space.corners():
            design.trial(study, 0, corner)
    return SweepFolder.create(path, [], search=design)


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's, arrays and tuples as lists, also inside: JSON has no others."""
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple | range):
        return [_plain(each) for each in value]
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else value


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
    with FolderLock(folder.path):
        remove_leftovers(folder.path)
        search = OptunaSearch(folder) if folder.search else None
        started = _workers(folder, slots, ray)
        where = f"{started.slots} at once" + (f" on Ray {ray}" if ray else "")
        more = sum(runs for runs, _ in search.to_come().values()) if search else 0
        print(f"sweep in {folder.path}: {len(folder.runs) + more} runs, {where}", flush=True)
        live = Live(f"sweep {folder.path}", wanted=False if quiet else None, log=not quiet)
        again = folder.resume_command() + (f" --ray {ray}" if ray else "")
        try:
            with stop_signals() as stop:
                sweep = Sweep(folder, started, live, retries, search, timeout)
                return sweep.run(stop), search
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"; {again} resumes it") from None
        except SystemExit:
            print(f"longrun: terminated; {again} resumes it", file=sys.stderr)
            raise


def run_sweep(folder: SweepFolder, **running: Any) -> int:
    """Train all unfinished runs and print tables. The exit status is 1 if a run failed."""
    outcome, search = train_sweep(folder, **running)
    finished = finished_folders(folder, outcome)
    if evaluated := [path for path in finished if (path / "evaluations.csv").exists()]:
        print_final(read_results(evaluated))
    for name, options, score in search.best() if search else []:
        flags = " ".join(filter(None, (flag(option, value) for option, value in options.items())))
        flags = flags or "the preset as it is"
        print(f"best for {name}: {score:.4g} with {flags}; train it with other seeds")
    print(f"{len(outcome.finished)} of {len(folder.runs)} runs are finished in {folder.path}")
    for failure in outcome.failures:
        times = "1 attempt" if failure.attempts == 1 else f"{failure.attempts} attempts"
        print(f"failed after {times}: {failure.run}: {failure.error}")
    if outcome.failures:
        print(f"{folder.resume_command()} tries them again")
    return 1 if outcome.failures else 0


def finished_folders(folder: SweepFolder, outcome: Outcome) -> list[Path]:
    """Folders of the finished runs, in the order of the plan and not in that of their ends."""
    return [folder.folder(name) for name in folder.runs if name in outcome.finished]


def flag(option: str, value: Any) -> str:
    """An option as `longrun train` takes it; nothing for an empty list, which is the default.

    Networks without a hidden layer are not the default: `longrun sweep` alone takes them.
    """
    name = option.replace("_", "-")
    if option == "limits":
        return " ".join(f"--limit {cost}={rate}" for cost, rate in dict(value).items())
    if isinstance(value, bool):
        return f"--{name}" if value else f"--no-{name}"
    if isinstance(value, list) and not value:
        return "--grid hidden_sizes=none" if option == "hidden_sizes" else ""
    return f"--{name} {' '.join(map(str, value)) if isinstance(value, list) else value}"


def _workers(folder: SweepFolder, slots: int | None, ray: str | None) -> Workers:
    native = any(map(is_native, folder.envs))
    if ray is not None:
        from longrun.lab.sweeps.ray_workers import RayWorkers

        return RayWorkers(folder, ray, slots, native)
    if slots is None:
        # Programs that share a device wait for each other or run out of memory.
        slots = 1 if on_device(folder.envs) else available_cores()
    if not folder.search:
        slots = min(slots, len(folder.runs))  # a single worker may use all cores
    return LocalWorkers(folder, slots, native)


def _names(envs: Sequence[str]) -> list[str]:
    """Full names of the environments. Raises InputError if one cannot be made.

    JAX starts on the CPU if it has not started yet: otherwise this process would hold the GPU's
    memory, which the workers need. Afterwards the choice is free again for a caller in Python,
    except where JAX has started, as some packages of environments make it do: environments of
    longrun are only traced.
    """
    before = jax.config.jax_platforms  # type: ignore[attr-defined]
    if any(map(is_native, envs)):
        jax.config.update("jax_platforms", "cpu")
    try:
        return [open_env(env).name for env in envs]
    finally:
        jax.config.update("jax_platforms", before)


def on_device(envs: Sequence[str]) -> bool:
    """Whether some environments are JAX-native and JAX has a GPU or TPU.

    Replicas are then joined into one program, which a device runs in about the time of one of them.
    On a CPU one process for each run is faster (docs/decisions/024).
    """
    return any(map(is_native, envs)) and default_backend() != "cpu"


@cache
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
