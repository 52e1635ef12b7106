"""Which replicas of runs and sweeps belong together: settings, each with its label."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from longrun.lab.results.env_identity import env_names
from longrun.lab.results.labels import Choice, labels_of, named_labels, names_of
from longrun.lab.results.run_files import FoundRun, find_runs
from longrun.learning.options.config_options import value_text

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
class FoundSetting:
    """Replicas that differ in their seeds alone, of one run or of many; nothing is read yet."""

    env: str
    """the environment's name, and what distinguishes it from others of that name"""
    label: str
    """the name that the user gave; or algorithm, what differs from its preset, and what differs
    between the settings found"""
    choice: Choice
    replicas: tuple[SettingReplica, ...]
    """the replicas by seed; all seeds are different"""


@dataclass(frozen=True)
class Scan:
    """Runs and settings that were found at some paths."""

    runs: list[FoundRun]
    settings: list[FoundSetting]


@dataclass(frozen=True)
class _Place:
    """A replica on its way to a setting."""

    run: FoundRun
    index: int
    choice: Choice
    label: str
    env: str

    @property
    def seed(self) -> int:
        return int(self.run.config["replicas"][self.index]["seed"])


def scan(paths: Paths) -> Scan:
    """Find all runs once, and group their replicas into settings.

    The same setting with the same seed from two places is two settings, which have the place's name
    in their labels: these may be two versions of a program, and are no independent seeds. What is
    not known to be the same environment is two tasks.
    """
    given = [Path(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]
    runs = find_runs(given)
    places = [(run, k) for run in runs for k in range(len(run.config["replicas"]))]
    choices = [Choice.of(run.config, run.config["replicas"][k]) for run, k in places]
    envs, names = env_names(runs), [str(run.config.get("name") or "") for run, _ in places]
    labels = named_labels(names, labels_of(choices))
    labelled = zip(places, choices, labels, strict=True)
    groups: dict[tuple[str, str], list[_Place]] = {}
    found = [
        _Place(run, index, choice, label, envs[run.path])
        for (run, index), choice, label in labelled
    ]
    for place in _kept_apart(found):
        groups.setdefault((place.env, place.label), []).append(place)
    return Scan(runs, _in_order([_setting(group) for group in groups.values()], given))


def _in_order(settings: list[FoundSetting], given: Sequence[Path]) -> list[FoundSetting]:
    """The settings as they were given and found; those of one path and algorithm by their options.

    Labels of a grid name the same options. That of an ablation which names the fewest is what all
    others change, and comes first.
    """
    roots = [path.resolve() for path in given]
    found: dict[str, list[str]] = {}
    for setting in settings:
        for name, value in setting.choice.options.items():
            found.setdefault(name, []).append(value_text(value))

    def place(name: str, value: object) -> tuple[int, float]:
        """Numbers by their size, before anything else in the order in which it was found."""
        if isinstance(value, int | float) and not isinstance(value, bool):
            return 0, float(value)
        return 1, found[name].index(value_text(value))

    def group(setting: FoundSetting) -> tuple[object, ...]:
        run = setting.replicas[0].run.resolve()
        root = next((k for k, path in enumerate(roots) if run.is_relative_to(path)), len(roots))
        return root, setting.env, *setting.choice[:2]

    groups = list(dict.fromkeys(map(group, settings)))
    return sorted(
        settings,
        key=lambda s: (
            groups.index(group(s)),
            s.label.count("="),
            [place(*option) for option in sorted(s.choice.options.items())],
        ),
    )


def _setting(places: Sequence[_Place]) -> FoundSetting:
    first = places[0]
    by_seed = {p.seed: SettingReplica(p.run.path, p.index, p.seed) for p in places}
    replicas = tuple(by_seed[seed] for seed in sorted(by_seed))
    return FoundSetting(first.env, first.label, first.choice, replicas)


def _kept_apart(places: list[_Place]) -> list[_Place]:
    """Two replicas of the same setting and seed get labels that name where they are."""
    for level in ("source", "path"):  # two sweeps, or two runs of a sweep
        counts = Counter((p.env, p.label, p.seed) for p in places)
        repeated = {label for (_, label, _), count in counts.items() if count > 1}
        homes: dict[str, set[Path]] = {label: set() for label in repeated}
        for p in places:
            if p.label in repeated:
                homes[p.label].add(getattr(p.run, level))
        apart = {label for label in repeated if len(homes[label]) > 1}
        names = names_of({home for label in apart for home in homes[label]})
        places = [
            replace(p, label=f"{names[getattr(p.run, level)]}: {p.label}")
            if p.label in apart
            else p
            for p in places
        ]
    return places
