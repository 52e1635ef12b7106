"""What a sweep trains, in the words of `longrun.sweep`: checked before anything starts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, NamedTuple

from longrun.base.checks import known, whole_number
from longrun.base.errors import InputError
from longrun.base.files import as_read
from longrun.lab.results.metric_names import SCORES
from longrun.lab.sweeps.grids import (
    Options,
    Range,
    Space,
    options_for,
    points_of,
    require_different,
)
from longrun.lab.sweeps.plan import Planned, Setting, named, runs_of
from longrun.learning.options.config import ALGORITHMS, Config
from longrun.learning.options.config_options import make_config, own_networks, why_unknown
from longrun.learning.options.presets import DEFAULT, PRESETS
from longrun.learning.runs.spec import DEFAULT_EVAL_STEPS, RunSpec, difference

NEEDS = {
    "trials": ("random", "optuna"),
    "ranges": ("random", "optuna"),
    "metric": ("optuna",),
    "references": ("optuna",),
}
"""Arguments that only these methods of search use."""
METHODS = ("grid", "ablation", "random", "optuna")
TRIALS = 20


class Study(NamedTuple):
    """A search of one algorithm, on one environment or for one setting on several."""

    algorithm: str
    envs: tuple[str, ...]
    space: Space

    @property
    def name(self) -> str:
        return " ".join([self.algorithm, *self.envs])


@dataclass(frozen=True, kw_only=True)
class Design:
    """The arguments of a sweep, as JSON has them. Raises InputError if one is wrong."""

    algorithms: Sequence[str]
    envs: Sequence[str]
    steps: int
    seeds: Sequence[int] = (0,)
    preset: str = DEFAULT
    options: Options = field(default_factory=dict)
    """the same in all settings; each applies to the algorithms that have it"""
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    ranges: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """(low, high) or (low, high, "log")"""
    search: str = "grid"
    trials: int | None = None
    metric: str | None = None
    """what Optuna maximises; None for the average reward"""
    references: Mapping[str, float] = field(default_factory=dict)
    """a score of each environment: one search of Optuna then covers all of them"""
    eval_every: int | None = None
    eval_steps: int = DEFAULT_EVAL_STEPS
    batched: bool = False
    """whether replicas that fit into one compiled program become one run"""

    def __post_init__(self) -> None:
        known("preset", self.preset, PRESETS)
        known("search", self.search, METHODS)
        for name in ("algorithms", "envs", "seeds"):
            require_different(name, getattr(self, name))
        for algorithm in self.algorithms:
            known("algorithm", algorithm, ALGORITHMS)
        for env in self.envs:
            if not isinstance(env, str):
                raise InputError(
                    f"envs={env!r} must be a name, such as 'Swimmer-v5' or 'module:Id': worker"
                    " processes make the environments"
                )
        for name in (*self.options, *self.grid, *self.ranges):
            _require_option(name, self.algorithms)
        if own := own_networks({**self.options, **self.grid}):
            raise InputError(f"{own[0]} is a function, which a sweep cannot send to its processes")
        for name, values in self.grid.items():
            require_different(f"grid of {name}", values)
        for name, given in self.ranges.items():
            Range.of(name, given)
        self._check_search()
        self._check_contradictions()

    def _check_search(self) -> None:
        for name, methods in NEEDS.items():
            if getattr(self, name) not in (None, {}) and self.search not in methods:
                raise InputError(f"{name} needs search={' or search='.join(methods)}")
        if self.search in NEEDS["trials"]:
            trials = whole_number("trials", TRIALS if self.trials is None else self.trials, 1)
            object.__setattr__(self, "trials", trials)
        if self.search == "ablation" and not self.grid:
            raise InputError("search=ablation needs a grid: the values to change one at a time")
        for algorithm in self.algorithms if self.search in NEEDS["trials"] else ():
            if not any(vars(self.space(algorithm)).values()):
                raise InputError(
                    f"search={self.search} has nothing to search for {algorithm}; give a range or"
                    " a grid of an option that it has"
                )
        if self.search == "optuna" and self.eval_every == 0:
            raise InputError("search=optuna needs evaluations, and eval_every=0 has none")
        if self.metric is not None:
            known("metric", self.metric, SCORES)
        for env, score in self.references.items():
            if env not in self.envs:
                raise InputError(f"the reference of '{env}' is for none of the environments")
            number = isinstance(score, int | float) and not isinstance(score, bool)
            if not number or not math.isfinite(score) or score == 0:
                raise InputError(f"the reference {env}={score!r} must be a number other than 0")
        if missing := [env for env in self.envs if self.references and env not in self.references]:
            raise InputError(f"{missing[0]} has no reference; give one for each environment")

    def _check_contradictions(self) -> None:
        for name in (*self.grid, *self.ranges) if self.search != "ablation" else ():
            if name.rpartition(".")[2] in self.options:
                raise InputError(f"{name} has a value and a grid or range; give one of the two")
        for algorithm in self.algorithms:
            space = self.space(algorithm)
            if both := [name for name in space.lists if name in space.ranges]:
                raise InputError(f"{both[0]} has a grid and a range; give one of the two")

    def space(self, algorithm: str) -> Space:
        """The lists and ranges of the options that the algorithm has."""
        ranges = {n: Range.of(n, r) for n, r in options_for(algorithm, self.ranges).items()}
        return Space(options_for(algorithm, self.grid), ranges)

    def runs(self) -> list[Planned]:
        """All runs; none yet for Optuna, which suggests them later."""
        tried = {algorithm: self._tried(algorithm) for algorithm in self.algorithms}
        settings = [
            Setting(env, self.config(algorithm, **options), self.preset, options)
            for env in self.envs
            for algorithm in self.algorithms
            for options in tried[algorithm]
        ]
        return self._planned(settings)

    def _planned(self, settings: Sequence[Setting]) -> list[Planned]:
        evaluation = {"eval_every": self.eval_every, "eval_steps": self.eval_steps}
        return runs_of(settings, self.seeds, self.steps, **evaluation)

    def _tried(self, algorithm: str) -> list[Options]:
        """Options to try with one algorithm."""
        space = self.space(algorithm)
        if self.search == "grid":
            return list(points_of(space.lists))
        if self.search == "ablation":
            changes = [{name: value} for name, vs in space.lists.items() for value in vs]
            usual = self.config(algorithm)
            return [{}, *(each for each in changes if self.config(algorithm, **each) != usual)]
        return space.draw(self.trials or 0, self.seeds[0]) if self.search == "random" else []

    def config(self, algorithm: str, **changes: Any) -> Config:
        """The configuration of one algorithm with these changes."""
        fixed = options_for(algorithm, self.options)
        return make_config(algorithm, self.preset, **{**fixed, **changes})

    def studies(self) -> list[Study]:
        """One search with Optuna for each algorithm on each environment, or on all together."""
        together = [tuple(self.envs)] if self.references else [(env,) for env in self.envs]
        return [Study(a, envs, self.space(a)) for envs in together for a in self.algorithms]

    def grown(self, other: Design) -> Design:
        """This search with the trials of another one. Raises InputError if more is different."""
        trials = max(self.trials or 0, other.trials or 0)
        found, wanted = replace(self, trials=trials), replace(other, batched=self.batched)
        if why := difference(as_read(asdict(found)), as_read(asdict(wanted))):
            raise InputError(f"it has {why}")
        return found

    def trial(self, study: Study, number: int, options: Options) -> dict[str, RunSpec]:
        """The runs of one trial by name, which has the trial's number in place of the options."""
        which = {"trial": f"{number:03}"}
        config = self.config(study.algorithm, **options)
        settings = [Setting(env, config, self.preset, which) for env in study.envs]
        return named(self._planned(settings), self.batched)


def _require_option(name: str, algorithms: Sequence[str]) -> None:
    """Raise InputError unless one of the algorithms has the option; in `ppo.discount`, that one."""
    algorithm, dot, option = name.rpartition(".")
    if dot and algorithm not in algorithms:
        listed = ", ".join(algorithms)
        raise InputError(f"'{name}' is not for an algorithm of this sweep; it has {listed}")
    kinds = [algorithm] if dot else algorithms
    what = f"option of {', '.join(kinds).upper()}"
    if why := why_unknown(option, kinds):
        raise InputError(f"unknown {what} '{option}'; {why}")
    known(what, option, {f.name: 0 for kind in kinds for f in fields(ALGORITHMS[kind])})
