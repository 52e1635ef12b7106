"""A comparison as text tables, and as rows for a CSV: what `longrun compare` prints and writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from longrun.results.comparison import Comparison, Row
from longrun.results.labels import shortened
from longrun.results.metric_names import metric_name
from longrun.results.statistics import FEWEST_EVALUATIONS, FEWEST_SEEDS, ScoreEstimate
from longrun.results.tables import TextTable, estimate_text, number_text


def text_tables(found: Comparison) -> list[TextTable]:
    """One table for each task, and one over all of them where there are several."""
    short, shared = shortened(row.label for row in found.rows)
    metrics = list(dict.fromkeys(row.metric for row in found.rows))
    tables = []
    for env in dict.fromkeys(row.env for row in found.rows):
        rows = [row for row in found.rows if row.env == env]
        shown = [m for m in metrics if any(r.aggregates for r in rows if r.metric == m)]
        if shown:
            tables.append(_text_table(rows, shown, short, found, shared))
    return tables


def _text_table(
    rows: Sequence[Row],
    metrics: Sequence[str],
    short: Mapping[str, str],
    found: Comparison,
    shared: str,
) -> TextTable:
    """Interquartile means in all metrics; mean, median and P(better) of the first metric alone."""
    over_all, baseline = rows[0].env == "", found.baselines.get(rows[0].env)
    aspects = ("mean", "median") if over_all else ("mean",)
    first, *others = metrics
    header = ["setting", *(["runs"] if over_all else ["seeds", "steps"]), metric_name(first)]
    header += [*aspects, "P(better)", *map(metric_name, others)]
    lines = []
    for label in dict.fromkeys(row.label for row in rows):
        of = {row.metric: row for row in rows if row.label == label}
        main = of[first]
        line = [short[label], str(main.seeds), *([] if over_all else [f"{main.steps:,}"])]
        line += [estimate_text(main.aggregates.get("iqm"), main.scores)]
        line += [
            number_text(main.aggregates[a].value, 4) if main.aggregates else "-" for a in aspects
        ]
        line += ["baseline" if label == baseline else estimate_text(main.improvement)]
        rest = [of[metric] for metric in others]
        line += [estimate_text(row.aggregates.get("iqm"), row.scores) for row in rest]
        lines.append(line)
    place = rows[0].env or f"{len(found.tasks)} tasks, each from 0 (worst seed) to 1 (best seed)"
    title = f"{place}: interquartile mean over seeds [nominal 95 % interval]"
    notes = _notes(metric_name(first), over_all, baseline, short, found)
    notes += [f"all with {shared}"] if shared else []
    notes += _cautions(rows, short)
    return TextTable(title, header, lines, "; ".join(notes))


def _notes(
    metric: str, over_all: bool, baseline: str | None, short: Mapping[str, str], found: Comparison
) -> list[str]:
    notes = []
    if baseline is not None:
        notes.append(
            f"P(better): probability that a seed has more {metric} than one of {short[baseline]}"
        )
    if over_all and found.partial:
        notes.append(f"not on all tasks: {', '.join(short[label] for label in found.partial)}")
    return notes


def _cautions(rows: Sequence[Row], short: Mapping[str, str]) -> list[str]:
    """Scores of few evaluations, and aggregates of few seeds."""
    counts = {row.label: row.evaluations for row in rows if row.evaluations is not None}
    few = {label: count for label, count in counts.items() if count < FEWEST_EVALUATIONS}
    found = []
    if few:
        listed = ", ".join(f"{short[label]}: {count}" for label, count in few.items())
        found.append(
            f"fewer than {FEWEST_EVALUATIONS} evaluations in the last tenth of training ({listed})"
        )
    if any(row.aggregates and np.isnan(row.aggregates["iqm"].low) for row in rows):
        instead = "" if rows[0].env == "" else "; (scores of the seeds) instead"
        found.append(f"no interval for fewer than {FEWEST_SEEDS} seeds{instead}")
    return found


def raw_rows(found: Comparison) -> list[dict[str, object]]:
    """For a CSV: a row for each task, setting and metric."""
    lines = []
    for row in found.rows:
        line: dict[str, object] = {
            "env": row.env or f"{len(found.tasks)} tasks, normalised",
            "setting": row.label,
            "metric": row.metric,
            "seeds": row.seeds,
            "steps": "" if row.steps is None else row.steps,
            "evaluations": "" if row.evaluations is None else row.evaluations,
            "scores": " ".join(f"{score:.6g}" for score in row.scores),
        }
        for name in ("iqm", "mean", "median"):
            line |= _flat(name, row.aggregates.get(name))
        lines.append(
            line
            | {"baseline": found.baselines.get(row.env, "")}
            | _flat("improvement", row.improvement)
        )
    return lines


def _flat(name: str, found: ScoreEstimate | None) -> dict[str, object]:
    numbers = found or ScoreEstimate(*[float("nan")] * 3)
    names = (name, f"{name}_low", f"{name}_high")
    return {n: "" if np.isnan(x) else f"{x:.6g}" for n, x in zip(names, numbers, strict=True)}
