"""All that the page shows, as JSON."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from longrun import __version__
from longrun.lab.report import about
from longrun.lab.report.runs import Folder
from longrun.lab.results.comparison import Comparison
from longrun.lab.results.comparison_table import ranked, unsettled_notes, verdict
from longrun.lab.results.labels import shortened
from longrun.lab.results.metric_names import SCORES, TRAINING, metric_name
from longrun.lab.results.scores import COST, costs_of, feasible_seeds, scores_of
from longrun.lab.results.settings import Setting
from longrun.lab.results.statistics import (
    FEWEST_SEEDS,
    MOST_POINTS,
    improvement,
    mean_interval,
    thinned,
)
from longrun.lab.results.tables import estimate_text
from longrun.learning.envs.spaces import Array

Json = dict[str, Any]
ALL_POINTS = 150_000
"""Most points of all training curves together: a megabyte, however many runs there are."""


def page_data(folder: Folder) -> Json:
    """The page's numbers and text; its pictures are added later."""
    names, _ = shortened(each.found.label for each in folder.settings)
    options = about.options(folder.settings)
    rows = folder.comparison.rows if folder.comparison else []
    settings = _settings(folder, names, {each["name"] for each in options if each["differs"]})
    return {
        "title": about.title(folder.settings),
        "folder": str(folder.path),
        "made": f"{time.strftime('%Y-%m-%d %H:%M')} by longrun {__version__}",
        "result": _result(folder.comparison, names),
        "facts": about.facts(folder),
        "metrics": _metrics(settings),
        "filters": about.filters(options),
        "settings": settings,
        "unsettled": "".join(f" {note}" for note in unsettled_notes(rows, names)),
        "problems": [problem._asdict() for problem in folder.problems],
        "options": options,
        "command": about.command(folder),
        "runs": [
            {"name": run.path.name, "config": json.dumps(run.content, indent=1)}
            for run in folder.runs
        ],
        "frames": [],
    }


def _settings(folder: Folder, names: Mapping[str, str], differ: set[str]) -> list[Json]:
    points = _points_each([each.training for each in folder.settings])
    costs = folder.comparison.costs if folder.comparison else []
    kept = feasible_seeds(costs)
    found = []
    for each in folder.settings:
        key, evaluated, trained = each.found.key, each.evaluation, each.training
        found.append(
            {
                "env": each.found.env,
                "name": names[each.found.label],
                "label": each.found.label,
                "choices": {name: text for name, text in each.choices.items() if name in differ},
                "changed": sorted(about.changed_of(each) & differ),
                "evaluation": _curves(evaluated, _scored(evaluated), most=10_000),
                "training": _curves(trained, list(trained.values) if trained else [], points),
                "seeds": list((evaluated or each.found).seeds),
                "step": int(evaluated.steps[-1]) if evaluated else None,
                "best": False,
                "limits": {
                    COST + cost.cost: cost.limit
                    for cost in costs
                    if cost.key == key and cost.limit is not None
                },
                "kept": sum(kept[key]) if key in kept else None,
                "final": _final_figures(evaluated) if evaluated else {},
            }
        )
    if folder.comparison is not None:
        _add_statistics(folder.comparison, found)
    return found


def _scored(setting: Setting | None) -> list[str]:
    return [*SCORES, *(COST + name for name in costs_of(setting))] if setting else []


def _final_figures(setting: Setting) -> dict[str, Json]:
    """Mean over seeds and interval of the final score in each metric that all seeds have.

    Where there are too few seeds for an interval, the figure has their scores instead.
    """
    scores = {metric: scores_of(setting, metric)[0] for metric in _scored(setting)}
    return {
        metric: _with_ends([float(x) for x in mean_interval(own)], own)
        for metric, own in scores.items()
        if np.isfinite(own).all()
    }


def _add_statistics(comparison: Comparison, rows: Sequence[Json]) -> None:
    """Add interquartile means, and probabilities to beat the best setting of the environment."""
    places = {(row["env"], row["label"]): row for row in rows}
    for env in comparison.tasks:
        compared = comparison.scored(env)
        best = ranked(comparison, env)[0] if compared else ""
        for label, row in compared.items():
            found = places[env, label]
            found["best"] = label == best and len(compared) > 1
            found["final"]["iqm"] = _with_ends(row.aggregates["iqm"], np.array(row.scores))
            if label != best:
                wins = improvement(comparison.matrix(row), comparison.matrix(compared[best]))
                found["final"]["improvement"] = _with_ends(wins)


def _with_ends(figure: Sequence[float], seeds: Array | None = None) -> Json:
    """A value with the ends of its interval, or with the scores of the seeds if these are few."""
    value, low, high = map(_brief, figure)
    few = [] if seeds is None or len(seeds) >= FEWEST_SEEDS else seeds.tolist()
    return {"mean": value, "low": low, "high": high, "scores": [*map(_brief, few)]}


def _metrics(settings: Sequence[Json]) -> list[Json]:
    """The metrics that at least one setting has a curve of."""
    return [
        {"key": key, "label": metric_name(key), "kind": kind}
        for kind, first in (("evaluation", SCORES), ("training", TRAINING))
        for key in dict.fromkeys([*first, *(n for s in settings for n in s[kind]["curves"])])
        if any(key in setting[kind]["curves"] for setting in settings)
    ]


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


def _points_each(settings: Sequence[Setting | None]) -> int:
    """Number of points that each training curve may have."""
    drawn = [(s, len(s.seeds)) for s in settings if s is not None]
    curves = sum(len(s.values) * (seeds + 3 * (seeds > 1)) for s, seeds in drawn)  # mean, low, high
    return int(min(MOST_POINTS, max(20, ALL_POINTS // max(curves, 1))))


def _curves(setting: Setting | None, metrics: Sequence[str], most: int) -> Json:
    """The curves of each metric with finite values, of so many points at most."""
    if setting is None:
        return {"steps": [], "curves": {}}
    shown = {m: setting.values[m] for m in metrics if np.isfinite(setting.values[m]).any()}
    steps, _ = thinned(setting.steps, setting.steps[:, None], most)
    curves = {name: _curve(thinned(setting.steps, own, most)[1]) for name, own in shown.items()}
    return {"steps": steps.tolist(), "curves": curves}


def _curve(values: Array) -> Json:
    """A curve of values [K, seeds]; a single seed is its own mean, few seeds have no interval."""
    count = values.shape[1]
    names = ("mean", "low", "high") if count >= FEWEST_SEEDS else ("mean",) * (count > 1)
    with np.errstate(invalid="ignore", over="ignore"):  # a run that diverged has infinities
        middle = dict(zip(names, mean_interval(values), strict=False))
    seeds = [[*map(_brief, seed)] for seed in values.T]
    return {"seeds": seeds} | {name: [*map(_brief, own)] for name, own in middle.items()}


def _brief(value: float) -> float | None:
    """Five significant digits, which is enough for a curve; None for non-finite values."""
    return float(f"{value:.5g}") if math.isfinite(value) else None
