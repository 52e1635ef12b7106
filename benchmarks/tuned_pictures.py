"""Pictures of APO against PPO with the `tuned` preset, from the files of results.

    python benchmarks/tuned_pictures.py

writes results/tuned-3m/scores.png, results/lambda/agreement.png and results/ablation/ablation.png.
"""

from __future__ import annotations

import ablation_results
import numpy as np
from csv_rows import rows_of
from curves import name_of
from lambda_results import AGREEMENT, LAMBDA, SMALL_AGREEMENT
from search_results import TASKS
from tuned_results import RESULTS, contestants, is_fresh, returns, setting_of, settings

from longrun.base.picture_files import picture
from longrun.lab.results.plot_style import DPI, tidy
from longrun.learning.learn.trace import AGREEMENT as AGREED

COLOURS = {"APO": "#0a6fb8", "PPO 0.99": "#d1495b", "PPO 0.995": "#e8963c", "PPO 0.999": "#8a8f98"}
"""Those of `examples/maintenance_picture.py`, and one more."""


def scores() -> None:
    """The final return of every seed on each task."""
    places = settings()
    with picture(RESULTS / "scores.png", size=(13, 5.6), dpi=DPI) as figure:
        for axis, task in zip(figure.subplots(2, 3).flat, TASKS, strict=True):
            found = contestants(task)
            for place, setting in enumerate(places):
                own, colour = found[setting], COLOURS[name_of(setting)]
                sides = place + np.linspace(-0.22, 0.22, len(own))
                for side, row, value in zip(sides, own, returns(own), strict=True):
                    inside = "none" if is_fresh(row) else colour
                    axis.plot(side, value, "o", color=colour, markerfacecolor=inside, alpha=0.7)
                axis.hlines(returns(own).mean(), place - 0.3, place + 0.3, color=colour)
            axis.set(title=task, ylabel="return at 3M steps", xlim=(-0.5, len(places) - 0.5))
            axis.set_ylim(0, 1.04 * axis.get_ylim()[1])
            axis.set_xticks(range(len(places)), [name_of(each) for each in places])
            tidy(axis)
        words = "points: seeds; rings: APO's seeds 5 to 9; lines: means"
        figure.supxlabel(words, fontsize=9)


def agreement() -> None:
    """How far halves of the first batches agree on what longer traces change, for each seed."""
    found = [
        row | {"name": name_of(setting_of(row))}
        for path in (AGREEMENT, SMALL_AGREEMENT)
        for row in rows_of(path)
    ]
    names = sorted({row["name"] for row in found})
    with picture(LAMBDA / "agreement.png", size=(13, 4.6), dpi=DPI) as figure:
        tasks = dict.fromkeys([*TASKS, *(row["env"] for row in found)])
        axis = figure.subplots()
        for place, task in enumerate(tasks):
            for side, name in zip(np.linspace(-0.27, 0.27, len(names)), names, strict=True):
                own = [r for r in found if (r["env"], r["name"]) == (task, name)]
                values = [float(row["agreement"]) for row in own]
                label = name if place == 0 else None
                x = [place + side * (task in TASKS)] * len(own)
                axis.plot(x, values, "o", color=COLOURS[name], alpha=0.6, markersize=4, label=label)
        axis.axhline(AGREED, color="grey", linestyle=":", linewidth=1)
        axis.set_xticks(range(len(tasks)), list(tasks), rotation=20, ha="right", fontsize=9)
        axis.set_ylabel("agreement of the halves")
        tidy(axis)
        axis.legend(fontsize=8)
        figure.supxlabel("points: seeds; above the dotted line lambda starts long", fontsize=9)


def ablation() -> None:
    """What each part of the preset gives: the final return of every seed, a row for each part."""
    parts, tasks = ablation_results.PARTS, ablation_results.TASKS
    with picture(ablation_results.RESULTS / "ablation.png", size=(11, 6), dpi=DPI) as figure:
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
    scores()
    agreement()
    ablation()
