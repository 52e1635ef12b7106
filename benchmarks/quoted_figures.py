"""The figures that documents quote, from the files of results: one source, written into each.

    python benchmarks/quoted_figures.py            # writes them into the documents
    python benchmarks/quoted_figures.py --check    # says which documents differ, and fails

A document has a block between `<!-- figures: NAME -->` and `<!-- end figures -->`.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

import ablation_results
import choice_results
import decomposition_results
import factorial_results
import interval_coverage
import lambda_results
import lambda_tuning
import limits_results
import mujoco_limits
import paper_results
import search_results
import throughput
import tuned_results
from csv_rows import rows_of
from curves import name_of, read_curves, scores
from markdown_table import table

ROOT = Path(__file__).parents[1]
RESULTS, MEASURED = ROOT / "results", ROOT / "benchmarks" / "results"
DOCUMENTS = (
    "README.md",
    "docs/figures.md",
    "docs/decisions/020-speed-on-the-host.md",
    "results/RESULTS.md",
    "results/one-setting.md",
    "results/tuned.md",
    "results/limits.md",
    "results/interval-coverage.md",
)
PEERS = {"sb3": "Stable-Baselines3", "sbx": "sbx"}
WORDS_OF_GOALS = {
    "times sb3": "HalfCheetah-v5, one run, times Stable-Baselines3",
    "times sbx": "HalfCheetah-v5, one run, times sbx",
    "share of raw": "HalfCheetah-v5, one run, share of the raw simulator",
    "share of raw, Ant": "Ant-v5, share of the raw simulator",
    "share of raw, Humanoid": "Humanoid-v5, share of the raw simulator",
    "share of raw, four replicas": "HalfCheetah-v5, four replicas, share of the raw simulator",
    "peak memory, MB": "peak memory",
    "seconds to first iteration": "second start to first iteration",
}
"""Of the figures of `throughput.py`, for readers."""
BLOCK = re.compile(r"(<!-- figures: ([\w-]+) -->\n).*?(<!-- end figures -->)", re.DOTALL)


def of_seeds(path: Path, env: str, algorithm: str, option: str) -> list[float]:
    """Returns of the seeds of one setting in a table of settings."""
    (row,) = [
        row
        for row in rows_of(path)
        if (row["env"], row["algorithm"]) == (env, algorithm) and option in row["options"]
    ]
    return [float(x) for x in row["episode_return_of_seeds"].split()]


def last_returns(path: Path, algorithm: str, discount: str, last_tenth: bool) -> list[float]:
    """For each seed the last evaluation, or the mean over the last tenth of the steps."""
    curves = read_curves(path)[algorithm, discount]
    return scores(curves) if last_tenth else [curve[-1][1] for curve in curves.values()]


def spread(values: Iterable[float]) -> str:
    values = list(values)
    return f"{min(values):.0f} to {max(values):.0f}"


def percentages() -> dict[str, Counter[str]]:
    """For each contestant of `make run` how often it earned which share of the optimum."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows_of(RESULTS / "maintenance-demo" / "results.csv"):
        found[row["algorithm"]][f"{float(row['percent_of_optimum']):.0f} %"] += 1
    return found


def maintenance() -> str:
    rows = []
    for name, counts in percentages().items():
        shares = [f"{share} ({count} seeds)" for share, count in counts.most_common()]
        rows.append((name, ", ".join(shares).replace("(1 seeds)", "(1 seed)")))
    return table(("share of the best possible reward", "seeds 10 to 19"), rows)


def swimmer_demo() -> str:
    path = RESULTS / "swimmer-demo" / "evaluations.csv"
    rows = []
    for key in (("apo", ""), ("ppo", "0.99"), ("ppo", "0.999")):
        values = sorted(last_returns(path, *key, last_tenth=False))
        each = ", ".join(f"{value:.0f}" for value in values)
        rows.append((name_of(key), f"{statistics.median(values):.0f}", each))
    return table(("Swimmer-v5, return", "median", "each of ten seeds, sorted"), rows)


def swimmer() -> str:
    """All that was measured on Swimmer-v5, side by side: the settings make the difference."""
    env = "Swimmer-v5"
    learning = [MEASURED / "learning-swimmer.csv", MEASURED / "learning-swimmer-seeds-5-9.csv"]
    raw = RESULTS / "figure1-raw" / "swimmer-3m.csv"
    keys = ("apo", ""), ("ppo", "0.999")

    def demo(name: str) -> list[list[float]]:
        path = RESULTS / "swimmer-demo" / name
        return [last_returns(path, *key, last_tenth=False) for key in keys]

    def settings(path: Path, apo: str = "value_constraint=0.3") -> tuple[list[float], list[float]]:
        return of_seeds(path, env, "apo", apo), of_seeds(path, env, "ppo", "0.999")

    figure1 = settings(RESULTS / "figure1" / "figure1.csv")
    longer = settings(RESULTS / "swimmer-3m" / "swimmer-3m.csv")
    both = [settings(path, "--value-constraint 0.1") for path in learning]
    sampled = [last_returns(raw, *key, last_tenth=True) for key in keys]
    several = both[0][0] + both[1][0], both[0][1] + both[1][1]
    cases = [
        ("`paper`, authors' options (lambda .99 and .95), clipped actions, 1M", *figure1),
        ("the same, 3M", *longer),
        ("the same with actions as drawn, 3M", *sampled),
        ("`paper`, lambda .99 for both, alpha .1, nu .1, clipped actions, 1M", *several),
        (
            "`tuned`, ten environments, lambda .99 for both, rollouts of 1000 steps, 600k",
            *demo("ten-environments.csv"),
        ),
        ("`tuned`, a lambda that adapts for both, 600k", *demo("evaluations.csv")),
    ]
    rows = [
        (name, *(f"{statistics.mean(values):.0f} ({len(values)})" for values in (apo, ppo)))
        for name, apo, ppo in cases
    ]
    return table(("Swimmer-v5, return, mean (seeds)", "APO", "PPO .999"), rows)


def times_peers() -> list[tuple[str, str, str]]:
    """For each peer its name, how many times as fast longrun is, and the peer's fastest variant."""
    rows = rows_of(MEASURED / "throughput.csv")
    found = []
    for goal in throughput.GOALS:
        if goal.theirs in PEERS:
            rival, ratios = goal.values(rows)
            words = str(rival).partition(", ")[2]
            found.append((PEERS[goal.theirs], f"{statistics.median(ratios):.1f}", words))
    return found


def speed() -> str:
    """How fast training and exact solutions are, for the README."""
    solved = [r for r in rows_of(MEASURED / "tabular-rivals.csv") if r["solver"] == "longrun"]
    seconds = [
        statistics.median(float(row["solve_s"]) for row in solved if row["regime"] == regime)
        for regime in ("BM", "BH")
    ]
    rows = [
        (
            f"training on HalfCheetah-v5, times {peer} ({way}: the fastest of four ways to run it)",
            each,
        )
        for peer, each, way in times_peers()
    ]
    network = "optimal control of a queueing network with a million states, certified to 1e-6"
    rows.append((f"{network} (version 0.1.0)", f"{spread(seconds)} s"))
    return table(("measured on two cores", ""), rows)


def throughput_goals() -> str:
    """All figures of `throughput.py`: medians and ranges of the rounds, and what was aimed at."""
    rows, shown = rows_of(MEASURED / "throughput.csv"), []
    for goal in throughput.GOALS:
        rival, values = goal.values(rows)
        unit, digits, scale = _unit(goal)
        low, middle, high = (
            f"{scale * each:.{digits}f}"
            for each in (min(values), statistics.median(values), max(values))
        )
        levels = ["" if x is None else f"{scale * x:g}{unit}" for x in (goal.target, goal.aim)]
        title = WORDS_OF_GOALS[goal.title]
        if goal.theirs in PEERS:
            title += f" ({str(rival).partition(', ')[2]})"
        shown.append((title, f"{middle}{unit}", f"{low} to {high}{unit}", *levels))
    about = json.loads((MEASURED / "throughput.json").read_text())
    version = about["versions"]["longrun"]["longrun"]
    machine = (
        f"{about['cpu']}, {about['cores']} cores, Python {about['python']}, longrun {version},"
        f" {about['date'][:10]}."
    )
    heads = "figure", "median", "range", "target", "aim"
    return f"{table(heads, shown)}\n\n{machine}"


def _unit(goal: throughput.Goal) -> tuple[str, int, float]:
    """Unit, digits and factor of a figure."""
    if goal.column == "memory_mb":
        return " MB", 0, 1
    if goal.column == "seconds":
        return " s", 1, 1
    return ("", 1, 1) if goal.theirs in PEERS else (" %", 0, 100)


def throughput_peers() -> str:
    """Steps per second of each way to run a peer: medians of the rounds."""
    rates: dict[str, list[float]] = defaultdict(list)
    for row in rows_of(MEASURED / "throughput.csv"):
        if row["case"] == "cheetah":
            rates[row["contestant"]].append(float(row["steps_per_second"]))
    medians = {name: f"{statistics.median(each):,.0f}" for name, each in rates.items()}
    ways = dict.fromkeys(name.partition(", ")[2] for name in rates if ", " in name)
    rows = [(way, *(medians[f"{peer}, {way}"] for peer in PEERS), "") for way in ways]
    rows.append(("longrun", *("" for _ in PEERS), medians["longrun"]))
    return table(("HalfCheetah-v5, steps a second", *PEERS.values(), "longrun"), rows)


FIGURES: dict[str, Callable[[], str]] = {
    "maintenance": maintenance,
    "swimmer-demo": swimmer_demo,
    "tuned": tuned_results.in_short,
    "headline": tuned_results.headline,
    "headline-scores": tuned_results.headline_scores,
    "headline-returns": tuned_results.headline_returns,
    "other-scale": tuned_results.other_scale,
    "against-ppo": tuned_results.against_ppo,
    "aggregates": tuned_results.aggregates,
    "fresh-seeds": tuned_results.fresh_seeds,
    "ant": lambda_results.ant,
    "lambda-versions": lambda_results.versions,
    "parts": ablation_results.parts,
    "adaptive-ppo": lambda_results.adaptive_ppo,
    "lambda-chosen": lambda_results.chosen,
    "lambda-small-tasks": lambda_results.small_tasks,
    "swimmer": swimmer,
    "speed": speed,
    "throughput": throughput_goals,
    "throughput-peers": throughput_peers,
    "figure1": paper_results.figure1,
    "figure2": paper_results.figure2,
    "appendix": paper_results.appendix,
    "decomposition": decomposition_results.claims,
    "decomposition-effects": decomposition_results.effects,
    "limits": limits_results.against_the_optimum,
    "limits-missed": limits_results.missed,
    "limits-speed": limits_results.speed,
    "velocity": mujoco_limits.velocity,
    "falls": mujoco_limits.falls,
    "search": search_results.best,
    "search-effects": search_results.effects,
    "search-fit": search_results.fitted,
    "factorial": factorial_results.settings,
    "factorial-fit": factorial_results.fitted,
    "choice": choice_results.choice,
    "leads": choice_results.leads,
    "lambdas": lambda_tuning.lambdas,
    "longer-traces": lambda_tuning.longer_traces,
    "other-tasks": lambda_tuning.other_tasks,
    "agreement": lambda_tuning.agreement,
    "values-first": lambda_tuning.values_first,
    "falls-of-lambda": lambda_tuning.falls,
    "discounts": choice_results.discounts,
    "coverage": interval_coverage.aggregates_table,
    "coverage-improvement": interval_coverage.improvements_table,
    "coverage-profile": interval_coverage.profiles_table,
}


def with_figures(text: str) -> str:
    """A document with its blocks filled."""

    def filled(block: re.Match[str]) -> str:
        return f"{block[1]}{FIGURES[block[2]]()}\n{block[3]}"

    return BLOCK.sub(filled, text)


def main() -> int:
    different = []
    for name in DOCUMENTS:
        path = ROOT / name
        text = path.read_text()
        if with_figures(text) != text:
            different.append(name)
            if "--check" not in sys.argv:
                path.write_text(with_figures(text))
    print("differ:" if "--check" in sys.argv else "written:", ", ".join(different) or "none")
    return 1 if different and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
