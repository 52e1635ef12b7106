"""Which runs are of the same environment, and what each environment is called in tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from longrun.results.labels import names_of
from longrun.results.run_files import FoundRun

Identity = tuple[str, ...]
ID = re.compile(r"[^\s()<>]*(-v\d+|:)[^\s()<>]*")
"""Names that say which environment it is: a registered id or an environment string."""


def env_names(runs: Sequence[FoundRun]) -> dict[Path, str]:
    """A name for each run's environment; two have the same name only if they are the same.

    Two runs are of the same environment if what made it has the same identity (`env_source.py`), or
    if the user gave them the same name. Where several environments are called the same, arguments
    or attributes in which they differ are added, or else the identity.
    """
    identities = _identities(runs)
    found: dict[Path, str] = {}
    for env in dict.fromkeys(str(run.config["env"]) for run in runs):
        members = [run for run in runs if run.config["env"] == env]
        firsts = {identities[run.path]: run for run in reversed(members)}
        texts = _distinct(env, firsts)
        found |= {run.path: texts[identities[run.path]] for run in members}
    return found


def _identities(runs: Sequence[FoundRun]) -> dict[Path, Identity]:
    """What identifies the environment of each run; runs of one name have that of the first.

    A run of an id that has no identity, from an earlier version, is of the same environment as
    later ones.
    """
    later = {identity[0]: identity for identity in map(_identity, runs) if len(identity) == 2}
    by_name: dict[tuple[str, str], Identity] = {}
    found = {}
    for run in runs:
        identity = _identity(run)
        if len(identity) == 1:
            identity = later.get(identity[0], identity)
        if name := run.config.get("name"):
            identity = by_name.setdefault((run.config["env"], name), identity)
        found[run.path] = identity
    return found


def _identity(run: FoundRun) -> Identity:
    env, source = str(run.config["env"]), _source(run)
    if "identity" in source:
        return env, str(source["identity"])
    made_by, fingerprint = str(source.get("made_by", ":")), source.get("fingerprint")
    of_text = ":" in made_by or made_by.startswith("longrun.")  # not an object that has an id
    if of_text and ID.fullmatch(env.partition("?")[0]):
        return (env,)
    if fingerprint is not None:  # of version 0.2
        return env, str(fingerprint)
    return env, "", str(run.source)  # a sweep has one environment of a name


def _distinct(env: str, firsts: dict[Identity, FoundRun]) -> dict[Identity, str]:
    """A text for each identity: the plain name if there is one of it, else what differs."""
    known = {i: run for i, run in firsts.items() if len(i) == 2}
    if len(firsts) == 1:
        return dict.fromkeys(firsts, env)
    unnamed = {i: run for i, run in firsts.items() if len(i) == 3}
    places = names_of(run.source for run in unnamed.values())
    texts = dict.fromkeys(firsts, env)
    texts |= {i: f"{env} ({places[run.source]})" for i, run in unnamed.items()}
    for detail in (_arguments, _attributes(list(known.values())), _mark):
        details = {i: detail(run) for i, run in known.items()}
        if len(set(details.values())) == len(details) and all(details.values()):
            return texts | {i: f"{env}{text}" for i, text in details.items()}
    return texts


def _source(run: FoundRun) -> dict[str, Any]:
    source = run.config.get("env_source")
    return source if isinstance(source, dict) else {}


def _arguments(run: FoundRun) -> str:
    arguments = _source(run).get("arguments")
    return f"({', '.join(map(str, arguments))})" if arguments else ""


def _attributes(runs: Sequence[FoundRun]) -> Callable[[FoundRun], str]:
    """Texts of the attributes in which these runs' environments differ."""
    found = [_source(run).get("attributes") or {} for run in runs]
    names = sorted({name for each in found for name in each})
    differing = [n for n in names if len({str(each.get(n)) for each in found}) > 1]

    def text(run: FoundRun) -> str:
        own = _source(run).get("attributes") or {}
        words = [f"{name}={own[name]}" for name in differing if name in own]
        return f"({', '.join(words)})" if words else ""

    return text


def _mark(run: FoundRun) -> str:
    return f" #{_identity(run)[1][:6]}"
