"""The paper's figures, from a sweep of an experiment in `longrun.lab.paper.experiments`.

Where a line stands for several settings (PPO with one discount factor and several lambdas), the
setting with the best mean final return over seeds is shown, as in the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from longrun.base.files import write_bytes
from longrun.base.picture_files import picture
from longrun.lab.paper.experiments import CONSTRAINTS, DISCOUNTS, LAMBDAS, STEP_SIZES
from longrun.lab.results.metric_names import metric_name
from longrun.lab.results.plot_style import DPI
from longrun.lab.results.plots import Panel, draw_panels
from longrun.lab.results.read import read_metrics, read_results
from longrun.lab.results.scores import scores_of
from longrun.lab.results.settings import Setting
from longrun.lab.results.tables import as_csv
from longrun.lab.sweeps.grids import Options
from longrun.lab.sweeps.sweep_folder import SweepFolder
from longrun.learning.envs.env_strings import split_env
from longrun.learning.envs.spaces import Array

RETURN, RATE, WITHIN = "episode_return", "average_reward", "episode_average_reward"
TABLE_METRICS = (RETURN, WITHIN, RATE)
TITLES = {"authors": "as in the authors' code"}
"""Titles of figures of an experiment that is run in another way than the paper's."""


@dataclass(frozen=True)
class Result:
    """One setting of the sweep with its evaluations."""

    env: str
    algorithm: str
    way: str
    """the preset: the paper's or the authors'"""
    options: Options
    evaluations: Setting

    @property
    def about(self) -> dict[str, object]:
        """The first columns of the tables."""
        options = " ".join(f"{name}={value:g}" for name, value in self.options.items())
        who = {"env": self.env, "algorithm": self.algorithm}
        return {**who, "way": self.way, "options": options}

    @property
    def score(self) -> float:
        """Mean over seeds of the final return; of the average reward if episodes do not end."""
        returns = scores_of(self.evaluations, RETURN)[0]
        if np.isfinite(returns).all():
            return float(returns.mean())
        return float(scores_of(self.evaluations, RATE)[0].mean())


def draw(experiment: str, sweep: Path) -> list[Path]:
    """Write the figure and the tables of an experiment into the sweep's folder; their paths."""
    results = read_experiment(sweep)
    if not results:
        return []
    pictures = [sweep / f"{experiment}.{ending}" for ending in ("png", "pdf", "svg")]
    FIGURES[experiment](results, pictures)
    tables = {f"{experiment}.csv": _table(results), "evaluations.csv": _evaluations(results)}
    for name, text in tables.items():
        write_bytes(sweep / name, text.encode())
    return [*pictures, *(sweep / name for name in tables)]


def read_experiment(sweep: Path) -> list[Result]:
    """Settings that have evaluations, in the sweep's order."""
    folder = SweepFolder.open(sweep)
    planned = {folder.folder(run): run for run in folder.runs}
    evaluated = [path for path in planned if (path / "evaluations.csv").exists()]
    results = []
    for setting in read_results(evaluated) if evaluated else []:
        run = planned[setting.replicas[0].run]
        results.append(Result(run.env, run.algorithm, run.preset, run.options, setting))
    return results


def lines_of(results: Sequence[Result]) -> list[Result]:
    """The best setting of each line of Figure 1: APO, and PPO with each discount."""
    best: dict[tuple[str, str], Result] = {}
    for result in results:
        name = _line(result)
        if (result.env, name) not in best or result.score > best[result.env, name].score:
            best[result.env, name] = result
    return list(best.values())


def _line(result: Result) -> str:
    """The label of the line of Figure 1 that a setting belongs to."""
    if result.algorithm == "apo":
        return "APO"
    return f"PPO, discount {result.options['discount']:g}"


def _curves(results: Sequence[Result], outs: Sequence[Path], metrics: Sequence[str]) -> None:
    """A row for each metric, a column for each task."""
    lines = lines_of(results)
    tasks = list(dict.fromkeys(line.env for line in lines))
    grid = [
        [
            Panel(
                [replace(r.evaluations, label=_line(r)) for r in lines if r.env == task],
                metric,
                title=_title(task) if metric == metrics[0] else "",
                ylabel=metric_name(metric) if task == tasks[0] else "",
            )
            for task in tasks
        ]
        for metric in metrics
    ]
    draw_panels(grid, outs, _figure_title(results))


def _figure_title(results: Sequence[Result]) -> str:
    """The way in which an experiment was run, unless it is the paper's."""
    return TITLES.get(results[0].way, "")


def _title(env: str) -> str:
    """The environment without its arguments, which are the same in all panels of a task."""
    return split_env(env)[0]


def _figure1(results: Sequence[Result], outs: Sequence[Path]) -> None:
    _curves(results, outs, [RETURN])


def _appendix(results: Sequence[Result], outs: Sequence[Path]) -> None:
    _curves(results, outs, TABLE_METRICS)


def _figure2(results: Sequence[Result], outs: Sequence[Path]) -> None:
    """A row for each task: return on the left, the networks' average value on the right."""
    runs = [replica.run for result in results for replica in result.evaluations.replicas]
    averages = {(s.env, s.label): s for s in read_metrics(runs, ["value_mean"])}
    tasks = list(dict.fromkeys(result.env for result in results))
    grid = []
    for task in tasks:
        own = [result for result in results if result.env == task]
        names = [f"nu={result.options['value_constraint']:g}" for result in own]
        values = [averages[r.evaluations.env, r.evaluations.label] for r in own]
        returns = [replace(r.evaluations, label=n) for r, n in zip(own, names, strict=True)]
        values = [replace(v, label=n) for v, n in zip(values, names, strict=True)]
        grid.append(
            [
                Panel(returns, RETURN, title=_title(task), ylabel=metric_name(RETURN)),
                Panel(values, "value_mean", title=_title(task), ylabel=metric_name("value_mean")),
            ]
        )
    draw_panels(grid, outs, _figure_title(results))


def _grid(results: Sequence[Result], outs: Sequence[Path]) -> None:
    """Final returns of each task: APO for each alpha (lambda x nu), and PPO (lambda x gamma)."""
    tasks = list(dict.fromkeys(result.env for result in results))
    columns = [f"APO, alpha = {alpha:g}" for alpha in STEP_SIZES] + ["PPO"]
    size = (3.6 * len(columns), 2.9 * len(tasks) + 0.4)
    with picture(*outs, size=size, dpi=DPI) as figure:
        figure.suptitle(_figure_title(results), fontsize=12)
        axes = figure.subplots(len(tasks), len(columns), squeeze=False)
        for row, task in zip(axes, tasks, strict=True):
            own = {_cell(r): r.score for r in results if r.env == task}
            low, high = min(own.values()), max(own.values())
            for axis, column in zip(row, columns, strict=True):
                across = DISCOUNTS if column == "PPO" else CONSTRAINTS
                scores = np.array(
                    [[own.get((column, lam, x), np.nan) for x in across] for lam in LAMBDAS]
                )
                axis.imshow(scores, vmin=low, vmax=high, cmap="viridis", aspect="auto")
                axis.set_xticks(range(len(across)), [f"{x:g}" for x in across])
                axis.set_yticks(range(len(LAMBDAS)), [f"{x:g}" for x in LAMBDAS])
                axis.set_xlabel("discount" if column == "PPO" else "nu")
                axis.set_ylabel("lambda")
                axis.set_title(f"{_title(task)}: {column}", fontsize=10)
                _write_numbers(axis, scores, (low + high) / 2)


def _cell(result: Result) -> tuple[str, float, float]:
    """The panel, row and column of a setting in the figure of the grid."""
    options = result.options
    if result.algorithm == "ppo":
        return "PPO", options["gae_lambda"], options["discount"]
    column = f"APO, alpha = {options['gain_step_size']:g}"
    return column, options["gae_lambda"], options["value_constraint"]


def _write_numbers(axis: Axes, scores: Array, middle: float) -> None:
    """Each score in its cell; white on the dark half of the colour map."""
    for (row, column), score in np.ndenumerate(scores):
        if np.isfinite(score):
            colour = "black" if score > middle else "white"
            axis.text(column, row, f"{score:.4g}", ha="center", va="center", color=colour, size=7)


def _table(results: Sequence[Result]) -> str:
    """CSV: for each setting the mean final scores over seeds, and each seed's final return."""
    rows = []
    for result in results:
        scores = {metric: scores_of(result.evaluations, metric) for metric in TABLE_METRICS}
        rows.append(
            result.about
            | {"steps": scores[RETURN][1], "seeds": " ".join(map(str, result.evaluations.seeds))}
            | {metric: f"{scores[metric][0].mean():.6g}" for metric in TABLE_METRICS}
            | {f"{RETURN}_of_seeds": " ".join(f"{score:.6g}" for score in scores[RETURN][0])}
        )
    return as_csv(rows)


def _evaluations(results: Sequence[Result]) -> str:
    """CSV: every evaluation of every seed."""
    rows = []
    for result in results:
        found = result.evaluations
        for column, seed in enumerate(found.seeds):
            for row, step in enumerate(found.steps):
                values = {m: f"{found.values[m][row, column]:.6g}" for m in TABLE_METRICS}
                rows.append(result.about | {"seed": seed, "step": step} | values)
    return as_csv(rows)


FIGURES: Mapping[str, Callable[[Sequence[Result], Sequence[Path]], None]] = {
    "figure1": _figure1,
    "figure2": _figure2,
    "appendix": _appendix,
    "grid": _grid,
}
