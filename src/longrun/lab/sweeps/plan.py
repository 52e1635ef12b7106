"""The runs of a sweep, by the names of their folders.

A run has one replica. Where several replicas train faster in one compiled program (JAX-native
environments on a GPU or TPU), `named` joins those that differ only in their seeds and numeric
options.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from longrun.base.checks import MOST_STEPS, whole_number
from longrun.base.errors import InputError
from longrun.lab.sweeps.grids import Options, written
from longrun.learning.envs.native.protocol import is_native
from longrun.learning.options.config import Config, numeric_fields
from longrun.learning.options.presets import DEFAULT
from longrun.learning.runs.spec import RunSpec, difference

LONGEST_NAME = 120


class Setting(NamedTuple):
    """What is trained with every seed."""

    env: str
    config: Config
    preset: str
    """what the configuration was made from"""
    tried: Options
    """what the folders of its runs are named after"""


class Planned(NamedTuple):
    """A run of one replica that is not in a sweep's folder yet."""

    words: tuple[str, ...]
    """environment, algorithm, preset unless it is the default, tried options, seed"""
    spec: RunSpec

    @property
    def name(self) -> str:
        return folder_name(self.words)


def runs_of(
    settings: Sequence[Setting], seeds: Sequence[int], steps: int, **evaluation: Any
) -> list[Planned]:
    """One run for each setting and seed: all with the first seed, then the second, ...

    In that order a sweep that is stopped early has results for every setting. Raises InputError.
    """
    about = {"steps": whole_number("steps", steps, 1, MOST_STEPS), "num_workers": 0, **evaluation}
    runs = [
        Planned(
            (*_words(setting), f"seed{seed}"),
            RunSpec(env=env, configs=(config,), seeds=(seed,), preset=preset, **about),
        )
        for seed in seeds
        for setting in settings
        for env, config, preset, _ in [setting]
    ]
    names = [run.name for run in runs]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"the sweep holds '{twice}' twice; list each value and environment once")
    return runs


def _words(setting: Setting) -> list[str]:
    env, config, preset, tried = setting
    about = [env, config.algorithm, *([] if preset == DEFAULT else [preset])]
    return [*about, *(f"{option}={written(tried[option])}" for option in sorted(tried))]


def folder_name(words: Sequence[str]) -> str:
    """The words as a name that file systems take; the last one is always part of it."""
    name = re.sub(r"[^\w.=+-]+", "-", "_".join(words), flags=re.ASCII)
    if len(name) <= LONGEST_NAME:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{name[: LONGEST_NAME - 20]}_{digest}_{words[-1]}"


def named(
    runs: Sequence[Planned], batched: bool = False, taken: Collection[str] = ()
) -> dict[str, RunSpec]:
    """The runs by name. If `batched`, those that fit into one compiled program are one run.

    `taken` are names of other runs, which no joined run gets.
    """
    programs: dict[str, list[Planned]] = {}
    for run in runs:
        programs.setdefault(_program(run) if batched else run.name, []).append(run)
    found: dict[str, RunSpec] = {}
    for joined in programs.values():
        first, *more = joined
        if not more:
            found[first.name] = first.spec
            continue
        shared = [w for w in first.words[:-1] if all(w in run.words[:-1] for run in more)]
        count = f"{len(joined)}-replicas"
        numbered = (f"{count}-{i}" for i in itertools.count(2))
        names = (folder_name([*shared, last]) for last in itertools.chain([count], numbered))
        name = next(name for name in names if name not in taken and name not in found)
        configs = tuple(run.spec.configs[0] for run in joined)
        seeds = tuple(run.spec.seeds[0] for run in joined)
        found[name] = replace(first.spec, configs=configs, seeds=seeds)
    return found


def _program(run: Planned) -> str:
    """What runs have in common that fit into one compiled program: all but the numeric options.

    Of limits the names count; a run that is no program by itself has its own name.
    """
    if not is_native(run.spec.env):
        return run.name
    [config] = run.spec.configs
    content = run.spec.as_json()
    shape = {n: v for n, v in content["options"].items() if n not in numeric_fields(config)}
    shape["limits"] = [cost for cost, _ in config.limits]
    return json.dumps(content | {"options": shape, "replicas": None})


def apart(spec: RunSpec) -> list[RunSpec]:
    """The runs of one replica that a run consists of."""
    replicas = zip(spec.configs, spec.seeds, strict=True)
    return [replace(spec, configs=(config,), seeds=(seed,)) for config, seed in replicas]


def grown(
    there: Mapping[str, RunSpec], runs: Sequence[Planned], batched: bool
) -> dict[str, RunSpec]:
    """The runs of a folder with more steps, and those that it lacks.

    Raises InputError if a run that is there is not among those requested.
    """
    left = {replace(run.spec, steps=0): run for run in runs}
    requested = named(runs)
    presets = {run.spec.preset for run in runs}
    found: dict[str, RunSpec] = {}
    for name, spec in there.items():
        steps = spec.steps
        for single in apart(spec):
            heir = left.pop(replace(single, steps=0), None)
            here = heir.spec if heir else requested.get(name)
            if why := _refusal(single, here, presets):
                raise InputError(f"'{name}' {why}")
            assert here is not None
            steps = max(steps, here.steps)
        found[name] = replace(spec, steps=steps)
    new = named(list(left.values()), batched, taken=found)
    if other := next((name for name in new if name in found), None):
        raise InputError(f"'{other}' is a run with other options")
    return found | new


def _refusal(there: RunSpec, here: RunSpec | None, presets: Collection[str]) -> str:
    """Why a run of the folder is not the requested one with other steps; "" if it is."""
    if there.preset not in presets:
        return f"has preset={there.preset}, not {', '.join(presets)}"
    if here is None:
        return "is not part of this one"
    shorter, longer = sorted((there, here), key=lambda run: run.steps)
    if shorter.may_become(longer):
        return ""
    why = difference(there.as_json(), here.as_json())
    hint = " (a run that decays, or whose lambda adapts only if it is longer, cannot be extended)"
    return f"has {why}{hint if why.startswith('steps=') and shorter is there else ''}"
