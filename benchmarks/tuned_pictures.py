"""Pictures of APO against PPO with the `tuned` preset, from the files of results.

    python benchmarks/tuned_pictures.py

writes results/tuned-3m/scores.png, results/tuned-3m/lambda.png and results/ablation/ablation.png.

    python benchmarks/tuned_pictures.py RUN ...

first writes results/tuned-3m/lambda.csv from the metrics of runs.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import ablation_results
import numpy as np
from csv_rows import rows_of, write_rows
from curves import name_of
from search_results import REFERENCES, TASKS
from tuned_results import LAMBDA, RESULTS, contestants, settings

from longrun.picture_files import picture
from longrun.results.plot_style import DPI, colours_of, tidy

EVERY, LAST = 10_000, 300_000
"""Steps between the points of lambda that are kept, and of the last one."""


def scores() -> None:
    """The final return of every seed on each task, beside Tianshou's."""
    places = settings()
    colours = colours_of(len(places))
    with picture(RESULTS / "scores.png", size=(13, 5.6), dpi=DPI) as figure:
        for axis, task in zip(figure.subplots(2, 3).flat, TASKS, strict=True):
            found = contestants(task)
            for place, setting in enumerate(places):
                returns = [float(row["episode_return"]) for row in found.get(setting, ())]
                if not returns:
                    continue
                sides = place + np.linspace(-0.12, 0.12, len(returns))
                axis.plot(sides, returns, "o", color=colours[place], alpha=0.7)
                axis.hlines(np.mean(returns), place - 0.25, place + 0.25, color=colours[place])
            axis.axhline(REFERENCES[task], color="grey", linestyle=":", linewidth=1)
            axis.set(title=task, ylabel="return at 3M steps", xlim=(-0.5, len(places) - 0.5))
            axis.set_ylim(0, 1.04 * axis.get_ylim()[1])
            axis.set_xticks(range(len(places)), [name_of(each) for each in places])
            tidy(axis)
        figure.supxlabel("points: seeds; lines: their mean; dotted: Tianshou's PPO", fontsize=9)


def collect_lambda(runs: Sequence[Path]) -> None:
    """Lambda of each run, a row for every `EVERY` steps up to `LAST`."""
    from longrun.results.read import read_metrics

    rows = [
        {"env": setting.env, "seed": f"{seed}", "step": f"{int(step)}", "lambda": f"{x:.4f}"}
        for setting in read_metrics(runs, ["lambda"])
        for column, seed in enumerate(setting.seeds)
        for step, x in zip(setting.steps, setting.values["lambda"][:, column], strict=True)
        if step % EVERY == 0 and step <= LAST
    ]
    write_rows(LAMBDA, sorted(rows, key=lambda r: (r["env"], int(r["seed"]))))


def lambdas() -> None:
    """The length of traces over the steps: a panel for each task, a line for each seed."""
    rows = rows_of(LAMBDA)
    with picture(RESULTS / "lambda.png", size=(13, 2.8), dpi=DPI) as figure:
        tasks = [task for task in TASKS if any(row["env"] == task for row in rows)]
        panels = figure.subplots(1, len(tasks), sharey=True)
        for axis, task in zip(panels, tasks, strict=True):
            for seed in sorted({row["seed"] for row in rows if row["env"] == task}):
                own = [r for r in rows if (r["env"], r["seed"]) == (task, seed)]
                steps = [int(row["step"]) / 1e3 for row in own]
                axis.plot(steps, [1 / (1 - float(row["lambda"])) for row in own], linewidth=0.8)
            axis.set(title=task, xlabel="thousand steps", yscale="log")
            axis.set_yticks([10, 100, 1000], ["10", "100", "1000"])
            axis.minorticks_off()
            tidy(axis)
        panels[0].set_ylabel("trace: 1 / (1 - lambda)")


def ablation() -> None:
    """What each part of the preset gives: the final return of every seed, a row for each part."""
    parts, tasks = ablation_results.PARTS, ablation_results.TASKS
    with picture(ablation_results.RESULTS / "ablation.png", size=(11, 4), dpi=DPI) as figure:
        panels = figure.subplots(1, len(tasks), sharey=True)
        for axis, task in zip(panels, tasks, strict=True):
            whole = ablation_results.returns(ablation_results.WHOLE, task).mean()
            axis.axvline(whole, color="grey", linestyle=":", linewidth=1)
            for place, label in enumerate(parts):
                returns = ablation_results.returns(label, task)
                sides = place + np.linspace(-0.2, 0.2, len(returns))
                (points,) = axis.plot(returns, sides, "o", alpha=0.7, markersize=5)
                if len(returns):
                    colour = points.get_color()
                    axis.vlines(returns.mean(), place - 0.35, place + 0.35, color=colour)
            axis.set(title=task, xlabel="return", xlim=(min(0, axis.get_xlim()[0]), None))
            axis.set_yticks(range(len(parts)), [words.replace("`", "") for words in parts.values()])
            tidy(axis)
        panels[0].invert_yaxis()
        figure.supxlabel("points: seeds; lines: their mean; dotted: tuned", fontsize=9)


if __name__ == "__main__":
    if sys.argv[1:]:
        collect_lambda([Path(each) for each in sys.argv[1:]])
    scores()
    lambdas()
    ablation()
