"""All that the page shows, as JSON."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from longrun import __version__
from longrun.lab.report.curves import brief, evaluation_curves, points_each, training_curves
from longrun.lab.report.runs import Folder, ReportedSetting
from longrun.lab.results.comparison import Comparison
from longrun.lab.results.comparison_table import unsettled_notes
from longrun.lab.results.labels import (
    changed_options,
    default_texts,
    names_of,
    numbers_first,
    shortened,
)
from longrun.lab.results.metric_names import SCORES, TRAINING, metric_name
from longrun.lab.results.scores import COST, costs_of, feasible_seeds, scores_of
from longrun.lab.results.settings import Setting
from longrun.lab.results.statistics import FEWEST_SEEDS, improvement, mean_interval
from longrun.lab.results.tables import estimate_text
from longrun.lab.results.verdict import ranked, verdict
from longrun.learning.envs.spaces import Array

Json = dict[str, Any]


def page_data(folder: Folder) -> Json:
    """The page's numbers and text; its pictures are added later."""
    names, _ = shortened(each.found.label for each in folder.settings)
    settings = _settings(folder, names)
    return {
        "title": _title(folder.settings),
        "folder": str(folder.path),
        "made": f"{time.strftime('%Y-%m-%d %H:%M')} by longrun {__version__}",
        "result": _result(folder.comparison, names),
        "facts": _facts(folder),
        "metrics": _metrics(settings),
        "filters": _filters(folder.settings),
        "settings": settings,
        "unsettled": _unsettled(folder.comparison, names),
        "problems": [problem._asdict() for problem in folder.problems],
        "options": _options(folder.settings),
        "command": _command(folder),
        "versions": _versions(folder),
        "runs": [
            {"name": run.path.name, "config": json.dumps(run.config, indent=1)}
            for run in folder.runs
        ],
        "frames": [],
    }


# Settings and their figures.


def _settings(folder: Folder, names: Mapping[str, str]) -> list[Json]:
    points = points_each([each.training for each in folder.settings])
    differ = differing(folder.settings)
    costs = folder.comparison.costs if folder.comparison else []
    kept = feasible_seeds(costs)
    found = []
    for each in folder.settings:
        key, evaluated = each.found.key, each.evaluation
        found.append(
            {
                "env": each.found.env,
                "name": names[each.found.label],
                "label": each.found.label,
                "choices": {name: text for name, text in each.choices.items() if name in differ},
                "changed": sorted(changed_options(each.found.choice) & set(differ)),
                "evaluation": evaluation_curves(evaluated),
                "training": training_curves(each.training, points),
                "seeds": list((evaluated or each.found).seeds),
                "step": int(evaluated.steps[-1]) if evaluated else None,
                "best": False,
                "limits": {
                    COST + cost.cost: cost.limit
                    for cost in costs
                    if cost.key == key and cost.limit is not None
                },
                "kept": kept[key].kept if key in kept else None,
                "final": _final_figures(evaluated) if evaluated else {},
            }
        )
    if folder.comparison is not None:
        _add_statistics(folder.comparison, found)
    return found


def _final_figures(setting: Setting) -> dict[str, Json]:
    """Mean over seeds and interval of the final score in each metric that all seeds have.

    Where there are too few seeds for an interval, the figure has their scores instead.
    """
    metrics = [*SCORES, *(COST + name for name in costs_of(setting))]
    scores = {metric: scores_of(setting, metric)[0] for metric in metrics}
    return {
        metric: _with_ends([float(x) for x in mean_interval(own)], own)
        for metric, own in scores.items()
        if np.isfinite(own).all()
    }


def _add_statistics(comparison: Comparison, rows: Sequence[Json]) -> None:
    """Add interquartile means, and probabilities to beat the best setting of the environment."""
    places = {(row["env"], row["label"]): row for row in rows}
    compared = [r for r in comparison.rows if r.env and r.metric == SCORES[0] and r.scores]
    scores = {(row.env, row.label): np.array(row.scores) for row in compared}
    for row in compared:
        found = places[row.env, row.label]
        own, best = scores[row.env, row.label], ranked(comparison, row.env)[0]
        found["best"] = row.label == best and sum(env == row.env for env, _ in scores) > 1
        found["final"]["iqm"] = _with_ends(row.aggregates["iqm"], own)
        if row.label != best:
            wins = improvement(own[:, None], scores[row.env, best][:, None])
            found["final"]["improvement"] = _with_ends(wins)


def _with_ends(figure: Sequence[float], seeds: Array | None = None) -> Json:
    """A value with the ends of its interval, or with the scores of the seeds if these are few."""
    value, low, high = map(brief, figure)
    few = [] if seeds is None or len(seeds) >= FEWEST_SEEDS else seeds.tolist()
    return {"mean": value, "low": low, "high": high, "scores": [*map(brief, few)]}


def _metrics(settings: Sequence[Json]) -> list[Json]:
    """The metrics that at least one setting has a curve of."""
    return [
        {"key": key, "label": metric_name(key), "kind": kind}
        for kind, first in (("evaluation", SCORES), ("training", TRAINING))
        for key in dict.fromkeys([*first, *(n for s in settings for n in s[kind]["curves"])])
        if any(key in setting[kind]["curves"] for setting in settings)
    ]


# What differs between settings.


def differing(settings: Sequence[ReportedSetting]) -> list[str]:
    """Names of the choices that not all settings which have them share."""
    found: dict[str, set[str]] = {}
    for each in settings:
        for name, text in each.choices.items():
            found.setdefault(name, set()).add(text)
    return [name for name, texts in found.items() if len(texts) > 1]


def _filters(settings: Sequence[ReportedSetting]) -> list[Json]:
    """Each choice in which settings differ, with its sorted values."""
    found = []
    for name in differing(settings):
        mine = [each for each in settings if name in each.choices]
        if all(each.choices[name] == _default(each, name) for each in mine):
            continue  # only the algorithms' presets differ in it, and the algorithm has a filter
        values = sorted({each.choices[name] for each in mine}, key=numbers_first)
        found.append({"name": name, "values": values})
    return found


def _options(settings: Sequence[ReportedSetting]) -> list[Json]:
    """Every option once: its values, whether settings differ in it, and the preset's default.

    An option is `changed` if a setting has another value than the default of its own preset.
    The label names the algorithms of an option that not all have, such as a discount.
    """
    differ = differing(settings)
    changed = {name for each in settings for name in changed_options(each.found.choice)}
    found = []
    for name in dict.fromkeys(name for each in settings for name in each.choices):
        mine = [each for each in settings if name in each.choices]
        defaults = list({_default(each, name) for each in mine})
        owners = dict.fromkeys(each.found.choice.algorithm.upper() for each in mine)
        found.append(
            {
                "name": name,
                "label": name + f" ({', '.join(owners)})" * (len(mine) < len(settings)),
                "values": list(dict.fromkeys(each.choices[name] for each in mine)),
                "differs": name in differ,
                "changed": name in changed,
                "default": defaults[0] if len(defaults) == 1 else None,
            }
        )
    return found


def _default(each: ReportedSetting, name: str) -> str | None:
    algorithm, preset, _ = each.found.choice
    return default_texts(algorithm, preset).get(name)


# Text.


def _title(settings: Sequence[ReportedSetting]) -> str:
    environments = list(dict.fromkeys(each.found.env for each in settings))
    algorithms = dict.fromkeys(each.found.choice.algorithm.upper() for each in settings)
    where = environments[0] if len(environments) == 1 else f"{len(environments)} environments"
    return f"{', '.join(algorithms)} on {where}" if settings else "Runs that have just started"


def _result(found: Comparison | None, names: Mapping[str, str]) -> str:
    """The verdict in one line, or the score where there is a single setting."""
    if found is None:
        return "No policy was evaluated yet."
    if lines := verdict(found):
        return f"{'; '.join(lines)}."
    row = found.rows[0]
    figure = estimate_text(row.aggregates.get("iqm"))
    seeds = f"{row.seeds} seed{'s' * (row.seeds != 1)}"
    return f"{names[row.label]} on {row.env}: {metric_name(row.metric)} {figure}, {seeds}."


def _unsettled(found: Comparison | None, names: Mapping[str, str]) -> str:
    """A sentence for the table's note, after a space; "" if all evaluations had settled."""
    return "".join(f" {note}" for note in unsettled_notes(found.rows if found else [], names))


def _facts(folder: Folder) -> list[tuple[str, str]]:
    """Name and value of each fact, for the head of the page."""
    configs = [run.config for run in folder.runs]
    seeds = sorted({len(each.found.replicas) for each in folder.settings})
    steps = sorted({config["steps"] for config in configs})
    started = sorted(config["created"][:16].replace("T", " ") for config in configs)
    found = [
        ("environments", ", ".join(sorted({config["env"] for config in configs}))),
        ("algorithms", ", ".join(sorted({config["algorithm"].upper() for config in configs}))),
        ("settings", str(len(folder.settings))),
        ("seeds of each", _span([str(n) for n in seeds])),
        ("steps asked for", _span([f"{step:,}" for step in steps])),
        ("runs", str(len(configs))),
        ("started", _span(started)),
    ]
    return [(name, text) for name, text in found if text]


def _span(values: Sequence[str]) -> str:
    """The first and the last value, or a single one if they are equal."""
    return " to ".join(dict.fromkeys((*values[:1], *values[-1:])))


def _command(folder: Folder) -> str:
    """The command of each sweep and of each other run; of several, below a comment that says whose.

    Runs of a sweep that has none, and of one script, share theirs.
    """
    alone = [run for run in folder.runs if run.source not in folder.commands]
    found = folder.commands | {run.path: run.config["command"] for run in alone}
    names = names_of(found)
    whose: dict[str, list[str]] = {}
    for path, command in found.items():
        whose.setdefault(shlex.join(command), []).append(" ".join(names[path].split()))
    if len(whose) == 1:
        return next(iter(whose))
    return "\n\n".join(f"# {', '.join(mine)}\n{words}" for words, mine in whose.items())


def _versions(folder: Folder) -> str:
    """Versions of each package, several if runs were made with different ones."""
    found: dict[str, dict[str, None]] = {}
    for run in folder.runs:
        for name, version in run.config["versions"].items():
            found.setdefault(name, {})[version] = None
    platforms = dict.fromkeys(run.config["platform"] for run in folder.runs)
    return ", ".join([*(f"{name} {'/'.join(own)}" for name, own in found.items()), *platforms])
