"""What `longrun evaluate` prints: a line for each replica of a run."""

from __future__ import annotations

from collections.abc import Sequence

from longrun.lab.results.tables import TextTable, number_text, print_tables
from longrun.learning.runs.evaluation_report import EvaluationReport


def print_reports(rows: Sequence[tuple[str, EvaluationReport]], title: str) -> None:
    """One line for each evaluated replica, with the columns that some of them have."""
    reports = [report for _, report in rows]
    ended = any(report.episodes for report in reports)
    columns = {
        "replica": [name for name, _ in rows],
        "steps": [f"{r.steps:,}" for r in reports],
        "warm-up": [f"{r.warmup:,}" * any(each.warmup for each in reports) for r in reports],
        "average reward [95 %]": [_rate(r.average_reward, r.low, r.high) for r in reports],
        "episodes": [f"{r.episodes}" * ended for r in reports],
        "episode return (sd)": [_return(r) * ended for r in reports],
    }
    figures = {
        "length": [r.episode_length for r in reports],
        "reward per step in episodes": [r.episode_average_reward for r in reports],
    }
    for name, values in figures.items():
        cells = [f"{x:.4g}" if r.episodes else "-" for r, x in zip(reports, values, strict=True)]
        columns[name] = [cell * ended for cell in cells]
    for name in reports[0].costs:
        columns[f"{name} [95 %]"] = [_rate(*r.costs[name]) for r in reports]
    print_tables([TextTable(title, columns, _shortcomings(rows))])


def _rate(value: float, low: float, high: float) -> str:
    return f"{value:.4g} [{low:.4g}, {high:.4g}]"


def _return(report: EvaluationReport) -> str:
    if not report.episodes:
        return "-"
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
