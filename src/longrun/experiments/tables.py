"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.console import Console
from rich.table import Table

from longrun.envs.spaces import Array
from longrun.experiments.results import Setting, mean_interval
from longrun.train.evaluation import EvaluationReport


def print_final(settings: Sequence[Setting]) -> None:
    """Each setting's last evaluation: mean over seeds with a 95 % interval."""
    environments = ", ".join(sorted({setting.env for setting in settings}))
    table = Table(title=f"{environments}: last evaluation, mean over seeds [95 % interval]")
    table.add_column("setting", overflow="fold")
    for column in ("seeds", "steps", "average reward", "episode return"):
        table.add_column(column, justify="right")
    for setting in settings:
        name = setting.label if "," not in environments else f"{setting.env} {setting.label}"
        evaluated = len(setting.steps) > 0
        metrics = ("average_reward", "episode_return")
        table.add_row(
            name,
            str(len(setting.seeds)),
            f"{setting.steps[-1]:,}" if evaluated else "-",
            *(_with_interval(setting.values[m][-1]) if evaluated else "-" for m in metrics),
        )
    Console().print(table)


def print_reports(rows: Sequence[tuple[str, EvaluationReport]]) -> None:
    """One line for each evaluated replica."""
    table = Table(title="Deterministic policy")
    for column in (
        "replica",
        "steps",
        "average reward [95 %]",
        "episode return",
        "length",
        "reward per step in episodes",
    ):
        table.add_column(column, justify="left" if column == "replica" else "right")
    for name, report in rows:
        table.add_row(
            name,
            f"{report.steps:,}",
            f"{report.average_reward:.4g} [{report.low:.4g}, {report.high:.4g}]",
            *(f"{x:.4g}" if report.episodes else "-" for x in _episode_figures(report)),
        )
    Console().print(table)


def _episode_figures(report: EvaluationReport) -> tuple[float, float, float]:
    return report.episode_return, report.episode_length, report.episode_average_reward


def _with_interval(values: Array) -> str:
    if np.isnan(values).any():
        return "-"
    mean, low, high = (float(x) for x in mean_interval(values))
    if len(values) < 2:
        return f"{mean:.4g}"
    return f"{mean:.4g} [{low:.3g}, {high:.3g}]"
