"""Tabular learning against the exact optimum: all methods, two models, seeds 0 to 7.

python benchmarks/tabular_learning.py

Writes benchmarks/results/tabular-learning.csv and a figure a model. About two minutes.
"""

import argparse
import csv
import time
from pathlib import Path

import numpy as np
from tabular_learning_figure import learning_curves_figure

from longrun.exact.tabular.mdp import Array
from longrun.exact.tabular.models import access_control, riverswim
from longrun.tabular import LEARNING_METHODS, MDP, LearningCurves, Prediction, learn, predict

RESULTS = Path(__file__).parent / "results"
MODELS = {"riverswim": riverswim, "access-control": access_control}
SHIFTS = {"riverswim": 0.4, "access-control": 2.5}
"""CSV-learning's prior knowledge: the gain, known up to 10 %. All else is left at its default."""
COLUMNS = (
    "model",
    "method",
    "steps",
    "seeds",
    "exact gain",
    "mean estimate",
    "worst estimate, error %",
    "worst greedy policy, error %",
    "worst value, error",
    "seconds",
)
Row = dict[str, object]


def gains_from_everywhere(mdp: MDP, policy: Array) -> Array:
    """[S]: a policy's gain from each state; a bad policy may have several recurrent classes."""
    matrix, rewards = mdp.chain(policy)
    matrix = matrix.toarray() if mdp.is_sparse else matrix
    limit = (matrix + np.eye(len(rewards))) / 2  # aperiodic, with the same gains
    for _ in range(60):
        limit = limit @ limit
        limit /= limit.sum(1, keepdims=True)
    return np.asarray(limit @ rewards)


def bias(mdp: MDP, policy: Array) -> tuple[float, Array]:
    """Gain and bias [S] of a policy with one recurrent class: (I - P) h + g = r, h[0] = 0."""
    matrix, rewards = mdp.chain(policy)
    matrix = matrix.toarray() if mdp.is_sparse else matrix
    system = np.eye(len(rewards)) - matrix
    system[:, 0] = 1  # h[0] is 0; its column is the gain's
    solution = np.linalg.solve(system, rewards)
    return float(solution[0]), np.concatenate([[0.0], solution[1:]])


def optimum(mdp: MDP) -> tuple[float, Array]:
    """The optimal gain and a policy, by policy iteration from the greedy policy of the rewards."""
    policy = mdp.rewards.argmax(1)
    while True:
        gain, values = bias(mdp, policy)
        better = mdp.lookahead(values)
        current = better[np.arange(len(policy)), policy]
        improved = np.where(better.max(1) > current + 1e-10, better.argmax(1), policy)
        if (improved == policy).all():
            return gain, policy
        policy = improved


def value_errors(mdp: MDP, policy: Array, values: Array) -> Array:
    """[seeds]: root mean square error of values [seeds, S] in the long run, up to a constant."""
    matrix, _ = mdp.chain(policy)
    matrix = matrix.toarray() if mdp.is_sparse else matrix
    law = np.linalg.matrix_power((matrix + np.eye(len(matrix))) / 2, 2**16)[0]
    errors = values - bias(mdp, policy)[1]
    errors = errors - (errors @ law)[:, None]
    return np.sqrt(errors**2 @ law)


def control_row(name: str, mdp: MDP, gain: float, curves: LearningCurves, seconds: float) -> Row:
    last = curves.gains[:, -1]
    reached = [gains_from_everywhere(mdp, policy).min() for policy in curves.policies[:, -1]]
    return _row(name, curves.method, curves, gain, seconds) | {
        "worst estimate, error %": round(100 * np.abs(last / gain - 1).max(), 3),
        "worst greedy policy, error %": round(100 * np.abs(np.array(reached) / gain - 1).max(), 3),
    }


def prediction_row(
    name: str, mdp: MDP, policy: Array, gain: float, found: Prediction, seconds: float
) -> Row:
    return _row(name, "differential_td", found, gain, seconds) | {
        "worst estimate, error %": round(100 * np.abs(found.gains[:, -1] / gain - 1).max(), 3),
        "worst value, error": round(value_errors(mdp, policy, found.values).max(), 3),
    }


def _row(
    name: str, method: str, found: LearningCurves | Prediction, gain: float, seconds: float
) -> Row:
    return {
        "model": name,
        "method": method,
        "steps": int(found.steps[-1]),
        "seeds": len(found.gains),
        "exact gain": round(gain, 6),
        "mean estimate": round(float(found.gains[:, -1].mean()), 5),
        "seconds": round(seconds, 1),
    }


def measure(name: str, seed: int) -> tuple[list[Row], list[LearningCurves]]:
    """All methods on one model; differential TD predicts the optimal policy."""
    mdp = MODELS[name]()
    gain, policy = optimum(mdp)
    rows, curves = [], []
    for method in LEARNING_METHODS:
        print(f"{name}: {method} ...", flush=True)
        start = time.perf_counter()
        shift = SHIFTS[name] if method == "csv" else None
        curves.append(learn(mdp, method, seed=seed, shift=shift))
        rows.append(control_row(name, mdp, gain, curves[-1], time.perf_counter() - start))
    print(f"{name}: differential_td ...", flush=True)
    start = time.perf_counter()
    found = predict(mdp, policy, seed=seed)
    seconds = time.perf_counter() - start
    return [*rows, prediction_row(name, mdp, policy, gain, found, seconds)], curves


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, help="the first of eight seeds")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    rows = []
    for name in MODELS:
        found, curves = measure(name, arguments.seed)
        rows += found
        title = MODELS[name]().name
        out = arguments.out / f"tabular-learning-{name}.png"
        learning_curves_figure(curves, optimum(MODELS[name]())[0], out, title)
    with (arguments.out / "tabular-learning.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="")
        writer.writeheader()
        writer.writerows(rows)
    widths = [max(len(c), *(len(str(row.get(c, ""))) for row in rows)) for c in COLUMNS]
    for row in [dict(zip(COLUMNS, COLUMNS, strict=True)), *rows]:
        cells = (str(row.get(c, "")).ljust(w) for c, w in zip(COLUMNS, widths, strict=True))
        print("  ".join(cells).rstrip())


if __name__ == "__main__":
    main()
