"""How often nominal 95 % intervals over seeds cover the truth, for known laws of the scores.

    python benchmarks/interval_coverage.py            # results/interval-coverage.csv; one core

The scores of a seed on a task are drawn from a law, and the truth is what very many seeds would
give. Six tasks have different locations and spreads. `longrun` marks the method that tables and
figures use; the others are what was compared with it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from csv_rows import rows_of, write_rows
from markdown_table import table

from longrun.base.student import student_quantile
from longrun.lab.results.statistics import (
    AGGREGATES,
    TRIMMED,
    ends,
    profile,
    pseudo_score_interval,
    resampled,
)

OUT = Path(__file__).parents[1] / "results" / "interval-coverage.csv"
SEEDS = (3, 5, 10)
TASKS: dict[int, tuple[np.ndarray, np.ndarray]] = {
    1: (np.zeros(1), np.ones(1)),
    6: (np.array([0, 0.5, 1, -0.5, 0, 2]), np.array([1, 0.5, 1, 2, 0.3, 1])),
}
"""Location and scale of each task."""
MANY = 400_000
"""Seeds from which the truth is computed."""
RESAMPLES = 1000
"""Samples of the bootstrap of probabilities and shares, which is for comparison."""
PERCENTILES = (0.025, 0.975)

Law = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]
Case = dict[str, Any]


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.normal(size=shape)


def lognormal(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return np.exp(rng.normal(size=shape))


def bimodal(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Three of ten seeds fail: they are near 0, the others near 1."""
    return (rng.random(shape) < 0.7) + 0.1 * rng.normal(size=shape)


def constant(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return np.full(shape, 0.5)


LAWS: dict[str, Law] = {"normal": normal, "lognormal": lognormal, "bimodal": bimodal}
PAIRS: dict[str, tuple[Law, Law, float, tuple[float, ...]]] = {
    "normal, equal": (normal, normal, 1, (0,)),
    "normal, 1 higher": (normal, normal, 1, (1,)),
    "normal, 2 higher": (normal, normal, 1, (2,)),
    "lognormal, 3 times": (lognormal, lognormal, 3, (0,)),
    "bimodal, equal": (bimodal, bimodal, 1, (0,)),
    "normal, 4 times the spread": (normal, normal, 4, (0,)),
    "bimodal against a constant": (bimodal, constant, 1, (0,)),
    "normal, 2 higher and lower": (normal, normal, 1, (2, -2)),
}
"""Laws of both sides; the first is scaled, and shifted by the given numbers on tasks in turn."""
SHARES = (0.5, 0.8, 0.95)
"""The shares of runs above three thresholds of a profile."""


def student(scores: np.ndarray) -> tuple[float, float]:
    """For the mean over tasks, with Satterthwaite's degrees of freedom."""
    return _of_variances(scores.mean(), scores.var(0, ddof=1), scores)


def winsorised(scores: np.ndarray) -> tuple[float, float]:
    """For the interquartile mean: Student's with winsorised variances (Tukey and McLaughlin)."""
    pooled = np.sort(scores, axis=None)
    cut = int(TRIMMED * scores.size)
    inner = scores.size - 2 * cut
    spread = np.clip(scores, pooled[cut], pooled[-1 - cut]).var(0, ddof=1)
    factor = (scores.size / inner) ** 2
    freedom = inner - 1 if scores.shape[1] == 1 else None
    return _of_variances(pooled[cut : scores.size - cut].mean(), factor * spread, scores, freedom)


def _of_variances(
    value: float, variances: np.ndarray, scores: np.ndarray, freedom: float | None = None
) -> tuple[float, float]:
    seeds, tasks = scores.shape
    of_mean = variances / seeds / tasks**2
    if not of_mean.any():
        return value, value
    own = of_mean.sum() ** 2 / (of_mean**2).sum() * (seeds - 1)
    reach = student_quantile(freedom or own, 0.95) * np.sqrt(of_mean.sum())
    return value - reach, value + reach


def drawn(law: Law, seeds: int, tasks: int, rng: np.random.Generator) -> np.ndarray:
    """Scores [seeds, tasks]."""
    location, scale = TASKS[tasks]
    return law(rng, (seeds, tasks)) * scale + location


def aggregates(seeds: int, tasks: int, name: str, repeats: int) -> Iterator[Case]:
    """Interquartile mean, mean and median."""
    rng = np.random.default_rng([0, seeds, tasks])
    many = drawn(LAWS[name], MANY, tasks, rng)
    truth = {each: float(function(many)) for each, function in AGGREGATES.items()}
    closed = {"mean": {"Student": student}, "iqm": {"winsorised Student": winsorised}}
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for _ in range(repeats):
        scores = drawn(LAWS[name], seeds, tasks, rng)
        samples = resampled(scores, rng)
        for each, function in AGGREGATES.items():
            own = function(samples)
            low, high = np.quantile(own, PERCENTILES)
            found.setdefault((each, "percentile"), []).append((low, high))
            low, high = ends(own, scores)
            found.setdefault((each, "longrun"), []).append((low, high))
            for method, interval in closed.get(each, {}).items():
                found.setdefault((each, method), []).append(interval(scores))
    for (each, method), intervals in found.items():
        yield covered(each, tasks, seeds, name, method, intervals, truth[each])


def improvements(seeds: int, tasks: int, name: str, repeats: int) -> Iterator[Case]:
    """The mean over tasks of the probability to beat the other side."""
    rng = np.random.default_rng([1, seeds, tasks])
    law, other, scale, shift = PAIRS[name]

    def sides(count: int) -> tuple[np.ndarray, np.ndarray]:
        shape = count, tasks
        return scale * law(rng, shape) + np.resize(shift, tasks), other(rng, shape)

    own, against = sides(MANY)
    truth = float((own > against).mean() + 0.5 * (own == against).mean())
    counts = np.full(tasks, seeds)
    found: dict[str, list[tuple[float, float]]] = {}
    for _ in range(repeats):
        own, against = sides(seeds)
        wins = (own[:, None] > against) + 0.5 * (own[:, None] == against)  # [seeds, seeds, tasks]
        weights = rng.multinomial(seeds, np.full(seeds, 1 / seeds), (2, tasks, RESAMPLES)) / seeds
        samples = (weights[0] @ wins.transpose(2, 0, 1) * weights[1]).sum(-1).mean(0)
        low, high = np.quantile(samples, PERCENTILES)
        found.setdefault("percentile", []).append((low, high))
        value = float(wins.mean())
        found.setdefault("longrun", []).append(pseudo_score_interval(value, counts, counts))
        if tasks > 1:
            found.setdefault("MOVER", []).append(of_tasks(wins.mean((0, 1)), seeds))
    for method, intervals in found.items():
        yield covered("P(better)", tasks, seeds, name, method, intervals, truth)


def of_tasks(values: np.ndarray, seeds: int) -> tuple[float, float]:
    """Newcombe's interval of each task, combined by the squares of their halves (MOVER)."""
    one = np.array([seeds])
    each = np.array([pseudo_score_interval(float(value), one, one) for value in values])
    reach = np.sqrt(((each.T - values) ** 2).sum(1)) / len(values)
    return values.mean() - reach[0], values.mean() + reach[1]


def profiles(seeds: int, tasks: int, share: float, repeats: int) -> Iterator[Case]:
    """The share of runs above a threshold."""
    rng = np.random.default_rng([2, seeds, tasks])
    many = drawn(normal, MANY, tasks, rng)
    at = np.array([np.quantile(many, 1 - share)])
    found: dict[str, list[tuple[float, float]]] = {"percentile": [], "longrun": []}
    for _ in range(repeats):
        scores = drawn(normal, seeds, tasks, rng)
        above = rng.binomial(seeds, (scores > at).mean(0), (RESAMPLES, tasks))
        low, high = np.quantile(above.mean(1) / seeds, PERCENTILES)
        found["percentile"].append((low, high))
        _, low, high = (float(x[0]) for x in profile(scores, at))
        found["longrun"].append((low, high))
    for method, intervals in found.items():
        yield covered("profile", tasks, seeds, f"share {share}", method, intervals, share)


def covered(
    statistic: str,
    tasks: int,
    seeds: int,
    law: str,
    method: str,
    intervals: list[tuple[float, float]],
    truth: float,
) -> Case:
    low, high = np.array(intervals).T
    inside = (low <= truth + 1e-9) & (truth - 1e-9 <= high)
    return {
        "statistic": statistic,
        "tasks": tasks,
        "seeds": seeds,
        "law": law,
        "method": method,
        "coverage": f"{inside.mean():.4f}",
        "width": f"{(high - low).mean():.3g}",
        "repeats": len(intervals),
    }


def measured(repeats: int) -> Iterator[Case]:
    for tasks in TASKS:
        for seeds in SEEDS:
            for law in LAWS:
                yield from aggregates(seeds, tasks, law, repeats)
            for pair, (*_, shifts) in PAIRS.items():
                if len(shifts) <= tasks:
                    yield from improvements(seeds, tasks, pair, repeats)
            for share in SHARES:
                yield from profiles(seeds, tasks, share, repeats)


NAMES = {"iqm": "interquartile mean"}


def aggregates_table() -> str:
    return _table(("iqm", "mean", "median"), ("percentile", "longrun", "Student"))


def improvements_table() -> str:
    return _table(("P(better)",), ("percentile", "longrun", "MOVER"))


def profiles_table() -> str:
    return _table(("profile",), ("percentile", "longrun"))


def _table(statistics: Sequence[str], methods: Sequence[str]) -> str:
    """The coverage in per cent with 3, 5 and 10 seeds; a row for each law, a column a method."""
    found: dict[tuple[str, str, str], dict[str, list[str]]] = {}
    for row in rows_of(OUT):
        if row["statistic"] in statistics:
            cells = found.setdefault((row["tasks"], row["statistic"], row["law"]), {})
            method = row["method"].removeprefix("winsorised ")
            cells.setdefault(method, []).append(f"{100 * float(row['coverage']):.1f}")
    rows = [
        (
            tasks,
            NAMES.get(statistic, statistic),
            law,
            *(" / ".join(cells.get(m, ())) for m in methods),
        )
        for (tasks, statistic, law), cells in sorted(found.items(), key=lambda x: int(x[0][0]))
    ]
    return table(("tasks", "", "law", *methods), rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=2000)
    given = parser.parse_args()
    rows = []
    for row in measured(given.repeats):
        print(*row.values(), flush=True)
        rows.append(row)
    write_rows(OUT, rows)


if __name__ == "__main__":
    main()
