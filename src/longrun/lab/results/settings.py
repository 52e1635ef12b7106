"""Settings: replicas of runs and sweeps that differ in their seeds alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from longrun.lab.results.labels import Choice, env_names, labels_of, names_of, numbers_first
from longrun.lab.results.run_files import FoundRun, find_runs
from longrun.learning.envs.spaces import Array

Paths = str | Path | Sequence[str | Path]
"""One or several run folders, sweep folders, or folders of these."""


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
    choice: Choice
    """algorithm, preset and all options that change what is learned"""
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


class Scan(NamedTuple):
    """Runs that were found at some paths, and their settings, of which nothing is read yet."""

    runs: list[FoundRun]
    settings: list[Setting]


@dataclass
class _Place:
    """A replica on its way to a setting."""

    run: FoundRun
    index: int
    seed: int
    choice: Choice
    env: str
    label: str

    def home(self, level: str) -> Path:
        return self.run.source if level == "sweep" else self.run.path


def scan(paths: Paths) -> Scan:
    """Find all runs once, and group their replicas into settings.

    The same setting with the same seed from two places is two settings, which have the place's name
    in their labels: these may be two versions of a program, and are no independent seeds. What is
    not known to be the same environment is two tasks.
    """
    given = [Path(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]
    runs = find_runs(given)
    envs = env_names(runs)
    replicas = [(run, *pair) for run in runs for pair in enumerate(run.config["replicas"])]
    choices = [Choice.of(run.config, replica) for run, _, replica in replicas]
    labels = labels_of(choices, [run.config.get("name", "") for run, _, _ in replicas])
    places = [
        _Place(run, index, int(replica["seed"]), choice, envs[run.path], label)
        for (run, index, replica), choice, label in zip(replicas, choices, labels, strict=True)
    ]
    _keep_apart(places)
    groups: dict[tuple[str, str], list[_Place]] = {}
    for place in places:
        groups.setdefault((place.env, place.label), []).append(place)
    settings = []
    for (env, label), group in groups.items():
        by_seed = {p.seed: SettingReplica(p.run.path, p.index, p.seed) for p in group}
        own = tuple(by_seed[seed] for seed in sorted(by_seed))
        settings.append(Setting(env, label, group[0].choice, own))
    return Scan(runs, _in_order(settings, given))


def _keep_apart(places: Sequence[_Place]) -> None:
    """Add where they are to labels of places that have the same setting and seed."""
    for level in ("sweep", "run"):
        counts = Counter((p.env, p.label, p.seed) for p in places)
        homes: dict[str, set[Path]] = {}
        for p in places:
            homes.setdefault(p.label, set()).add(p.home(level))
        repeated = {label for (_, label, _), count in counts.items() if count > 1}
        apart = {label for label in repeated if len(homes[label]) > 1}
        names = names_of({home for label in apart for home in homes[label]})
        for p in places:
            if p.label in apart:
                p.label = f"{names[p.home(level)]}: {p.label}"


def _in_order(settings: list[Setting], given: Sequence[Path]) -> list[Setting]:
    """The settings as they were given and found; those of one path and algorithm by their labels.

    Labels of a grid name the same options. That of an ablation which names the fewest is what all
    others change, and comes first.
    """
    roots = [path.resolve() for path in given]

    def group(setting: Setting) -> tuple[object, ...]:
        run = setting.replicas[0].run.resolve()
        root = next((k for k, path in enumerate(roots) if run.is_relative_to(path)), len(roots))
        return root, setting.env, *setting.choice[:2]

    def values(label: str) -> list[tuple[str, float, str]]:
        pairs = (word.partition("=") for word in label.split())
        return [(name, *numbers_first(value)) for name, _, value in pairs]

    groups = list(dict.fromkeys(map(group, settings)))
    return sorted(
        settings, key=lambda s: (groups.index(group(s)), s.label.count("="), values(s.label))
    )
