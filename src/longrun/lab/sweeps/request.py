"""A sweep as the user requests it, checked before anything starts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import jax

from longrun.base.checks import known, whole_number
from longrun.base.errors import InputError
from longrun.lab.sweeps.grids import Options, Range
from longrun.lab.sweeps.objective import checked_objective
from longrun.lab.sweeps.plan import Block, ablations_for, options_for, require_known, settings_for
from longrun.lab.sweeps.study import Space, Study
from longrun.learning.envs.native.lookup import is_native
from longrun.learning.options.presets import PRESETS
from longrun.learning.train.loops import open_env

METHODS = ("grid", "ablation", "random", "optuna")
SEARCHES = ("random", "optuna")
"""The methods that choose points themselves."""
TRIALS = 20


@dataclass(frozen=True)
class Request:
    """What `longrun sweep` is given, besides where and how to run it."""

    algorithms: Sequence[str]
    envs: Sequence[str]
    steps: int
    seeds: Sequence[int]
    preset: str
    fixed: Options
    """Options that are the same in all settings; each applies to the algorithms that have it."""
    lists: Mapping[str, Sequence[Any]]
    ranges: Mapping[str, Range]
    search: str
    trials: int | None
    evaluation: Mapping[str, int]
    metric: str | None = None
    """What Optuna maximises; None for the default."""
    references: Mapping[str, float] = field(default_factory=dict)
    """A score of each environment: one search then covers all of them."""

    def space(self, algorithm: str) -> Space:
        """The lists and ranges of the options that the algorithm has."""
        return Space(options_for(algorithm, self.lists), options_for(algorithm, self.ranges))


def blocks_of(request: Request) -> list[Block]:
    """One for each algorithm on each environment. Raises InputError if anything is wrong."""
    _check(request)
    return [
        Block(
            algorithm,
            env,
            _settings(request, algorithm),
            request.steps,
            list(request.seeds),
            request.preset,
            request.evaluation,
            options_for(algorithm, request.fixed),
        )
        for env in _names(request.envs)
        for algorithm in request.algorithms
    ]


def studies_of(request: Request, batched: bool) -> list[Study]:
    """One search with Optuna for each algorithm on each environment, or on all of them together.

    Raises InputError if anything is wrong.
    """
    blocks, count = blocks_of(request), len(request.algorithms)
    names = dict(zip(request.envs, (block.env for block in blocks[::count]), strict=True))
    objective = checked_objective(request.metric, request.references, names)
    together = bool(request.references)
    studies = [
        Study(
            block,
            request.space(block.algorithm),
            request.trials or TRIALS,
            batched=batched and any(map(is_native, names if together else [block.env])),
            objective=objective,
        )
        for block in (blocks[:count] if together else blocks)
    ]
    for study in studies:
        for corner in study.space.corners():
            study.runs(0, corner)
    return studies


def _names(envs: Sequence[str]) -> list[str]:
    """Full names of the environments. Raises InputError if one cannot be made."""
    with _on_cpu() if any(map(is_native, envs)) else nullcontext():
        return [open_env(env).name for env in envs]


@contextmanager
def _on_cpu() -> Iterator[None]:
    """Let JAX start on the CPU if it has not started yet.

    Otherwise this process would hold the GPU's memory, which the workers need. Afterwards the
    choice is free again for a caller in Python, except where JAX has started, as some packages of
    environments make it do: environments of longrun are only traced.
    """
    before = jax.config.jax_platforms  # type: ignore[attr-defined]
    jax.config.update("jax_platforms", "cpu")
    try:
        yield
    finally:
        jax.config.update("jax_platforms", before)


def _settings(request: Request, algorithm: str) -> list[Options]:
    """Options to try with one algorithm; none yet for Optuna, which suggests them later."""
    if request.search == "grid":
        return settings_for(algorithm, request.lists)
    if request.search == "ablation":
        fixed = options_for(algorithm, request.fixed)
        return ablations_for(algorithm, request.preset, fixed, request.lists)
    if request.search == "optuna":
        return []
    return request.space(algorithm).draw(request.trials or TRIALS, request.seeds[0])


def _check(request: Request) -> None:
    """Raise InputError if the request is wrong."""
    known("preset", request.preset, PRESETS)
    known("--search", request.search, METHODS)
    for name, value in request.evaluation.items():
        whole_number(name, value, 1 if name == "eval_steps" else 0)
    require_known(request.algorithms, [*request.lists, *request.ranges])
    for what, names in (("an algorithm", request.algorithms), ("--env", request.envs)):
        if twice := [name for name in names if list(names).count(name) > 1]:
            raise InputError(f"{what} is named twice: {twice[0]}; name each once")
    if request.search != "ablation":  # which has one option at a time, in place of a fixed one
        _check_unique(request)
    _check_flags(request)
    if request.search == "ablation" and not request.lists:
        raise InputError("--search ablation needs --grid, with the values to change one at a time")
    if request.search not in SEARCHES:
        return
    whole_number("trials", TRIALS if request.trials is None else request.trials, 1)
    for algorithm in request.algorithms:
        space = request.space(algorithm)
        if not space.lists and not space.ranges:
            raise InputError(
                f"--search {request.search} has nothing to search for {algorithm}; give --range or"
                " --grid of an option that it has"
            )
    if request.search == "optuna" and request.evaluation.get("eval_every") == 0:
        raise InputError("search='optuna' needs evaluations; leave out eval_every=0")


def _check_flags(request: Request) -> None:
    """Raise InputError if something is given that the method of search does not use."""
    searches, optuna = "--search random or --search optuna", "--search optuna"
    chooses = request.search in SEARCHES
    for flag, given, needed, has_it in (
        ("--range", bool(request.ranges), searches, chooses),
        ("--trials", request.trials is not None, searches, chooses),
        ("--metric", request.metric is not None, optuna, request.search == "optuna"),
        ("--reference", bool(request.references), optuna, request.search == "optuna"),
    ):
        if given and not has_it:
            raise InputError(f"{flag} needs {needed}")


def _check_unique(request: Request) -> None:
    """Raise InputError if an option is given twice."""
    for name in [*request.lists, *request.ranges]:
        option = name.rpartition(".")[2]
        if option in request.fixed:
            flag = "--" + option.replace("_", "-")
            raise InputError(f"{flag} contradicts {name} in the grid; give one of the two")
    for algorithm in request.algorithms:
        space = request.space(algorithm)
        if both := [name for name in space.lists if name in space.ranges]:
            raise InputError(f"--grid and --range both name {both[0]}; give one of the two")
