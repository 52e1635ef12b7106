"""What a report says about its runs: title, facts, options, filters, commands."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from longrun.lab.report.runs import Folder, ReportedSetting
from longrun.lab.results.labels import changed_options, names_of, numbers_first, preset_config
from longrun.learning.options.config_options import value_text

Json = dict[str, Any]


def title(settings: Sequence[ReportedSetting]) -> str:
    environments = list(dict.fromkeys(each.found.env for each in settings))
    algorithms = dict.fromkeys(each.found.config.algorithm.upper() for each in settings)
    where = environments[0] if len(environments) == 1 else f"{len(environments)} environments"
    return f"{', '.join(algorithms)} on {where}" if settings else "Runs that have just started"


def facts(folder: Folder) -> list[tuple[str, str]]:
    """Name and value of each fact, for the head of the page."""
    seeds = sorted({len(each.found.replicas) for each in folder.settings})
    steps = sorted({run.spec.steps for run in folder.runs})
    started = sorted(run.content["created"][:16].replace("T", " ") for run in folder.runs)
    found = [
        ("settings", str(len(folder.settings))),
        ("seeds of each", _span([str(n) for n in seeds])),
        ("steps asked for", _span([f"{step:,}" for step in steps])),
        ("runs", str(len(folder.runs))),
        ("started", _span(started)),
    ]
    return [(name, text) for name, text in found if text]


def _span(values: Sequence[str]) -> str:
    """The first and the last value, or a single one if they are equal."""
    return " to ".join(dict.fromkeys((*values[:1], *values[-1:])))


def command(folder: Folder) -> str:
    """The command of each sweep and of each other run; of several, below a comment that says whose.

    Runs of a sweep that has none, and of one script, share theirs.
    """
    alone = [run for run in folder.runs if run.source not in folder.commands]
    found = folder.commands | {run.path: run.content["command"] for run in alone}
    names = names_of(found)
    whose: dict[str, list[str]] = {}
    for path, words in found.items():
        whose.setdefault(shlex.join(map(str, words)), []).append(" ".join(names[path].split()))
    if len(whose) == 1:
        return next(iter(whose))
    return "\n\n".join(f"# {', '.join(mine)}\n{text}" for text, mine in whose.items())


def options(settings: Sequence[ReportedSetting]) -> list[Json]:
    """Every choice once: its values, whether settings differ in it, and the preset's default.

    An option is `changed` if a setting has another value than the default of its own preset.
    The label names the algorithms of an option that not all have, such as a discount.
    """
    changed = {name for each in settings for name in changed_of(each)}
    found = []
    for name in dict.fromkeys(name for each in settings for name in each.choices):
        mine = [each for each in settings if name in each.choices]
        values = list(dict.fromkeys(each.choices[name] for each in mine))
        defaults = list({_default(each, name) for each in mine})
        owners = dict.fromkeys(each.found.config.algorithm.upper() for each in mine)
        found.append(
            {
                "name": name,
                "label": name + f" ({', '.join(owners)})" * (len(mine) < len(settings)),
                "values": values,
                "differs": len(values) > 1,
                "changed": name in changed,
                "default": defaults[0] if len(defaults) == 1 else None,
            }
        )
    return found


def changed_of(setting: ReportedSetting) -> set[str]:
    """Names of the options of a setting that are not its preset's."""
    return changed_options(setting.found.config, setting.found.preset)


def _default(setting: ReportedSetting, name: str) -> str:
    usual = preset_config(setting.found.config.algorithm, setting.found.preset)
    return value_text(getattr(usual, name, None))


def filters(choices: Sequence[Json]) -> list[Json]:
    """The choices in which settings differ, with sorted values.

    Not those in which only the algorithms' presets differ: the algorithm has a filter.
    """
    return [
        {"name": each["name"], "values": sorted(each["values"], key=numbers_first)}
        for each in choices
        if each["differs"] and (each["changed"] or each["name"] in ("algorithm", "preset"))
    ]
