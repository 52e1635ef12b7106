"""All that the page shows, as JSON."""

from __future__ import annotations

import dataclasses
import json
import shlex
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from longrun import __version__
from longrun.lab.report import formatting
from longrun.lab.report.curves import brief, evaluation_curves, points_each, training_curves
from longrun.lab.report.runs import Folder, ReportedSetting
from longrun.lab.results.final_table import settling_notes
from longrun.lab.results.labels import changed_options, names_of, shortened
from longrun.lab.results.limits import COST, cost_rates, costs_of, feasible_seeds
from longrun.lab.results.metric_names import SCORES, TRAINING, metric_name
from longrun.lab.results.read import Setting, mean_interval
from longrun.lab.results.statistics import FEWEST_SEEDS, estimates, improvement, scores_of
from longrun.learning.envs.spaces import Array
from longrun.learning.options.config_options import make_config, value_text

Json = dict[str, Any]


def page_data(folder: Folder) -> Json:
    """The page's numbers and text; its pictures are added later."""
    settings = _settings(folder.settings)
    _add_limits(folder.settings, settings)
    _add_statistics(folder.settings, settings)
    return {
        "title": formatting.title(folder.settings),
        "folder": str(folder.path),
        "made": f"{time.strftime('%Y-%m-%d %H:%M')} by longrun {__version__}",
        "result": formatting.result(settings),
        "facts": formatting.facts(folder),
        "metrics": _metrics(settings),
        "filters": _filters(folder.settings),
        "settings": settings,
        "unsettled": _unsettled(folder.settings),
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


def _settings(found: Sequence[ReportedSetting]) -> list[Json]:
    names, _ = shortened(each.label for each in found)
    points = points_each([each.training for each in found])
    differ = formatting.differing(found)
    return [
        {
            "env": each.env,
            "name": names[each.label],
            "label": each.label,
            "choices": {n: value_text(v) for n, v in each.choices.items() if n in differ},
            "changed": sorted(changed_options(each.found.choice) & set(differ)),
            "evaluation": evaluation_curves(each.evaluation),
            "training": training_curves(each.training, points),
            "seeds": _seeds(each),
            "step": _last_step(each.evaluation),
            "best": False,
            "limits": {},
            "kept": None,
            "final": final_figures(each.evaluation),
        }
        for each in found
    ]


def _unsettled(found: Sequence[ReportedSetting]) -> str:
    """A sentence for the table's note, after a space; "" if all evaluations had settled."""
    evaluated = [each.evaluation for each in found if each.evaluation is not None]
    names, _ = shortened(each.label for each in found)
    return "".join(f" {note}." for note in settling_notes(evaluated, names))


def _seeds(each: ReportedSetting) -> list[int]:
    """The seeds that the figures are about; seeds that are far behind are left out."""
    if each.evaluation is not None:
        return list(each.evaluation.seeds)
    return sorted(replica.seed for replica in each.found.replicas)


def _last_step(setting: Setting | None) -> int | None:
    return int(setting.steps[-1]) if setting is not None and len(setting.steps) else None


def final_figures(setting: Setting | None) -> dict[str, Json]:
    """Mean over seeds and interval of the final score in each metric that all seeds have.

    Where there are too few seeds for an interval, the figure has their scores instead.
    """
    if setting is None or not len(setting.steps):
        return {}
    metrics = [*SCORES, *(COST + name for name in costs_of(setting))]
    scores = {metric: scores_of(setting, metric)[0] for metric in metrics}
    return {
        metric: _with_ends([float(x) for x in mean_interval(own)], own)
        for metric, own in scores.items()
        if np.isfinite(own).all()
    }


def _add_limits(found: Sequence[ReportedSetting], rows: Sequence[Json]) -> None:
    """Add the limits on costs, and how many seeds keep all of them."""
    evaluated = [s.evaluation for s in found if s.evaluation and len(s.evaluation.steps)]
    rates = [each for each in cost_rates(evaluated) if each.limit is not None]
    for row in rows:
        own = [each for each in rates if (each.env, each.label) == (row["env"], row["label"])]
        if own:
            row["limits"] = {COST + each.cost: each.limit for each in own}
            row["kept"] = feasible_seeds(own)


def _add_statistics(found: Sequence[ReportedSetting], rows: Sequence[Json]) -> None:
    """Add interquartile means, and probabilities to beat the highest mean of the environment.

    Where costs have limits, the highest of those settings that keep them best.
    """
    for env in dict.fromkeys(each.env for each in found):
        means = {
            k: row["final"]["average_reward"]["mean"]
            for k, row in enumerate(rows)
            if row["env"] == env and "average_reward" in row["final"]
        }
        scores = {k: _scores(found[k]) for k in means}
        best = max(means, key=lambda k: (formatting.feasible(rows[k]), means[k]), default=-1)
        for k in means:
            rows[k]["best"] = k == best and len(means) > 1  # not if there is a single setting
            rng = np.random.default_rng(0)  # the same page from the same runs
            rows[k]["final"]["iqm"] = _with_ends(estimates(scores[k], rng)["iqm"], scores[k][:, 0])
            if k != best:
                wins = improvement(scores[k], scores[best])
                rows[k]["final"]["improvement"] = _with_ends(wins)


def _scores(each: ReportedSetting) -> Array:
    """[seeds, 1]"""
    assert each.evaluation is not None
    return scores_of(each.evaluation, "average_reward")[0][:, None]


def _with_ends(figure: Sequence[float], seeds: Array | None = None) -> Json:
    """A value with the ends of its interval, or with the scores of the seeds if these are few."""
    mean, low, high = figure
    few = [] if seeds is None or len(seeds) >= FEWEST_SEEDS else seeds.tolist()
    ends = {} if few else {"low": brief(low), "high": brief(high)}
    return {"mean": brief(mean), "low": None, "high": None, "scores": [*map(brief, few)]} | ends


def _metrics(settings: Sequence[Json]) -> list[Json]:
    """The metrics that at least one setting has a curve of."""
    return [
        {"key": key, "label": metric_name(key), "kind": kind}
        for kind, first in (("evaluation", SCORES), ("training", TRAINING))
        for key in dict.fromkeys([*first, *(n for s in settings for n in s[kind]["curves"])])
        if any(key in setting[kind]["curves"] for setting in settings)
    ]


def _filters(settings: Sequence[ReportedSetting]) -> list[Json]:
    """Each choice in which settings differ, with its sorted values."""
    found = []
    for name in formatting.differing(settings):
        mine = [each for each in settings if name in each.choices]
        if all(value_text(each.choices[name]) == _default(each, name) for each in mine):
            continue  # only the algorithms' presets differ in it, and the algorithm has a filter
        values = [each.choices[name] for each in mine]
        numbers = all(isinstance(value, int | float) for value in values)
        ordered = sorted(values) if numbers else sorted(values, key=value_text)
        found.append({"name": name, "values": list(dict.fromkeys(map(value_text, ordered)))})
    return found


def _options(settings: Sequence[ReportedSetting]) -> list[Json]:
    """Every option once: its values, whether settings differ in it, and the preset's default.

    An option is `changed` if a setting has another value than the default of its own preset.
    The label names the algorithms of an option that not all have, such as a discount.
    """
    differ = formatting.differing(settings)
    changed = {name for each in settings for name in changed_options(each.found.choice)}
    found = []
    for name in dict.fromkeys(name for each in settings for name in each.choices):
        mine = [each for each in settings if name in each.choices]
        values = list(dict.fromkeys(value_text(each.choices[name]) for each in mine))
        defaults = {_default(each, name) for each in mine}
        default = defaults.pop() if len(defaults) == 1 else None
        owners = dict.fromkeys(each.found.choice.algorithm.upper() for each in mine)
        label = name if len(mine) == len(settings) else f"{name} ({', '.join(owners)})"
        entry: Json = {"name": name, "label": label, "values": values}
        entry |= {"differs": name in differ, "changed": name in changed, "default": default}
        found.append(entry)
    return found


def _default(each: ReportedSetting, name: str) -> str | None:
    algorithm, preset, _ = each.found.choice
    defaults = dataclasses.asdict(make_config(algorithm, preset))
    return value_text(defaults[name]) if name in defaults else None


def _command(folder: Folder) -> str:
    """The command of each sweep and of each other run; of several, below a comment that says whose.

    Runs of a sweep that has none, and of one script, share theirs.
    """
    sweeps = {
        source: sweep["command"] for source, sweep in folder.sweeps.items() if sweep.get("command")
    }
    alone = {run.path: run.config.get("command") for run in folder.runs if run.source not in sweeps}
    found = sweeps | alone
    names = names_of(found)
    whose: dict[str, list[str]] = {}
    for path, command in found.items():
        if command:
            words = shlex.join(map(str, command)) if isinstance(command, list) else str(command)
            whose.setdefault(words, []).append(" ".join(names[path].split()))
    if len(whose) == 1 and all(found.values()):
        return next(iter(whose))
    return "\n\n".join(f"# {', '.join(mine)}\n{words}" for words, mine in whose.items())


def _versions(folder: Folder) -> str:
    """Versions of each package, several if runs were made with different ones."""
    found: dict[str, dict[str, None]] = {}
    for run in folder.runs:
        for name, version in run.config.get("versions", {}).items():
            found.setdefault(name, {})[str(version)] = None
    platforms = dict.fromkeys(str(run.config.get("platform", "")) for run in folder.runs)
    packages = [f"{name} {'/'.join(versions)}" for name, versions in found.items()]
    return ", ".join(filter(None, [*packages, *platforms]))
