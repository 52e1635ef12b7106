"""From what was asked to a sweep that runs: checks it whole, makes the folder, starts workers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longrun.config import PRESETS, known, make_config, whole_number
from longrun.experiments.sweeps.drive import Outcome, Sweep
from longrun.experiments.sweeps.folder import SweepFolder
from longrun.experiments.sweeps.grids import Options, Range
from longrun.experiments.sweeps.live import Live
from longrun.experiments.sweeps.local import LocalWorkers, Workers
from longrun.experiments.sweeps.plan import (
    Block,
    is_native,
    mine,
    require_known,
    runs_of,
    settings_for,
)
from longrun.experiments.sweeps.search import (
    OptunaSearch,
    Space,
    Study,
    read_studies,
    written_studies,
)
from longrun.train.job import available_cores, name_of, open_env

METHODS = ("grid", "random", "optuna")


@dataclass(frozen=True)
class Request:
    """A sweep as its user describes it."""

    algorithms: Sequence[str]
    envs: Sequence[str]
    steps: int
    seeds: Sequence[int]
    preset: str
    fixed: Options
    """options that are the same in all settings; each for the algorithms that have it"""
    lists: Mapping[str, Sequence[Any]]
    ranges: Mapping[str, Range]
    search: str
    trials: int | None
    evaluation: Mapping[str, int]


def begin(request: Request, path: Path) -> SweepFolder:
    """The sweep's folder, new or to go on with; nothing is written if anything is wrong."""
    _require_sound(request)
    envs = [name_of(open_env(env).env) for env in request.envs]
    blocks = [
        Block(
            algorithm,
            env,
            _settings(request, algorithm),
            request.steps,
            list(request.seeds),
            request.preset,
            request.evaluation,
        )
        for env in envs
        for algorithm in request.algorithms
    ]
    if request.search != "optuna":
        return SweepFolder.create(path, runs_of(blocks))
    studies = [
        Study(block, _space(request, block.algorithm), request.trials or 20) for block in blocks
    ]
    folder = _optuna_folder(path, studies)
    OptunaSearch(path, studies)  # its package and its journal are there
    return folder


def go_on(path: Path) -> SweepFolder:
    return SweepFolder.open(path)


def run_sweep(
    folder: SweepFolder,
    workers: int | None = None,
    ray: str | None = None,
    retries: int = 1,
    quiet: bool = False,
) -> int:
    """Train what is left; the exit status is 1 where a run failed."""
    from longrun.experiments.sweeps.ending import show_ending

    outcome, search = train_all(folder, workers, ray, retries, quiet)
    show_ending(folder, outcome, search)
    return 1 if outcome.failures else 0


def train_all(
    folder: SweepFolder,
    workers: int | None = None,
    ray: str | None = None,
    retries: int = 1,
    quiet: bool = False,
) -> tuple[Outcome, OptunaSearch | None]:
    retries = whole_number("retries", retries)
    slots = None if workers is None else whole_number("workers", workers, 1)
    studies = read_studies(folder.path)
    search = OptunaSearch(folder.path, studies) if studies else None
    with folder.locked():
        places = _workers(folder, slots, ray, [study.block.env for study in studies])
        where = f"{places.slots} at once" + (f" on Ray {ray}" if ray else "")
        print(f"sweep in {folder.path}: {len(folder.runs)} runs, {where}", flush=True)
        live = Live(f"sweep {folder.path}", wanted=False if quiet else None, log=not quiet)
        try:
            return Sweep(folder, places, live, retries, search).run(), search
        except KeyboardInterrupt:
            again = f"; longrun sweep --resume --out {folder.path} goes on"
            raise KeyboardInterrupt(again) from None


def _workers(
    folder: SweepFolder, slots: int | None, ray: str | None, envs: Sequence[str]
) -> Workers:
    native = any(is_native(env) for env in [*envs, *(run.env for run in folder.runs)])
    if ray is not None:
        from longrun.experiments.sweeps.cluster import RayWorkers

        return RayWorkers(folder, ray, slots, native)
    if slots is None:
        # A device is one place: programs that share it wait for each other or run out of memory.
        slots = 1 if native and _backend() != "cpu" else available_cores()
    return LocalWorkers(folder, slots, native)


def _backend() -> str:
    """JAX's, asked for in another process: in this one it would hold the device from then on."""
    code = "import jax; print(jax.default_backend())"
    return (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False
        ).stdout.strip()
        or "cpu"
    )


def _require_sound(request: Request) -> None:
    known("preset", request.preset, PRESETS)
    known("--search", request.search, METHODS)
    require_known(request.algorithms, [*request.lists, *request.ranges])
    if len(set(request.algorithms)) < len(request.algorithms):
        raise ValueError("an algorithm is named twice; name each once")
    if len(set(request.envs)) < len(request.envs):
        raise ValueError("--env names an environment twice; name each once")
    for name in [*request.lists, *request.ranges]:
        if name.rpartition(".")[2] in request.fixed:
            flag = "--" + name.rpartition(".")[2].replace("_", "-")
            raise ValueError(f"{flag} contradicts {name} in the grid; give one of the two")
        if name in request.lists and name in request.ranges:
            raise ValueError(f"--grid and --range both name {name}; give one of the two")
    if request.search == "grid":
        if request.ranges:
            raise ValueError("--range needs --search random or --search optuna")
        if request.trials is not None:
            raise ValueError("--trials needs --search random or --search optuna")
    elif not request.lists and not request.ranges:
        raise ValueError(f"--search {request.search} needs --range or --grid to search in")
    if request.trials is not None:
        whole_number("trials", request.trials, 1)
    if request.search == "optuna" and request.evaluation.get("eval_every") == 0:
        raise ValueError("--search optuna needs evaluations; leave out --no-eval")


def _settings(request: Request, algorithm: str) -> list[Options]:
    """What differs from the preset, in each setting of one algorithm."""
    if request.search == "grid":
        return settings_for(algorithm, request.lists, request.fixed)
    fixed = mine(algorithm, request.fixed)
    if request.search == "optuna":
        make_config(algorithm, request.preset, **fixed)
        return [fixed]
    points = _space(request, algorithm).draw(request.trials or 20, request.seeds[0])
    return [{**fixed, **point} for point in points]


def _space(request: Request, algorithm: str) -> Space:
    return Space(mine(algorithm, request.lists), mine(algorithm, request.ranges))


def _optuna_folder(path: Path, studies: Sequence[Study]) -> SweepFolder:
    """New, or the same search gone on with."""
    wanted = written_studies(studies)
    if not (path / "sweep.json").exists():
        return SweepFolder.create(path, [], search=wanted)
    if written_studies(read_studies(path)) != wanted:
        raise ValueError(
            f"'{path}' holds another sweep; choose another --out, or go on with longrun sweep"
            f" --resume --out {path}"
        )
    return SweepFolder.open(path)
