"""The paper's figures, from a sweep of an experiment in `longrun.lab.paper.experiments`.

Where a line stands for several settings (PPO with one discount factor and several lambdas), the
setting with the best mean final return over seeds is shown, as in the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from longrun.base.files import write_bytes
from longrun.base.picture_files import picture
from longrun.lab.paper.experiments import CONSTRAINTS, DISCOUNTS, LAMBDAS, STEP_SIZES, TASKS
from longrun.lab.results.metric_names import metric_name
from longrun.lab.results.plot_style import DPI
from longrun.lab.results.plots import Panel, draw_panels
from longrun.lab.results.read import read_metrics, read_results
from longrun.lab.results.scores import scores_of
from longrun.lab.results.settings import Setting
from longrun.lab.results.tables import as_csv
from longrun.learning.envs.env_strings import split_env
from longrun.learning.envs.spaces import Array

RETURN, RATE, WITHIN = "episode_return", "average_reward", "episode_average_reward"
TABLE_METRICS = (RETURN, WITHIN, RATE)
OPTIONS = ("discount", "gae_lambda", "gain_step_size", "value_constraint", "value_discount")
"""What the settings of an experiment may differ in."""


def draw(experiment: str, sweep: Path) -> list[Path]:
    """Write the figure and the tables of an experiment into the sweep's folder; their paths."""
    if not any(sweep.glob("runs/*/evaluations.csv")):
        return []
    tasks = list(TASKS[experiment])
    settings = sorted(read_results(sweep), key=lambda setting: tasks.index(_task(setting)))
    pictures = [sweep / f"{experiment}.{ending}" for ending in ("png", "pdf", "svg")]
    FIGURES[experiment](settings, pictures)
    tables = {sweep / f"{experiment}.csv": _scores, sweep / "evaluations.csv": _evaluations}
    for file, rows in tables.items():
        write_bytes(file, as_csv([row for setting in settings for row in rows(setting)]).encode())
    return [*pictures, *tables]


def lines_of(settings: Sequence[Setting]) -> list[Setting]:
    """The best setting of each line of Figure 1, so labelled: APO, and PPO with each discount."""
    best: dict[tuple[str, str], Setting] = {}
    for setting in settings:
        discount = getattr(setting.config, "discount", None)
        name = "APO" if discount is None else f"PPO, discount {discount:g}"
        key = setting.env, name
        if key not in best or _score(setting) > _score(best[key]):
            best[key] = replace(setting, label=name)
    return list(best.values())


def _score(setting: Setting) -> float:
    """Mean over seeds of the final return; of the average reward if episodes do not end."""
    returns, rates = (scores_of(setting, metric)[0] for metric in (RETURN, RATE))
    return float((returns if np.isfinite(returns).all() else rates).mean())


def _task(setting: Setting) -> str:
    """The environment without its arguments, which are the same in all panels of a task."""
    return split_env(setting.env)[0]


def _title(settings: Sequence[Setting]) -> str:
    """The way in which an experiment was run, unless it is the paper's."""
    return "as in the authors' code" if _kind(settings[0])[1] == "authors" else ""


def _kind(setting: Setting) -> tuple[str, str]:
    """The algorithm and the way in which it was run: apo-authors is APO in the authors' way."""
    algorithm, _, way = setting.config.algorithm.partition("-")
    return algorithm, way or "paper"


def _by_task(settings: Sequence[Setting]) -> dict[str, list[Setting]]:
    tasks = dict.fromkeys(map(_task, settings))
    return {task: [s for s in settings if _task(s) == task] for task in tasks}


def _curves(settings: Sequence[Setting], outs: Sequence[Path], metrics: Sequence[str]) -> None:
    """A row for each metric, a column for each task."""
    lines = _by_task(lines_of(settings))
    grid = [
        [
            Panel(
                own,
                metric,
                title=task if metric == metrics[0] else "",
                ylabel=metric_name(metric) if column == 0 else "",
            )
            for column, (task, own) in enumerate(lines.items())
        ]
        for metric in metrics
    ]
    draw_panels(grid, outs, _title(settings))


def _figure2(settings: Sequence[Setting], outs: Sequence[Path]) -> None:
    """A row for each task: return on the left, the networks' average value on the right."""
    runs = [replica.run for setting in settings for replica in setting.replicas]
    averages = {setting.key: setting for setting in read_metrics(runs, ["value_mean"])}
    grid = []
    for task, own in _by_task(settings).items():
        names = [f"nu={vars(setting.config)['value_constraint']:g}" for setting in own]
        curves = {RETURN: own, "value_mean": [averages[setting.key] for setting in own]}
        grid.append(
            [
                Panel(
                    [replace(s, label=name) for s, name in zip(shown, names, strict=True)],
                    metric,
                    title=task,
                    ylabel=metric_name(metric),
                )
                for metric, shown in curves.items()
            ]
        )
    draw_panels(grid, outs, _title(settings))


def _grid(settings: Sequence[Setting], outs: Sequence[Path]) -> None:
    """Final returns of each task: APO for each alpha (lambda x nu), and PPO (lambda x gamma)."""
    tasks = _by_task(settings)
    columns = [f"APO, alpha = {alpha:g}" for alpha in STEP_SIZES] + ["PPO"]
    size = (3.6 * len(columns), 2.9 * len(tasks) + 0.4)
    with picture(*outs, size=size, dpi=DPI) as figure:
        figure.suptitle(_title(settings), fontsize=12)
        axes = figure.subplots(len(tasks), len(columns), squeeze=False)
        for row, (task, found) in zip(axes, tasks.items(), strict=True):
            own = {_cell(setting): _score(setting) for setting in found}
            low, high = min(own.values()), max(own.values())
            for axis, column in zip(row, columns, strict=True):
                across = DISCOUNTS if column == "PPO" else CONSTRAINTS
                scores = np.array(
                    [[own.get((column, lam, x), np.nan) for x in across] for lam in LAMBDAS]
                )
                axis.imshow(scores, vmin=low, vmax=high, cmap="viridis", aspect="auto")
                axis.set_xticks(range(len(across)), [f"{x:g}" for x in across])
                axis.set_yticks(range(len(LAMBDAS)), [f"{x:g}" for x in LAMBDAS])
                axis.set(xlabel="discount" if column == "PPO" else "nu", ylabel="lambda")
                axis.set_title(f"{task}: {column}", fontsize=10)
                _write_numbers(axis, scores, (low + high) / 2)


def _cell(setting: Setting) -> tuple[str, float, float]:
    """The panel, row and column of a setting in the figure of the grid."""
    options = vars(setting.config)
    if _kind(setting)[0] == "ppo":
        return "PPO", options["gae_lambda"], options["discount"]
    column = f"APO, alpha = {options['gain_step_size']:g}"
    return column, options["gae_lambda"], options["value_constraint"]


def _write_numbers(axis: Axes, scores: Array, middle: float) -> None:
    """Each score in its cell; white on the dark half of the colour map."""
    for (row, column), score in np.ndenumerate(scores):
        if np.isfinite(score):
            colour = "black" if score > middle else "white"
            axis.text(column, row, f"{score:.4g}", ha="center", va="center", color=colour, size=7)


Rows = list[dict[str, object]]
"""Rows of a CSV file."""


def _about(setting: Setting) -> dict[str, object]:
    """The first columns of the tables."""
    algorithm, way = _kind(setting)
    options = vars(setting.config)
    chosen = [f"{name}={options[name]:g}" for name in OPTIONS if options.get(name) is not None]
    who = {"env": setting.env, "algorithm": algorithm}
    return {**who, "way": way, "options": " ".join(chosen)}


def _scores(setting: Setting) -> Rows:
    """The mean final scores over seeds, and each seed's final return."""
    scores = {metric: scores_of(setting, metric)[0] for metric in TABLE_METRICS}
    row = _about(setting) | {"steps": int(setting.steps[-1]), "seeds": setting.seeds}
    row |= {metric: float(own.mean()) for metric, own in scores.items()}
    return [row | {f"{RETURN}_of_seeds": tuple(scores[RETURN].tolist())}]


def _evaluations(setting: Setting) -> Rows:
    """Every evaluation of every seed."""
    return [
        _about(setting)
        | {"seed": seed, "step": step}
        | {metric: float(setting.values[metric][row, column]) for metric in TABLE_METRICS}
        for column, seed in enumerate(setting.seeds)
        for row, step in enumerate(setting.steps.tolist())
    ]


FIGURES: Mapping[str, Callable[[Sequence[Setting], Sequence[Path]], None]] = {
    "figure1": partial(_curves, metrics=[RETURN]),
    "figure2": _figure2,
    "appendix": partial(_curves, metrics=TABLE_METRICS),
    "grid": _grid,
}
