"""What settings and environments are called: what distinguishes them from the others shown."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from longrun.lab.results.run_files import FoundRun
from longrun.learning.options.config_options import make_config, value_text
from longrun.learning.options.presets import DEFAULT


class Choice(NamedTuple):
    """What was chosen for a replica, apart from its seed and the costs that it only records."""

    algorithm: str
    preset: str
    options: dict[str, Any]

    @classmethod
    def of(cls, config: Mapping[str, Any], replica: Mapping[str, Any]) -> Choice:
        """The choice that a run's description and its entry for the replica describe."""
        options = {**config["options"], **replica}
        own = {name: value for name, value in options.items() if name not in ("seed", "costs")}
        return cls(config["algorithm"], config["preset"], own)

    @property
    def texts(self) -> dict[str, str]:
        """The options as text."""
        return {name: value_text(value) for name, value in self.options.items()}


def labels_of(choices: Sequence[Choice], names: Sequence[str]) -> list[str]:
    """The users' names of choices; or the algorithm, what differs from its preset, and is varied.

    The preset is in parentheses after the algorithm, unless it is the default. Two labels are equal
    if and only if the choices are, or the names: choices of one name that differ have it before
    their label.
    """
    varied = _varied(choices)
    labels = []
    for choice in choices:
        shown = {"discount"} | varied[choice[:2]] | changed_options(choice)
        words = [f"{name}={text}" for name, text in choice.texts.items() if name in shown]
        preset = [] if choice.preset == DEFAULT else [f"({choice.preset})"]
        labels.append(" ".join([choice.algorithm.upper(), *preset, *words]))
    pairs = list(zip(names, labels, strict=True))
    counts = Counter(name for name, _ in set(pairs))
    return [
        label if not name else name if counts[name] == 1 else f"{name}: {label}"
        for name, label in pairs
    ]


def _varied(choices: Sequence[Choice]) -> dict[tuple[str, str], set[str]]:
    """Options in which half of the choices of one algorithm and preset or more are not the preset.

    The others are changed by one choice or another, as in an ablation: labels of those that do not
    change them would name all of them.
    """
    different: dict[tuple[str, str], dict[str, Choice]] = {}
    for choice in choices:
        different.setdefault(choice[:2], {})[str(choice.texts)] = choice
    varied = {}
    for kind, found in different.items():
        counts = Counter(name for choice in found.values() for name in changed_options(choice))
        varied[kind] = {name for name, count in counts.items() if 2 * count >= len(found)}
    return varied


def changed_options(choice: Choice) -> set[str]:
    """Names of the options that are not the preset's."""
    defaults = default_texts(choice.algorithm, choice.preset)
    return {name for name, text in choice.texts.items() if text != defaults.get(name)}


@cache
def default_texts(algorithm: str, preset: str) -> dict[str, str]:
    """A preset's options as text."""
    options = dataclasses.asdict(make_config(algorithm, preset))
    return {name: value_text(value) for name, value in options.items()}


def env_names(runs: Sequence[FoundRun]) -> dict[Path, str]:
    """A name for each run's environment; two have the same name only if they are the same.

    Two runs are of the same environment if what made it has the same identity (`env_source.py`), or
    if the user gave them the same name. Where several environments are called the same, arguments
    or attributes in which they differ are added, or else the identity.
    """
    by_name: dict[tuple[str, str], str] = {}
    identities: dict[Path, tuple[str, str]] = {}
    sources: dict[str, dict[str, Mapping[str, Any]]] = {}
    for run in runs:
        env, source = run.config["env"], run.config["env_source"]
        identity = source["identity"]
        if name := run.config.get("name"):
            identity = by_name.setdefault((env, name), identity)
        identities[run.path] = env, identity
        sources.setdefault(env, {}).setdefault(identity, source)
    names = {env: _distinct(env, own) for env, own in sources.items()}
    return {path: names[env][identity] for path, (env, identity) in identities.items()}


def _distinct(env: str, sources: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """A text for each identity: the plain name if there is one of it, else what differs."""
    if len(sources) == 1:
        return dict.fromkeys(sources, env)
    arguments = {i: [str(each) for each in own.get("arguments", [])] for i, own in sources.items()}
    pairs = {
        i: [f"{name}={value}" for name, value in sorted(own.get("attributes", {}).items())]
        for i, own in sources.items()
    }
    shared = set.intersection(*map(set, pairs.values()))
    attributes = {i: [pair for pair in own if pair not in shared] for i, own in pairs.items()}
    for details in (arguments, attributes):
        texts = {i: f"{env}({', '.join(own)})" for i, own in details.items()}
        if all(details.values()) and len(set(texts.values())) == len(texts):
            return texts
    return {i: f"{env} #{i[:6]}" for i in sources}


def shortened(labels: Iterable[str]) -> tuple[dict[str, str], str]:
    """Labels without the options that all of them share, and the shared options.

    "APO epochs=4 gae_lambda=0.9", "PPO epochs=4 discount=0.9" become "APO gae_lambda=0.9",
    "PPO discount=0.9" and "epochs=4".
    """
    words = {label: label.split() for label in labels}
    if len(words) < 2:
        return {label: label for label in words}, ""
    first, *others = words.values()
    shared = [word for word in first if "=" in word and all(word in own for own in others)]
    short = {
        label: " ".join(word for word in own if word not in shared) for label, own in words.items()
    }
    return short, " ".join(shared)


def names_of(paths: Iterable[Path]) -> dict[Path, str]:
    """The shortest ends of paths that are all different: `old/swimmer`, `new/swimmer`."""
    parts = {path: path.resolve().parts for path in paths}
    longest = max(map(len, parts.values()), default=1)
    for length in range(1, longest + 1):
        names = {path: "/".join(all_parts[-length:]) for path, all_parts in parts.items()}
        if len(set(names.values())) == len(names):
            break
    return names


def numbers_first(text: str) -> tuple[float, str]:
    """What sorts values: numbers by their size, before anything else."""
    try:
        return float(text), text
    except ValueError:
        return float("inf"), text
