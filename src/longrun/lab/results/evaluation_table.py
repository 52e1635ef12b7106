"""What `longrun evaluate` prints: a line for each replica of a run."""

from __future__ import annotations

from collections.abc import Sequence

from longrun.lab.results.metric_names import metric_name
from longrun.lab.results.tables import TextTable, number_text, print_table
from longrun.learning.runs.evaluation_report import EvaluationReport


def print_reports(rows: Sequence[tuple[str, EvaluationReport]], title: str) -> None:
    """One line for each evaluated replica, with the columns that some of them have."""
    reports = [report for _, report in rows]
    columns = {
        "replica": [name for name, _ in rows],
        "steps": [f"{r.steps:,}" for r in reports],
    }
    if any(r.warmup for r in reports):
        columns["warm-up"] = [f"{r.warmup:,}" for r in reports]
    columns["average reward [95 %]"] = [_rate(r.average_reward, r.low, r.high) for r in reports]
    if any(r.episodes for r in reports):
        columns["episodes"] = [f"{r.episodes}" for r in reports]
        columns["episode return (sd)"] = [_return(r) if r.episodes else "-" for r in reports]
        for name in ("episode_length", "episode_average_reward"):
            figures = [f"{getattr(r, name):.4g}" if r.episodes else "-" for r in reports]
            columns[metric_name(name)] = figures
    for name in reports[0].costs:
        columns[f"{name} [95 %]"] = [_rate(*r.costs[name]) for r in reports]
    print_table(TextTable(title, columns, _shortcomings(rows)))


def _rate(value: float, low: float, high: float) -> str:
    return f"{value:.4g} [{low:.4g}, {high:.4g}]"


def _return(report: EvaluationReport) -> str:
    spread = f" ({number_text(report.episode_return_std, 3)})" if report.episodes > 1 else ""
    return f"{report.episode_return:.4g}{spread}"


def _shortcomings(rows: Sequence[tuple[str, EvaluationReport]]) -> list[str]:
    """What the steps of some replicas are too few for: an episode return, the long-run average."""
    without = [f"{name}: {r.unfinished}" for name, r in rows if r.unfinished]
    unsettled = [name for name, r in rows if not r.settled]
    found = []
    if without:
        reason = "no episode return where first episodes did not end within the steps"
        found.append(f"{reason} ({', '.join(without)}); evaluate more steps")
    if unsettled:
        found.append(f"not settled: {', '.join(unsettled)}; evaluate more steps")
    return found
