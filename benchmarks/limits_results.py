"""Tables of learning under limits on costs; `quoted_figures.py` writes them into the documents."""

from __future__ import annotations

import csv
from pathlib import Path
from statistics import median

MEASURED = Path(__file__).parent / "results"
PROBLEMS = {
    "busy": "access control, busy servers <= 6",
    "rejected": "access control, rejected customers <= 0.5",
    "garnet": "Garnet model, cost <= 0.35",
}


def _rows(name: str) -> list[dict[str, str]]:
    with (MEASURED / name).open() as file:
        return list(csv.DictReader(file))


def against_the_optimum() -> str:
    """How far learned policies are from the exact constrained optimum, in the worst seed."""
    lines = [
        "| limit | algorithm | seeds | reward below the optimum, worst"
        " | cost above its limit, worst |",
        "|---|---|---|---|---|",
    ]
    rows = _rows("limits.csv")
    for problem, algorithm in dict.fromkeys((row["problem"], row["algorithm"]) for row in rows):
        own = [row for row in rows if (row["problem"], row["algorithm"]) == (problem, algorithm)]
        seeds = ", ".join(row["seed"] for row in own)
        below = max(float(row["gain below optimum %"]) for row in own)
        above = max(float(x) for row in own for x in row["costs above limit %"].split())
        words = PROBLEMS.get(problem, problem)
        cells = (words, algorithm.upper(), seeds, f"{below:.2f} %", f"{above:.2f} %")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def speed() -> str:
    """The time of an iteration of HalfCheetah with costs, over that without."""
    rows = _rows("limits-speed.csv")
    times: dict[str, dict[str, float]] = {}
    for row in rows:
        times.setdefault(row["variant"], {})[row["round"]] = float(row["seconds"])
    plain = times["no costs"]
    lines = ["| HalfCheetah-v5, APO, `tuned` | time of an iteration, over no costs |", "|---|---|"]
    for name, own in times.items():
        if name != "no costs":
            ratio = median(own[number] / plain[number] for number in plain)
            lines.append(f"| {name} | {ratio:.2f} |")
    return "\n".join(lines)
