"""Tables of the paper's experiments, from the files of results; `quoted_figures.py` writes them.

Scores are returns of the deterministic policy: the mean over the evaluations of the last tenth of
training.

    python benchmarks/paper_results.py SWEEP ... results/figure2-raw/swimmer-3m.csv

writes the file of Figure 2 from sweeps over nu.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from csv_rows import rows_of, write_rows
from curves import METRICS, name_of, read_curves, scores
from markdown_table import table

RESULTS = Path(__file__).parents[1] / "results"
ANT = "Ant-v5 without contact forces"
"""As the authors most likely had it: in Gym's v3 with MuJoCo 2.0 they are 0."""
HUMANOID = "Humanoid-v5 without contact forces"
AUTHORS = {
    "Swimmer-v5": {"0.9": 38, "0.95": 38, "0.99": 53, "0.999": 190},
    "HalfCheetah-v5": {"0.9": 1690, "0.95": 1650, "0.99": 1510, "0.999": -110},
    ANT: {"0.9": 730, "0.95": 1570, "0.99": 2690, "0.999": 300},
}
"""Returns of PPO after 3M steps with each discount, read off the authors' notebooks."""
CURVES = {
    "Swimmer-v5": RESULTS / "figure1-raw" / "swimmer-3m.csv",
    "HalfCheetah-v5": RESULTS / "figure1-raw" / "halfcheetah-3m.csv",
    ANT: RESULTS / "figure1-raw" / "ant-3m.csv",
}
"""The curves of Figure 1."""
OTHER_TASKS = {
    "Hopper-v5": RESULTS / "appendix" / "hopper-1m.csv",
    "Walker2d-v5": RESULTS / "appendix" / "walker2d-1m.csv",
    HUMANOID: RESULTS / "appendix" / "humanoid-1m.csv",
    "Ant-v5": RESULTS / "appendix" / "ant-1m.csv",
}
"""Those of Appendix C's other tasks."""


def clipped(env: str, discount: str) -> float:
    """The mean return after 1M steps with actions clipped before the environment; "": APO."""
    rows = [row for row in rows_of(RESULTS / "figure1" / "figure1.csv") if row["env"] == env]
    wanted = "ppo" if discount else "apo"
    (found,) = (
        float(row["episode_return"])
        for row in rows
        if row["algorithm"] == wanted
        and (not discount or f"discount={discount}" in row["options"].split())
    )
    return found


def figure1() -> str:
    """Each seed of each curve of Figure 1, beside the authors' figures and the older ones."""
    heads = (
        "return after 3M steps, raw actions",
        "each seed",
        "mean",
        "the authors' notebooks",
        "older: clipped actions, 1M, mean",
    )
    rows = []
    for env, path in CURVES.items():
        for setting, curves in read_curves(path).items():
            _, discount = setting
            theirs = f"{AUTHORS[env].get(discount, 'ahead of all')}"
            older = _number(clipped(env.split()[0], discount))
            name = f"{env} {name_of(setting)}"
            rows.append((name, *_each_and_mean(scores(curves), _number), theirs, older))
    return table(heads, rows)


def figure2() -> str:
    """Returns and the average value with each weight of the constraint."""
    heads = "3M steps, raw actions", "nu", "return of each seed", "mean", "rms of the average value"
    rows = []
    for path in sorted((RESULTS / "figure2-raw").glob("*.csv")):
        for row in rows_of(path):
            returns = [float(x) for x in row["episode_return"].split()]
            drift = [float(x) for x in row["rms_value_mean"].split()]
            spread = f"{min(drift):.0f} to {max(drift):.0f}"
            shown = _each_and_mean(returns, _number)
            rows.append((row["env"], row["value_constraint"], *shown, spread))
    return table(heads, rows)


def appendix() -> str:
    """Appendix C: both metrics after 1M steps."""
    heads = (
        "after 1M steps, raw actions",
        "return of each seed",
        "mean",
        "reward per step of each seed",
        "mean",
    )
    rows = []
    for env, path in (CURVES | OTHER_TASKS).items():
        rates, returns = (read_curves(path, metric) for metric in METRICS)
        for setting in returns:
            cells = [f"{env} {name_of(setting)}"]
            for curves, shown in ((returns, _number), (rates, _rate)):
                cells += _each_and_mean(scores(curves[setting], 1_000_000), shown)
            rows.append(cells)
    return table(heads, rows)


def _each_and_mean(values: Sequence[float], shown: Callable[[float], str]) -> tuple[str, str]:
    return ", ".join(map(shown, values)), shown(float(np.mean(values)))


def _number(value: float) -> str:
    return f"{value:.0f}" if abs(value) < 1e5 else f"{value / 1e6:.2f}e6"


def _rate(value: float) -> str:
    return f"{value:.3g}"


def with_constraint(sweeps: Sequence[Path]) -> list[dict[str, str]]:
    """Final returns and the root mean square of the average value, a row for each nu."""
    from longrun import read_results
    from longrun.lab.results.read import read_metrics
    from longrun.lab.results.scores import scores_of

    drifts = {}
    for setting in read_metrics(sweeps, ["value_mean"]):
        squares = setting.values["value_mean"] ** 2
        drifts[setting.config.value_constraint] = np.sqrt(squares.mean(0))
    rows = []
    for setting in read_results(sweeps):
        strength = setting.config.value_constraint
        rows.append(
            {
                "env": setting.env,
                "value_constraint": f"{strength:g}",
                "seeds": " ".join(map(str, setting.seeds)),
                "episode_return": _numbers(scores_of(setting, "episode_return")[0]),
                "rms_value_mean": _numbers(drifts[strength]),
            }
        )
    return sorted(rows, key=lambda row: float(row["value_constraint"]))


def _numbers(values: np.ndarray) -> str:
    return " ".join(f"{x:.2f}" for x in values)


if __name__ == "__main__":
    *sweeps, out = map(Path, sys.argv[1:])
    found = with_constraint(sweeps)
    write_rows(out, found)
