"""What settings and environments are called: what distinguishes them from the others shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from longrun.learning.options.config import Config
from longrun.learning.options.config_options import make_config, value_text
from longrun.learning.options.presets import DEFAULT
from longrun.learning.runs.spec import RunSpec

Choice = tuple[Config, str]
"""The options of a replica, and their preset."""
preset_config = cache(make_config)
"""The options of an algorithm and a preset."""


def labels_of(choices: Sequence[Choice], names: Sequence[str | None]) -> list[str]:
    """The users' names of choices; or the algorithm, what differs from its preset, and is varied.

    The preset is in parentheses after the algorithm, unless it is the default. Two labels are equal
    if and only if the choices are, or the names: choices of one name that differ have it before
    their label.
    """
    distinct = dict.fromkeys(choices)
    kinds = Counter((config.algorithm, preset) for config, preset in distinct)
    changes = Counter(
        (config.algorithm, preset, name)
        for config, preset in distinct
        for name in changed_options(config, preset)
    )

    def label(config: Config, preset: str) -> str:
        """The label of a choice: it names also what half of the algorithm's choices change.

        The other options are changed by one choice or another, as in an ablation: labels of those
        that do not change them would name all of them.
        """
        kind, own = (config.algorithm, preset), changed_options(config, preset)
        words = [
            f"{name}={text}"
            for name, text in option_texts(config).items()
            if name == "discount" or name in own or 2 * changes[*kind, name] >= kinds[kind]
        ]
        shown = [] if preset == DEFAULT else [f"({preset})"]
        return " ".join([config.algorithm.upper(), *shown, *words])

    pairs = list(zip(names, (label(*choice) for choice in choices), strict=True))
    counts = Counter(name for name, _ in set(pairs))
    return [
        label if not name else name if counts[name] == 1 else f"{name}: {label}"
        for name, label in pairs
    ]


def changed_options(config: Config, preset: str) -> set[str]:
    """Names of the options that are not the preset's."""
    usual = vars(preset_config(config.algorithm, preset))
    return {name for name, value in vars(config).items() if value != usual[name]}


def option_texts(config: Config) -> dict[str, str]:
    """The options as text, by name."""
    return {name: value_text(value) for name, value in vars(config).items()}


def env_names(runs: Mapping[Path, tuple[RunSpec, Mapping[str, Any]]]) -> dict[Path, str]:
    """A name for each run's environment; two have the same name only if they are the same.

    Two runs are of the same environment if what made it, the second of each pair, has the same
    identity (`env_source.py`), or if the user gave them the same name. Where several environments
    are called the same, arguments or attributes in which they differ are added, or the identity.
    """
    by_name: dict[tuple[str, str], str] = {}
    identities: dict[Path, tuple[str, str]] = {}
    sources: dict[str, dict[str, Mapping[str, Any]]] = {}
    for path, (spec, source) in runs.items():
        identity = source["identity"]
        if spec.name:
            identity = by_name.setdefault((spec.env, spec.name), identity)
        identities[path] = spec.env, identity
        sources.setdefault(spec.env, {}).setdefault(identity, source)
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
