"""A sweep as its user describes it, checked whole before anything starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from longrun.config import known, whole_number
from longrun.errors import InputError
from longrun.presets import PRESETS
from longrun.sweeps.grids import Options, Range
from longrun.sweeps.optuna_search import Space, Study
from longrun.sweeps.plan import Block, is_native, mine, require_known, settings_for
from longrun.train.loops import open_env

METHODS = ("grid", "random", "optuna")
TRIALS = 20


@dataclass(frozen=True)
class Request:
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

    def space(self, algorithm: str) -> Space:
        return Space(mine(algorithm, self.lists), mine(algorithm, self.ranges))


def blocks_of(request: Request) -> list[Block]:
    """One for each algorithm on each environment; a ValueError if anything is wrong."""
    _require_sound(request)
    return [
        Block(
            algorithm,
            env,
            _settings(request, algorithm),
            request.steps,
            list(request.seeds),
            request.preset,
            request.evaluation,
            mine(algorithm, request.fixed),
        )
        for env in _names(request.envs)
        for algorithm in request.algorithms
    ]


def studies_of(request: Request, on_device: bool) -> list[Study]:
    """The searches that Optuna is to make."""
    studies = [
        Study(
            block,
            request.space(block.algorithm),
            request.trials or TRIALS,
            batched=on_device and is_native(block.env),
        )
        for block in blocks_of(request)
    ]
    for study in studies:
        for corner in study.space.corners():
            study.runs(0, corner)
    return studies


def _names(envs: Sequence[str]) -> list[str]:
    """What the environments are called in full; that they can be made is seen on the way."""
    if any(map(is_native, envs)):
        # This process would hold a GPU's memory from then on, and the workers need it.
        jax.config.update("jax_platforms", "cpu")
    return [open_env(env).name for env in envs]


def _settings(request: Request, algorithm: str) -> list[Options]:
    """What is tried with one algorithm; Optuna comes up with it later."""
    if request.search == "grid":
        return settings_for(algorithm, request.lists)
    if request.search == "optuna":
        return []
    return request.space(algorithm).draw(request.trials or TRIALS, request.seeds[0])


def _require_sound(request: Request) -> None:
    known("preset", request.preset, PRESETS)
    known("--search", request.search, METHODS)
    for name, value in request.evaluation.items():
        whole_number(name, value, 1 if name == "eval_steps" else 0)
    require_known(request.algorithms, [*request.lists, *request.ranges])
    for what, names in (("an algorithm", request.algorithms), ("--env", request.envs)):
        if twice := [name for name in names if list(names).count(name) > 1]:
            raise InputError(f"{what} is named twice: {twice[0]}; name each once")
    _require_consistent(request)
    if request.search == "grid":
        given = {"--range": bool(request.ranges), "--trials": request.trials is not None}
        for flag in given:
            if given[flag]:
                raise InputError(f"{flag} needs --search random or --search optuna")
        return
    whole_number("trials", TRIALS if request.trials is None else request.trials, 1)
    for algorithm in request.algorithms:
        space = request.space(algorithm)
        if not space.lists and not space.ranges:
            raise InputError(
                f"--search {request.search} has nothing to search in for {algorithm}; give --range"
                " or --grid of an option that it has"
            )
    if request.search == "optuna" and request.evaluation.get("eval_every") == 0:
        raise InputError("--search optuna needs evaluations; leave out --no-eval")


def _require_consistent(request: Request) -> None:
    """Nothing is given twice."""
    for name in [*request.lists, *request.ranges]:
        option = name.rpartition(".")[2]
        if option in request.fixed:
            flag = "--" + option.replace("_", "-")
            raise InputError(f"{flag} contradicts {name} in the grid; give one of the two")
    for algorithm in request.algorithms:
        space = request.space(algorithm)
        if both := [name for name in space.lists if name in space.ranges]:
            raise InputError(f"--grid and --range both name {both[0]}; give one of the two")
