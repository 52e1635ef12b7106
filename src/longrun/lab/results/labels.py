"""Labels of settings: the algorithm and the options that distinguish them."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from longrun.learning.options.config_options import make_config, value_text
from longrun.learning.options.presets import DEFAULT


class Choice(NamedTuple):
    """What was chosen for a replica, apart from its seed and the costs that it only records."""

    algorithm: str
    preset: str
    options: dict[str, Any]

    @classmethod
    def of(cls, config: dict[str, Any], replica: dict[str, Any]) -> Choice:
        """The choice that config.json and its entry for the replica describe."""
        algorithm = config["algorithm"]
        own = {name: value for name, value in replica.items() if name != "seed"}
        options = config["options"] | own
        return cls(algorithm, config["preset"], {n: v for n, v in options.items() if n != "costs"})


def labels_of(choices: Sequence[Choice]) -> list[str]:
    """Labels of choices: the algorithm, what differs from its preset, and what is varied in a grid.

    The preset is in parentheses after the algorithm, unless it is the default. Two labels are equal
    if and only if the choices are.
    """
    varied = _varied(choices)
    labels = []
    for choice in choices:
        shown = {"discount"} | varied[choice[:2]]  # whether or not they are the default
        texts, changed = _texts(choice), changed_options(choice)
        words = [f"{name}={text}" for name, text in texts.items() if name in shown | changed]
        name = choice.algorithm.upper()
        preset = "" if choice.preset == DEFAULT else f"({choice.preset})"
        labels.append(" ".join(filter(None, [name, preset, *words])))
    return labels


def named_labels(names: Sequence[str], labels: Sequence[str]) -> list[str]:
    """The user's name in place of a label; before it where labels of one name differ."""
    of_name: dict[str, set[str]] = {}
    for name, label in zip(names, labels, strict=True):
        of_name.setdefault(name, set()).add(label)
    return [
        label if not name else name if len(of_name[name]) == 1 else f"{name}: {label}"
        for name, label in zip(names, labels, strict=True)
    ]


def _varied(choices: Sequence[Choice]) -> dict[tuple[str, str], set[str]]:
    """Options in which half of the choices of one algorithm and preset or more are not the preset.

    The others are changed by one choice or another, as in an ablation: labels of those that do not
    change them would name all of them.
    """
    different: dict[tuple[str, str], dict[str, Choice]] = {}
    for choice in choices:
        different.setdefault(choice[:2], {})[str(_texts(choice))] = choice
    varied = {}
    for kind, found in different.items():
        counts = Counter(name for choice in found.values() for name in changed_options(choice))
        varied[kind] = {name for name, count in counts.items() if 2 * count >= len(found)}
    return varied


def _texts(choice: Choice) -> dict[str, str]:
    return {name: value_text(value) for name, value in choice.options.items()}


def changed_options(choice: Choice) -> set[str]:
    """Names of the options that are not the preset's."""
    defaults = _defaults(choice.algorithm, choice.preset)
    return {name for name, text in _texts(choice).items() if text != defaults.get(name)}


@cache
def _defaults(algorithm: str, preset: str) -> dict[str, str]:
    options = dataclasses.asdict(make_config(algorithm, preset))
    return {name: value_text(value) for name, value in options.items()}


def shortened(labels: Iterable[str]) -> tuple[dict[str, str], str]:
    """Labels without the options that all of them share, and the shared options.

    "APO epochs=4 gae_lambda=0.9", "PPO epochs=4 discount=0.9" become "APO gae_lambda=0.9",
    "PPO discount=0.9" and "epochs=4".
    """
    labels = list(dict.fromkeys(labels))
    words = [label.split() for label in labels]
    if len(labels) < 2:
        return {label: label for label in labels}, ""
    shared = [w for w in words[0] if "=" in w and all(w in others for others in words)]
    short = {
        label: " ".join(w for w in own if w not in shared)
        for label, own in zip(labels, words, strict=True)
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
