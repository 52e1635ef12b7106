"""Settings: replicas of runs and sweeps that differ in their seeds alone."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from longrun.base.errors import FolderError, warn
from longrun.lab.results.labels import env_names, labels_of, names_of, numbers_first
from longrun.learning.envs.spaces import Array
from longrun.learning.options.config import Config
from longrun.learning.runs.run_folder import RunFolder
from longrun.learning.runs.spec import RunSpec

Paths = str | Path | Sequence[str | Path]
"""One or several run folders, sweep folders, or folders of these."""
PLACES = ("config.json", "*/config.json", "runs/*/config.json", "*/runs/*/config.json")
"""Where a run's description is in a run folder, a sweep folder or a folder of these."""


@dataclass(frozen=True)
class SettingReplica:
    """One seed of a setting, and where its files are."""

    run: Path
    """the run folder"""
    index: int
    """number of the replica within the run"""
    seed: int


@dataclass(frozen=True)
class Setting:
    """The curves of replicas that differ in their seeds alone, of one run or of many."""

    env: str
    """the environment's name, and what distinguishes it from others of that name"""
    label: str
    """the name that the user gave; or algorithm, what differs from its preset, and what differs
    between the settings found"""
    config: Config
    """the options, without `costs`, which change nothing that is learned"""
    preset: str
    """what the options were made from"""
    replicas: tuple[SettingReplica, ...]
    """where each seed's files are; all seeds are different"""
    steps: Array = field(default_factory=lambda: np.zeros(0, int))
    """[K], those at which all seeds have a row"""
    values: dict[str, Array] = field(default_factory=dict)
    """[K, seeds] for each column"""

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(replica.seed for replica in self.replicas)

    @property
    def key(self) -> tuple[str, str]:
        """What no other setting of a scan shares."""
        return self.env, self.label


class FoundRun(NamedTuple):
    """A run folder that was found."""

    path: Path
    source: Path
    """the sweep that it belongs to, or itself"""
    given: Path
    """where it was found"""
    spec: RunSpec
    content: dict[str, Any]
    """all of config.json, which also says where and how the run was made"""


class Scan(NamedTuple):
    """Runs that were found at some paths, and their settings, of which nothing is read yet."""

    runs: list[FoundRun]
    settings: list[Setting]


@dataclass
class _Place:
    """A replica on its way to a setting."""

    run: FoundRun
    index: int
    env: str
    config: Config
    label: str = ""

    @property
    def seed(self) -> int:
        return self.run.spec.seeds[self.index]


def scan(paths: Paths) -> Scan:
    """Find all runs once, and group their replicas into settings.

    The same setting with the same seed from two places is two settings, which have the place's name
    in their labels: these may be two versions of a program, and are no independent seeds. What is
    not known to be the same environment is two tasks.
    """
    runs = find_runs([Path(p) for p in ([paths] if isinstance(paths, str | Path) else paths)])
    envs = env_names({run.path: (run.spec, run.content["env_source"]) for run in runs})
    places = [
        _Place(run, index, envs[run.path], replace(config, costs=()))
        for run in runs
        for index, config in enumerate(run.spec.configs)
    ]
    choices = [(place.config, place.run.spec.preset) for place in places]
    labels = labels_of(choices, [place.run.spec.name for place in places])
    for place, label in zip(places, labels, strict=True):
        place.label = label
    _keep_apart(places)
    groups: dict[tuple[str, str], list[_Place]] = {}
    for place in places:
        groups.setdefault((place.env, place.label), []).append(place)
    return Scan(runs, [_setting(group) for group in _in_order(list(groups.values()))])


def _setting(places: Sequence[_Place]) -> Setting:
    by_seed = {p.seed: SettingReplica(p.run.path, p.index, p.seed) for p in places}
    replicas = tuple(by_seed[seed] for seed in sorted(by_seed))
    first = places[0]
    return Setting(first.env, first.label, first.config, first.run.spec.preset, replicas)


def _keep_apart(places: Sequence[_Place]) -> None:
    """Add where they are to labels of places that have the same setting and seed."""
    for level in ("source", "path"):
        counts = Counter((p.env, p.label, p.seed) for p in places)
        homes: dict[str, set[Path]] = {}
        for p in places:
            homes.setdefault(p.label, set()).add(getattr(p.run, level))
        repeated = {label for (_, label, _), count in counts.items() if count > 1}
        apart = {label for label in repeated if len(homes[label]) > 1}
        names = names_of({home for label in apart for home in homes[label]})
        for p in places:
            if p.label in apart:
                p.label = f"{names[getattr(p.run, level)]}: {p.label}"


def _in_order(settings: list[list[_Place]]) -> list[list[_Place]]:
    """The settings as they were given and found; those of one path and algorithm by their labels.

    Labels of a grid name the same options. That of an ablation which names the fewest is what all
    others change, and comes first.
    """

    def group(places: list[_Place]) -> tuple[object, ...]:
        first = places[0]
        return first.run.given, first.env, first.config.algorithm, first.run.spec.preset

    groups = list(dict.fromkeys(map(group, settings)))

    def order(places: list[_Place]) -> tuple[object, ...]:
        label = places[0].label
        pairs = (word.partition("=") for word in label.split())
        values = [(name, *numbers_first(value)) for name, _, value in pairs]
        return groups.index(group(places)), label.count("="), values

    return sorted(settings, key=order)


def find_runs(paths: Sequence[Path]) -> list[FoundRun]:
    """The runs of run folders, of sweep folders, or of folders that hold these; each run once.

    A run folder that was given and cannot be read is a FolderError. Within another folder it is a
    warning: one damaged run must not hide the others.
    """
    found: dict[Path, FoundRun] = {}
    for given in paths:
        inside = [file.parent for pattern in PLACES for file in given.glob(pattern)]
        if not inside:
            raise FolderError(
                f"'{given}' is not a run folder and not a sweep folder, or has no runs yet: there"
                " is no config.json in it, in its runs/ or in any folder in it"
            )
        for path in [given] if given in inside else sorted(inside, key=_by_name):
            sweep = path.parent.parent
            inside_sweep = path.parent.name == "runs" and (sweep / "sweep.json").exists()
            source = sweep if inside_sweep and path != given else path
            try:
                run = FoundRun(path, source, given, *RunFolder(path).read_config())
            except ValueError as error:
                if path == given:
                    raise
                warn(f"{error}; the run is left out")
            else:
                found.setdefault(path.resolve(), run)
    if not found:
        raise FolderError(f"'{paths[0]}' has no run that can be read")
    return list(found.values())


def _by_name(path: Path) -> list[tuple[int, str]]:
    """Numbers in a name count by their value: 2 before 10."""
    pieces = re.split(r"(\d+)", str(path))
    return [(int(piece), "") if piece.isdigit() else (-1, piece) for piece in pieces]
