"""A comparison as text tables, and as rows for a CSV: what `longrun compare` prints and writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from longrun.lab.results.comparison import Comparison, Row
from longrun.lab.results.labels import shortened
from longrun.lab.results.limits import CostRates, feasible_seeds
from longrun.lab.results.metric_names import metric_name
from longrun.lab.results.statistics import COVERED, FEWEST_EVALUATIONS, FEWEST_SEEDS, ScoreEstimate
from longrun.lab.results.tables import TextTable, estimate_text, number_text, with_interval


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
        if costs := [each for each in found.costs if each.env == env]:
            tables.append(cost_table(env, costs, short))
    return tables


def cost_table(env: str, costs: Sequence[CostRates], short: Mapping[str, str]) -> TextTable:
    """The final rate of each cost, and how many seeds keep all limits."""
    names = list(dict.fromkeys(each.cost for each in costs))
    limited = any(each.limit is not None for each in costs)
    lines = []
    for label in dict.fromkeys(each.label for each in costs):
        of = {each.cost: each for each in costs if each.label == label}
        line = [short[label], str(len(next(iter(of.values())).rates))]
        for name in names:
            line.append(with_interval(np.array(of[name].rates)) if name in of else "-")
            line += [_limit_text(of.get(name))] * limited
        kept = [each for each in of.values() if each.limit is not None]
        lines.append([*line, *([str(feasible_seeds(kept)) if kept else "-"] * limited)])
    header = ["setting", "seeds"]
    for name in names:
        header += [name, *(["limit"] * limited)]
    title = f"{env}: costs per step, final, mean over seeds [nominal 95 % interval]"
    note = "limits kept: seeds of which no cost has a 95 % interval that is all above its limit"
    return TextTable(title, header + ["limits kept"] * limited, lines, note if limited else "")


def _limit_text(cost: CostRates | None) -> str:
    return "-" if cost is None or cost.limit is None else f"{cost.limit:g}"


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
    place = rows[0].env or (
        f"{_tasks_text(found, first)}, each from 0 (worst seed) to 1 (best seed)"
    )
    title = f"{place}: interquartile mean over seeds [nominal 95 % interval]"
    notes = _notes(metric_name(first), over_all, baseline, short, found)
    notes += _tasks_left_out(metrics, found) if over_all else []
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


def _tasks_text(found: Comparison, metric: str) -> str:
    count = len(found.tasks_of(metric))
    return f"{count} task{'s' * (count != 1)}"


def _tasks_left_out(metrics: Sequence[str], found: Comparison) -> list[str]:
    """Notes naming tasks left out since seeds lack a score, as returns where no episode ends."""
    notes = []
    for metric in metrics:
        counted = found.tasks_of(metric)
        without = [task for task in found.tasks if task not in counted]
        if without:
            notes.append(f"{metric_name(metric)} without {', '.join(without)}: seeds lack a score")
    return notes


def _cautions(rows: Sequence[Row], short: Mapping[str, str]) -> list[str]:
    """Scores of few evaluations, what intervals cover, and aggregates of few seeds."""
    counted = [row for row in rows if row.evaluations is not None]
    few = [row for row in counted if (row.evaluations or 0) < FEWEST_EVALUATIONS]
    found = []
    if few:
        names = ", ".join(dict.fromkeys(short[row.label] for row in few))
        whose = "each final score" if len(few) == len(counted) else f"the final score of {names}"
        often = min(row.steps or 0 for row in few) // 20
        found.append(f"only 1 evaluation counts in {whose}; --eval-every {often} gives more")
    found += unsettled_notes(
        (short[row.label], row.unsettled, row.seeds * (row.evaluations or 0))
        for row in rows
        if row.unsettled is not None
    )
    shown = [np.isfinite(row.aggregates["iqm"].low) for row in rows if row.aggregates]
    if any(shown):
        better = any(row.improvement for row in rows)
        of_better = f", those of P(better) {COVERED['improvement']}" if better else ""
        found.append(
            f"intervals of {FEWEST_SEEDS} seeds cover {COVERED['iqm']} in simulations{of_better}"
        )
    if not all(shown):
        instead = "" if rows[0].env == "" else "; (scores of the seeds) instead"
        found.append(f"no interval for fewer than {FEWEST_SEEDS} seeds{instead}")
    return found


def unsettled_notes(counts: Iterable[tuple[str, int, int]]) -> list[str]:
    """A note if evaluations had not settled: (setting, how many of them, of how many) of each."""
    counts = list(counts)
    names = ", ".join(f"{name}: {unsettled}" for name, unsettled, _ in counts if unsettled)
    if not names:
        return []
    of = f"{sum(each[1] for each in counts)} of {sum(each[2] for each in counts)}"
    return [
        f"{of} evaluations in the final scores had not settled ({names});"
        " --eval-steps N gives longer ones"
    ]


def raw_rows(found: Comparison) -> list[dict[str, object]]:
    """The rows of a CSV file: one for each task, setting and metric."""
    lines = []
    for row in found.rows:
        line: dict[str, object] = {
            "env": row.env or f"{_tasks_text(found, row.metric)}, normalised",
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
    return [*lines, *(_cost_line(each, lines[0]) for each in found.costs)] if lines else []


def _cost_line(cost: CostRates, names: Mapping[str, object]) -> dict[str, object]:
    """A row of the CSV about a cost; `limit` and `kept` are columns of such rows alone."""
    line: dict[str, object] = dict.fromkeys(names, "")
    return line | {
        "env": cost.env,
        "setting": cost.label,
        "metric": f"cost_{cost.cost}",
        "seeds": len(cost.rates),
        "scores": " ".join(f"{rate:.6g}" for rate in cost.rates),
        "mean": f"{np.mean(cost.rates):.6g}",
        "limit": "" if cost.limit is None else f"{cost.limit:.6g}",
        "kept": "" if cost.limit is None else sum(cost.kept),
    }


def _flat(name: str, found: ScoreEstimate | None) -> dict[str, object]:
    numbers = found or ScoreEstimate(*[float("nan")] * 3)
    names = (name, f"{name}_low", f"{name}_high")
    return {n: "" if np.isnan(x) else f"{x:.6g}" for n, x in zip(names, numbers, strict=True)}
