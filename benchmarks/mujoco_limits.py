"""Limits on MuJoCo tasks: the velocity tasks, and falls. Scores of runs as CSV, and their tables.

    python benchmarks/mujoco_limits.py RUN ... --repeats 5 --out results/limits/velocity.csv

evaluates the last policy of each run with drawn actions and with deterministic ones, in 5 times
10 000 steps (50 episodes), and adds both to the file; runs that it holds are left out.
`quoted_figures.py` writes the tables into the documents. The commands of the runs are in
results/limits.md.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from csv_rows import Row, rows_of, write_rows
from markdown_table import table

from longrun import read_results
from longrun.learning.algorithms import agent_of
from longrun.learning.runs.evaluation_report import EvaluationReport
from longrun.learning.train import checkpoint

RESULTS = Path(__file__).parents[1] / "results" / "limits"
STEPS = 10_000
"""of an evaluation"""
SEEDS = 1000
"""The seeds of evaluations are that of the run and multiples of this: none was trained with."""
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
LIMIT = 0.025
"""The velocity tasks' own; runs were trained with 0.02."""
FALLS = ("Hopper-v5", "Walker2d-v5", "Humanoid-v5")


def evaluated(run: Path, env: str, setting: str, repeats: int) -> Iterator[dict[str, Any]]:
    """The last policies of a run, evaluated `repeats` times in both ways."""
    saved = checkpoint.load(run)
    for replica, seed in enumerate(saved.seeds):
        agent = agent_of(saved.algorithm).from_checkpoint(saved, run, replica=replica)
        for deterministic in (False, True):
            found = [
                agent.evaluate(
                    STEPS, deterministic=deterministic, seed=SEEDS * (1 + k) + seed, warmup=0
                )
                for k in range(repeats)
            ]
            yield {
                "env": env,
                "setting": setting,
                "seed": seed,
                "steps": agent.steps_,
                "actions": "deterministic" if deterministic else "drawn",
                "average_reward": f"{mean(each.average_reward for each in found):.6g}",
                "episode_return": f"{mean(each.episode_return for each in found):.6g}",
                "episode_length": f"{mean(each.episode_length for each in found):.6g}",
                **_costs(found),
            }


def _costs(found: Sequence[EvaluationReport]) -> dict[str, str]:
    """Rates, and the lower end of the 95 % interval of `cost`; empty where there is none."""
    costs = {"cost": "", "cost_low": "", "terminated": ""}
    for name in found[0].costs:
        rate = mean(each.costs[name].rate for each in found)
        widths = [each.costs[name].rate - each.costs[name].low for each in found]
        low = rate - math.hypot(*widths) / len(widths)  # of independent evaluations
        known = {name: f"{rate:.6g}", f"{name}_low": f"{low:.6g}"}
        costs |= {column: text for column, text in known.items() if column in costs}
    return costs


def _by_setting(name: str) -> dict[tuple[str, str, str], list[Row]]:
    """(environment, setting, actions) -> rows, one for each seed."""
    found = defaultdict(list)
    for row in rows_of(RESULTS / name):
        found[row["env"], row["setting"], row["actions"]].append(row)
    return found


def _numbers(rows: Iterable[Row], column: str) -> list[float]:
    return [float(row[column]) for row in rows]


def velocity() -> str:
    """Return and cost of an episode of each seed, beside OmniSafe's."""
    heads = (
        "task, steps",
        "falls",
        "actions",
        "return of each seed",
        "mean",
        "cost in 1000 steps (limit 25)",
        "seeds that keep it",
        "PPOLag, 10M",
        "best feasible of OmniSafe, 10M",
    )
    found = _by_setting("velocity.csv")
    rows = []
    for task, theirs in OMNISAFE.items():
        for (env, setting, actions), own in found.items():
            if env == f"{task}Velocity-v5":
                returns, costs = _numbers(own, "episode_return"), _numbers(own, "cost")
                kept = sum(low <= LIMIT for low in _numbers(own, "cost_low"))
                cells = (
                    f"{task}, {int(own[0]['steps']) / 1e6:g}M",
                    setting,
                    actions,
                    ", ".join(f"{x:.0f}" for x in returns),
                    f"{mean(returns):.0f}",
                    ", ".join(f"{1000 * x:.0f}" for x in costs),
                    f"{kept} of {len(own)}",
                    *theirs,
                )
                rows.append(cells)
    return table(heads, rows)


def falls() -> str:
    """What is done about falls: reward rate, fall rate and episode return."""
    heads = (
        "task, steps",
        "terminations",
        "actions",
        "reward per step",
        "falls in 1000 steps",
        "episode return",
        "of each seed",
    )
    found = _by_setting("falls.csv")
    rows = []
    for task in FALLS:
        for (env, setting, actions), own in found.items():
            if env == task:
                returns = _numbers(own, "episode_return")
                cells = (
                    f"{env.removesuffix('-v5')}, {int(own[0]['steps']) // 1000}k",
                    setting,
                    actions,
                    f"{mean(_numbers(own, 'average_reward')):.2f}",
                    f"{1000 * mean(_numbers(own, 'terminated')):.2g}",
                    f"{mean(returns):.0f}",
                    ", ".join(f"{x:.0f}" for x in returns),
                )
                rows.append(cells)
    return table(heads, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--repeats", type=int, default=1, help="evaluations of each policy")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    rows: list[dict[str, Any]] = [*rows_of(given.out)] if given.out.exists() else []
    known = {(row["env"], row["setting"], int(row["seed"])) for row in rows}
    for run in given.runs:
        (setting,) = read_results([run])
        if all((setting.env, setting.label, seed) in known for seed in setting.seeds):
            continue
        rows += evaluated(run, setting.env, setting.label, given.repeats)
        rows.sort(key=lambda row: (row["env"], row["setting"], row["actions"], int(row["seed"])))
        write_rows(given.out, rows)
    print(f"{given.out}: {len(rows)} rows")


if __name__ == "__main__":
    main()
