"""The setting that a comparison has as its baseline, from the words that a user gives."""

from __future__ import annotations

from collections.abc import Sequence

from longrun.base.checks import known
from longrun.base.errors import InputError
from longrun.lab.results.labels import shortened
from longrun.lab.results.settings import Setting


def find_baselines(settings: Sequence[Setting], wanted: str | None) -> dict[str, str]:
    """The label of each environment's baseline; "" is for all environments together.

    Options may be chosen for each environment separately: then words that fit one setting on each
    ("APO") name a baseline everywhere, but none that all environments share.
    """
    labels: dict[str, list[str]] = {}
    for setting in settings:
        labels.setdefault(setting.env, []).append(setting.label)
    if wanted is None:
        first = settings[0].label
        found = {env: first if first in own else own[0] for env, own in labels.items()}
    else:
        fitting = {env: own for env, own in labels.items() if _matching(own, wanted)}
        everything = {"": [setting.label for setting in settings]}  # for a message
        found = {env: find_baseline(own, wanted) for env, own in (fitting or everything).items()}
    shared = set(found.values())
    return found | ({"": shared.pop()} if len(shared) == 1 else {})


def find_baseline(labels: Sequence[str], wanted: str) -> str:
    """The label, given as it is, in its short form, or by words that no other label has."""
    matching = _matching(labels, wanted) or [known("baseline", wanted, shortened(labels)[0])]
    if len(matching) > 1:
        raise InputError(f"baseline='{wanted}' fits several: {'; '.join(matching[:4])}")
    return matching[0]


def _matching(labels: Sequence[str], wanted: str) -> list[str]:
    short, _ = shortened(labels)
    exactly = [label for label in short if wanted in (label, short[label])]
    return exactly or [label for label in short if set(wanted.split()) <= set(label.split())]
