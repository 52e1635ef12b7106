"""Which runs are of the same environment, and what each environment is called in tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from longrun.lab.results.run_files import FoundRun

Identity = tuple[str, str]
"""The name of an environment, and a digest of what made it."""


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
    """What identifies the environment of each run; runs of one name have that of the first."""
    by_name: dict[tuple[str, str], Identity] = {}
    found = {}
    for run in runs:
        identity = _identity(run)
        if name := run.config.get("name"):
            identity = by_name.setdefault((run.config["env"], name), identity)
        found[run.path] = identity
    return found


def _identity(run: FoundRun) -> Identity:
    return run.config["env"], run.config["env_source"]["identity"]


def _distinct(env: str, firsts: dict[Identity, FoundRun]) -> dict[Identity, str]:
    """A text for each identity: the plain name if there is one of it, else what differs."""
    if len(firsts) > 1:
        for detail in (_arguments, _attributes(list(firsts.values())), _mark):
            details = {i: detail(run) for i, run in firsts.items()}
            if len(set(details.values())) == len(details) and all(details.values()):
                return {i: f"{env}{text}" for i, text in details.items()}
    return dict.fromkeys(firsts, env)


def _source(run: FoundRun) -> dict[str, Any]:
    source: dict[str, Any] = run.config["env_source"]
    return source


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
