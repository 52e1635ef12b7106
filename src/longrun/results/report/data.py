"""All that the page shows, as plain JSON: nothing here knows of HTML."""

from __future__ import annotations

import dataclasses
import json
import shlex
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from longrun import __version__
from longrun.config import make_config
from longrun.envs.spaces import Array
from longrun.results.labels import shortened
from longrun.results.read import Setting, mean_interval
from longrun.results.report import formatting as words
from longrun.results.report.curves import (
    EVALUATION,
    TRAINING,
    brief,
    evaluation_curves,
    points_each,
    training_curves,
)
from longrun.results.report.runs import Folder, Group
from longrun.results.statistics import estimates, improvement, scores_of

Json = dict[str, Any]


def page_data(folder: Folder) -> Json:
    """The page's numbers and words; its pictures are added later."""
    settings = _settings(folder.groups)
    _add_statistics(folder.groups, settings)
    return {
        "title": words.title(folder.groups),
        "folder": str(folder.path),
        "made": f"{time.strftime('%Y-%m-%d %H:%M')} by longrun {__version__}",
        "result": words.result(settings),
        "facts": words.facts(folder),
        "metrics": _metrics(settings),
        "filters": _filters(folder.groups),
        "settings": settings,
        "problems": [problem._asdict() for problem in folder.problems],
        "options": _options(folder.groups),
        "command": _command(folder),
        "versions": _versions(folder),
        "runs": [
            {"name": run.path.name, "config": json.dumps(run.config, indent=1)}
            for run in folder.runs
        ],
        "frames": [],
    }


def _settings(groups: Sequence[Group]) -> list[Json]:
    names, _ = shortened(group.label for group in groups)
    points = points_each([group.training for group in groups])
    differ = words.differing(groups)
    return [
        {
            "env": group.env,
            "name": names[group.label],
            "label": group.label,
            "choices": {n: words.in_words(v) for n, v in group.choices.items() if n in differ},
            "evaluation": evaluation_curves(group.evaluation),
            "training": training_curves(group.training, points),
            "seeds": _seeds(group),
            "step": _last_step(group.evaluation),
            "best": False,
            "final": final_figures(group.evaluation),
        }
        for group in groups
    ]


def _seeds(group: Group) -> list[int]:
    """Those that the figures are of; some may be too far behind to count."""
    if group.evaluation is not None:
        return list(group.evaluation.seeds)
    return sorted(replica.seed for replica in group.replicas)


def _last_step(setting: Setting | None) -> int | None:
    return int(setting.steps[-1]) if setting is not None and len(setting.steps) else None


def final_figures(setting: Setting | None) -> dict[str, Mapping[str, float | None]]:
    """Mean and interval of each metric of the last evaluation; those without a number left out."""
    if setting is None or not len(setting.steps):
        return {}
    last = {name: setting.values[name][-1] for name in EVALUATION}
    return {
        name: _with_ends(*(float(x) for x in mean_interval(row)))
        for name, row in last.items()
        if np.isfinite(row).all()
    }


def _add_statistics(groups: Sequence[Group], rows: Sequence[Json]) -> None:
    """Interquartile mean, and the probability to beat the highest mean of the environment."""
    for env in dict.fromkeys(group.env for group in groups):
        means = {
            k: row["final"]["average_reward"]["mean"]
            for k, row in enumerate(rows)
            if row["env"] == env and "average_reward" in row["final"]
        }
        scores = {k: _scores(groups[k]) for k in means}
        best = max(means, key=lambda k: means[k], default=-1)
        for k in means:
            rows[k]["best"] = k == best and len(means) > 1  # a setting alone is no winner
            rng = np.random.default_rng(0)  # the same page from the same runs
            rows[k]["final"]["iqm"] = _with_ends(*estimates(scores[k], rng)["iqm"])
            if k != best:
                wins = improvement(scores[k], scores[best], rng)
                rows[k]["final"]["improvement"] = _with_ends(*wins)


def _scores(group: Group) -> Array:
    """[seeds, 1]"""
    assert group.evaluation is not None
    return scores_of(group.evaluation, "average_reward")[0][:, None]


def _with_ends(mean: float, low: float, high: float) -> dict[str, float | None]:
    return {"mean": brief(mean), "low": brief(low), "high": brief(high)}


def _metrics(settings: Sequence[Json]) -> list[Json]:
    """Those that have a curve somewhere."""
    return [
        {"key": key, "label": label, "kind": kind}
        for kind, labels in (("evaluation", EVALUATION), ("training", TRAINING))
        for key, label in labels.items()
        if any(key in setting[kind]["curves"] for setting in settings)
    ]


def _filters(groups: Sequence[Group]) -> list[Json]:
    """Each choice that settings differ in, with its values in order."""
    found = []
    for name in words.differing(groups):
        values = [group.choices[name] for group in groups if name in group.choices]
        numbers = all(isinstance(value, int | float) for value in values)
        ordered = sorted(values) if numbers else sorted(values, key=words.in_words)
        found.append({"name": name, "values": list(dict.fromkeys(map(words.in_words, ordered)))})
    return found


def _options(groups: Sequence[Group]) -> list[Json]:
    """Every option once: its values, whether settings differ in it, and the preset's default."""
    differ = words.differing(groups)
    found = []
    for name in dict.fromkeys(name for group in groups for name in group.choices):
        mine = [group for group in groups if name in group.choices]
        values = list(dict.fromkeys(words.in_words(group.choices[name]) for group in mine))
        usual = {_default(group, name) for group in mine}
        default = usual.pop() if len(usual) == 1 else None
        found.append(
            {"name": name, "values": values, "differs": name in differ, "default": default}
        )
    return found


def _default(group: Group, name: str) -> str | None:
    defaults = dataclasses.asdict(make_config(group.choice.algorithm, group.choice.preset))
    return words.in_words(defaults[name]) if name in defaults else None


def _command(folder: Folder) -> str:
    """The sweep's own, or that of its first run."""
    commands = [run.config.get("command") for run in folder.runs[:1]]
    command = folder.sweep.get("command") or next(iter(commands), None) or []
    return shlex.join(map(str, command)) if isinstance(command, list) else str(command)


def _versions(folder: Folder) -> str:
    """Of each package, more than one where runs were made with several."""
    found: dict[str, dict[str, None]] = {}
    for run in folder.runs:
        for name, version in run.config.get("versions", {}).items():
            found.setdefault(name, {})[str(version)] = None
    platforms = dict.fromkeys(str(run.config.get("platform", "")) for run in folder.runs)
    packages = [f"{name} {'/'.join(versions)}" for name, versions in found.items()]
    return ", ".join(filter(None, [*packages, *platforms]))
