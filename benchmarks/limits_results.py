"""Tables of learning under limits on costs; `quoted_figures.py` writes them into the documents."""

from __future__ import annotations

from pathlib import Path
from statistics import median

from csv_rows import Row, rows_of
from markdown_table import table

MEASURED = Path(__file__).parent / "results"
PROBLEMS = {
    "busy": "access control, `busy` <= 6",
    "rejected": "access control, `rejected` <= 0.5",
    "both": "access control, `busy` <= 6.5 and `rejected_2` <= 0.2",
    "n-model": "N-model, `customers_2` <= 0.6",
    "tandem": "tandem queue, `blocked` <= 0.18",
    "garnet-20": "Garnet of 20 states, `cost` <= 0.35",
    "garnet-30": "Garnet of 30 states, `cost` <= 0.35",
}
HEADS = (
    "limit",
    "without it",
    "algorithm",
    "reward below the optimum, each seed (%)",
    "cost above its limit, each seed (%)",
    "multiplier",
    "exact",
)


def against_the_optimum() -> str:
    """How far learned policies are from the exact constrained optimum, in every seed."""
    found = rows_of(MEASURED / "limits.csv")
    rows = []
    for problem, words in PROBLEMS.items():
        for algorithm in dict.fromkeys(row["algorithm"] for row in found):
            own = [r for r in found if (r["problem"], r["algorithm"]) == (problem, algorithm)]
            if own:
                rows.append(_cells(words, algorithm, own))
    return table(HEADS, rows)


def _cells(words: str, algorithm: str, rows: list[Row]) -> tuple[str, ...]:
    rows = sorted(rows, key=lambda row: int(row["seed"]))
    ranges = []
    for learned in zip(*(map(float, row["multipliers"].split()) for row in rows), strict=True):
        ranges.append(f"{min(learned):.3g} to {max(learned):.3g}")
    return (
        words,
        rows[0]["costs without limits"].replace(" ", "; "),
        algorithm.upper(),
        ", ".join(row["gain below optimum %"] for row in rows),
        ", ".join(row["costs above limit %"].replace(" ", "; ") for row in rows),
        "; ".join(ranges),
        rows[0]["exact multipliers"].replace(" ", "; "),
    )


def missed() -> str:
    """The seeds of each algorithm, and the rows beyond 2 %, as text."""
    rows = rows_of(MEASURED / "limits.csv")
    numbers: dict[str, set[int]] = {}
    for row in rows:
        numbers.setdefault(row["algorithm"].upper(), set()).add(int(row["seed"]))
    each = [f"{name} {min(own)} to {max(own)}" for name, own in numbers.items()]
    far = [
        f"{row['algorithm'].upper()} on `{row['problem']}`, seed {row['seed']}"
        f" ({row['gain below optimum %']} % below, {row['costs above limit %']} % above)"
        for row in rows
        if max(map(float, [row["gain below optimum %"], *row["costs above limit %"].split()])) > 2
    ]
    return f"Seeds: {', '.join(each)}. Beyond 2 %: {'; '.join(far) or 'none'}."


def speed() -> str:
    """The time of an iteration of HalfCheetah with costs, over that without."""
    times: dict[str, dict[str, float]] = {}
    for row in rows_of(MEASURED / "limits-speed.csv"):
        times.setdefault(row["variant"], {})[row["round"]] = float(row["seconds"])
    plain = times.pop("no costs")
    rows = [
        (name, f"{median(own[number] / plain[number] for number in plain):.2f}")
        for name, own in times.items()
    ]
    return table(
        (
            "HalfCheetah-v5, APO, `tuned` with its earlier values",
            "time of an iteration, over no costs",
        ),
        rows,
    )
