"""Limits on MuJoCo tasks: the velocity tasks, and falls. Scores of runs as CSV, and their tables.

    python benchmarks/mujoco_limits.py RUNS --out results/limits/velocity.csv

writes one row for each seed of the settings in RUNS; `quoted_figures.py` writes the tables into the
documents. The commands of the runs are in results/RESULTS.md.
"""

from __future__ import annotations

import argparse
import csv
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from statistics import mean
from typing import Any

from longrun import read_results
from longrun.results.limits import COST, cost_rates
from longrun.results.statistics import scores_of

RESULTS = Path(__file__).parents[1] / "results" / "limits"
METRICS = ("average_reward", "episode_return", "episode_length")
OMNISAFE = {
    "HalfCheetah": ("2946 / 3", "2965 / 2 (FOCOPS)"),
    "Hopper": ("962 / 14", "1716 / 7 (CUP)"),
    "Walker2d": ("2982 / 13", "3207 / 15 (TRPOLag)"),
    "Ant": ("3262 / 12", "3262 / 12 (PPOLag)"),
    "Swimmer": ("65 / 28", "91 / 19 (CPPOPID)"),
    "Humanoid": ("6624 / 6", "6624 / 6 (PPOLag)"),
}
"""Return and cost an episode of PPOLag and of its best feasible algorithm after 10M steps, from
its published benchmark on safety-gymnasium's tasks."""
FALLS = ("Hopper-v5", "Walker2d-v5", "Humanoid-v5")


def rows_of(paths: list[Path]) -> list[dict[str, Any]]:
    """Final scores of each seed, with the rate of each cost and whether its limit is kept."""
    rows = []
    for setting in read_results(paths):
        scores = {metric: scores_of(setting, metric) for metric in METRICS}
        for k, seed in enumerate(setting.seeds):
            row: dict[str, Any] = {"env": setting.env, "setting": setting.label, "seed": seed}
            row["steps"] = scores[METRICS[0]][1]
            row |= {metric: f"{scores[metric][0][k]:.6g}" for metric in METRICS}
            for cost in cost_rates([setting]):
                row[COST + cost.cost] = f"{cost.rates[k]:.6g}"
                row[f"{COST}{cost.cost}_low"] = f"{cost.lows[k]:.6g}"
            rows.append(row)
    return sorted(rows, key=lambda row: (row["env"], row["setting"], row["seed"]))


def _by_setting(name: str) -> dict[tuple[str, str], list[dict[str, str]]]:
    """(environment, setting) -> rows, one for each seed."""
    found = defaultdict(list)
    with (RESULTS / name).open() as file:
        for row in csv.DictReader(file):
            found[row["env"], row["setting"]].append(row)
    return found


def _numbers(rows: Iterable[dict[str, str]], column: str) -> list[float]:
    return [float(row[column]) for row in rows]


def velocity() -> str:
    """Return and cost of an episode of each seed, beside OmniSafe's."""
    lines = [
        "| task | steps | return of each seed | mean | speed cost in 1000 steps (limit 25)"
        " | seeds that keep the limit | OmniSafe, 10M steps: PPOLag | its best feasible |",
        "|---|---|---|---|---|---|---|---|",
    ]
    found = _by_setting("velocity.csv")
    for task, (lagrangian, best) in OMNISAFE.items():
        for (env, _), rows in found.items():
            if env != f"{task}Velocity-v5":
                continue
            returns, costs = _numbers(rows, "episode_return"), _numbers(rows, "cost_cost")
            kept = sum(low <= 0.025 for low in _numbers(rows, "cost_cost_low"))
            cells = (
                task,
                f"{int(rows[0]['steps']) / 1e6:g}M",
                ", ".join(f"{x:.0f}" for x in returns),
                f"{mean(returns):.0f}",
                ", ".join(f"{1000 * x:.0f}" for x in costs),
                f"{kept} of {len(rows)}",
                lagrangian,
                best,
            )
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def falls() -> str:
    """What is done about falls: reward rate, fall rate and episode return."""
    lines = [
        "| task | terminations | reward per step | falls in 1000 steps | episode return"
        " | of each seed | length |",
        "|---|---|---|---|---|---|---|",
    ]
    found = _by_setting("falls.csv")
    for task in FALLS:
        for (env, setting), rows in found.items():
            if env == task:
                returns = _numbers(rows, "episode_return")
                cells = (
                    f"{env.removesuffix('-v5')}, {int(rows[0]['steps']) / 1e6:g}M",
                    setting,
                    f"{mean(_numbers(rows, 'average_reward')):.2f}",
                    f"{1000 * mean(_numbers(rows, 'cost_terminated')):.2g}",
                    f"{mean(returns):.0f}",
                    ", ".join(f"{x:.0f}" for x in returns),
                    f"{mean(_numbers(rows, 'episode_length')):.0f}",
                )
                lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    rows = rows_of(given.runs)
    with given.out.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(name for row in rows for name in row)))
        writer.writeheader()
        writer.writerows(rows)
    print(f"{given.out}: {len(rows)} rows")


if __name__ == "__main__":
    main()
