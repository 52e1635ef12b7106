"""The plan of a sweep: named runs, all checked before the first starts.

A `PlannedRun` becomes one run folder. It has one replica. Where several replicas train faster in
one compiled program (JAX-native environments on a GPU or TPU), `together` joins those that differ
only in their seeds and numeric options.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from longrun.base.checks import MOST_STEPS, STEP_TIMEOUT, known, whole_number
from longrun.base.errors import InputError
from longrun.lab.sweeps.grids import Options, written
from longrun.learning.envs.native.lookup import is_native
from longrun.learning.options.config import Config, kind_of, numeric_fields
from longrun.learning.options.config_options import make_config, why_unknown, written_options
from longrun.learning.options.presets import DEFAULT
from longrun.learning.runs.spec import RunSpec

LONGEST_NAME = 120


@dataclass(frozen=True)
class PlannedRun:
    """One run folder of a sweep, as sweep.json describes it."""

    name: str
    env: str
    algorithm: str
    preset: str
    options: Options
    """Tried options, the same for all replicas."""
    replicas: tuple[Mapping[str, Any], ...]
    """The seed of each, and the options that differ between them."""
    steps: int
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """eval_every and eval_steps, if given."""
    fixed: Options = dataclasses.field(default_factory=dict)
    """Other options that differ from the preset, the same in all runs of a sweep."""

    def configs(self) -> list[Config]:
        """The configuration of each replica."""
        return [
            make_config(
                self.algorithm,
                self.preset,
                **{**self.fixed, **self.options, **_tried(replica)},
            )
            for replica in self.replicas
        ]

    def spec(self, step_timeout: float = STEP_TIMEOUT) -> RunSpec:
        """The description that a worker follows."""
        return RunSpec(
            env=self.env,
            configs=tuple(self.configs()),
            seeds=tuple(self.seeds),
            steps=self.steps,
            preset=self.preset,
            num_workers=0,
            step_timeout=step_timeout,
            **self.settings,
        )

    @property
    def seeds(self) -> list[int]:
        return [replica["seed"] for replica in self.replicas]

    @property
    def all_steps(self) -> int:
        """Steps of all replicas together."""
        return self.steps * len(self.replicas)

    @property
    def identity(self) -> str:
        """What is trained, without the number of steps and the evaluations.

        An option that has the preset's value may be given or not.
        """
        options = [written_options(config) for config in self.configs()]
        about = [self.env, self.algorithm, self.preset, options, self.seeds]
        return json.dumps(about, sort_keys=True)

    def as_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> PlannedRun:
        return cls(**{**content, "replicas": tuple(content["replicas"])})


def _tried(replica: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in replica.items() if name != "seed"}


@dataclass(frozen=True)
class Block:
    """Every seed of every setting of one algorithm on one environment."""

    algorithm: str
    env: str
    settings: Sequence[Options]
    """Tried options of each setting."""
    steps: int
    seeds: Sequence[int]
    preset: str = DEFAULT
    evaluation: Mapping[str, int] = dataclasses.field(default_factory=dict)
    fixed: Options = dataclasses.field(default_factory=dict)
    """Other options, the same in all settings."""


def runs_of(blocks: Sequence[Block]) -> list[PlannedRun]:
    """One checked run for each setting and seed: all with the first seed, then the second, ...

    In that order a sweep that is stopped early has results for every setting. Raises InputError.
    """
    runs: list[tuple[int, PlannedRun]] = []
    for block in blocks:
        for options in block.settings:
            make_config(block.algorithm, block.preset, **{**block.fixed, **options})
            runs += enumerate(_run(block, options, seed) for seed in block.seeds)
    ordered = [run for _, run in sorted(runs, key=lambda placed: placed[0])]
    names = [run.name for run in ordered]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"the sweep holds '{twice}' twice; list each value and environment once")
    return ordered


def _run(block: Block, options: Options, seed: int) -> PlannedRun:
    name = run_name(block.env, block.algorithm, block.preset, options, f"seed{seed}")
    return PlannedRun(
        name=name,
        env=block.env,
        algorithm=block.algorithm,
        preset=block.preset,
        options=dict(options),
        replicas=({"seed": whole_number("seed", seed)},),
        steps=whole_number("steps", block.steps, 1, MOST_STEPS),
        settings=dict(block.evaluation),
        fixed=dict(block.fixed),
    )


def run_name(env: str, algorithm: str, preset: str, options: Options, last: str) -> str:
    """The name of a run folder: environment, algorithm, preset, options and `last`.

    The default preset is left out.
    """
    words = [env, algorithm, *([] if preset == DEFAULT else [preset])]
    words += [f"{option}={written(options[option])}" for option in sorted(options)]
    name = re.sub(r"[^\w.=+-]+", "-", "_".join([*words, last]), flags=re.ASCII)
    if len(name) <= LONGEST_NAME:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{name[: LONGEST_NAME - 20]}_{digest}_{last}"


def together(runs: Sequence[PlannedRun], taken: Sequence[str] = ()) -> list[PlannedRun]:
    """Join runs on JAX-native environments whose replicas fit into one compiled program.

    `taken` are names of other runs.
    """
    batches: dict[str, list[PlannedRun]] = {}
    for run in runs:
        program = _program_options(run.configs()[0])
        same = (run.env, run.algorithm, run.preset, program, run.fixed, run.steps, run.settings)
        batches.setdefault(repr(same) if is_native(run.env) else run.name, []).append(run)
    joined: list[PlannedRun] = []
    for batch in batches.values():
        names = [*taken, *(run.name for run in joined)]
        joined.append(_batch(batch, names) if len(batch) > 1 else batch[0])
    return joined


def _program_options(config: Config) -> dict[str, Any]:
    """What shapes the compiled program: all options but the numeric ones, of limits the names.

    Of the whole configuration, since an option that is given may change another one of the preset.
    """
    options = dataclasses.asdict(config) | {"limits": [name for name, _ in config.limits]}
    return {name: options[name] for name in options if name not in numeric_fields(config)}


def _batch(runs: Sequence[PlannedRun], taken: Sequence[str]) -> PlannedRun:
    """One run of all replicas; its name is none of those `taken`."""
    first = runs[0]
    shared = {
        name: value
        for name, value in first.options.items()
        if all(name in run.options and run.options[name] == value for run in runs)
    }
    replicas = [
        dict(run.replicas[0]) | {n: v for n, v in run.options.items() if n not in shared}
        for run in runs
    ]
    about = (first.env, first.algorithm, first.preset, shared)
    more = itertools.chain([""], (f"-{i}" for i in itertools.count(2)))
    names = (run_name(*about, f"{len(runs)}-replicas{which}") for which in more)
    name = next(name for name in names if name not in taken)
    return dataclasses.replace(first, name=name, options=shared, replicas=tuple(replicas))


def apart(run: PlannedRun) -> list[PlannedRun]:
    """The runs that `together` has joined, except that their names are lost."""
    return [
        dataclasses.replace(
            run, options={**run.options, **_tried(r)}, replicas=({"seed": r["seed"]},)
        )
        for r in run.replicas
    ]


def settings_for(algorithm: str, grid: Mapping[str, Sequence[Any]]) -> list[Options]:
    """Every point of the grid, restricted to the options that the algorithm has."""
    axes = options_for(algorithm, grid)
    points = itertools.product(*([(name, value) for value in axes[name]] for name in axes))
    return [dict(point) for point in points]


def ablations_for(
    algorithm: str, preset: str, fixed: Options, grid: Mapping[str, Sequence[Any]]
) -> list[Options]:
    """No change, and each value of the grid alone; values that change nothing are left out."""
    axes = options_for(algorithm, grid)
    changes = [{name: value} for name, values in axes.items() for value in values]
    usual = make_config(algorithm, preset, **fixed)
    return [
        {},
        *(each for each in changes if make_config(algorithm, preset, **{**fixed, **each}) != usual),
    ]


def options_for(algorithm: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options that the algorithm has. `ppo.discount` is for PPO alone and overrides `discount`."""
    own = {f.name for f in dataclasses.fields(kind_of(algorithm))}
    split = {name: name.rpartition(".") for name in sorted(options, key=lambda n: "." in n)}
    return {
        option: options[name]
        for name, (owner, _, option) in split.items()
        if option in own and owner in ("", algorithm)
    }


def require_known(algorithms: Sequence[str], names: Sequence[str]) -> None:
    """Raise InputError unless each name is an option of one of the algorithms.

    A name with a prefix, as in `ppo.discount`, must be an option of that algorithm.
    """
    for name in names:
        algorithm, dot, option = name.rpartition(".")
        if dot and algorithm not in algorithms:
            listed = ", ".join(algorithms)
            raise InputError(f"'{name}' is not for an algorithm of this sweep; it has {listed}")
        kinds = [algorithm] if dot else algorithms
        options = dict.fromkeys(f.name for kind in kinds for f in dataclasses.fields(kind_of(kind)))
        what = f"option of {', '.join(kinds).upper()}"
        if why := why_unknown(option, kinds):
            raise InputError(f"unknown {what} '{option}'; {why}")
        known(what, option, options)
