"""Tabular solvers: known gains, a million states against other solvers, cost over size, evaluation.

Every measurement is a process of its own, so that memory is its own as well. The rivals live in an
interpreter of their own (`pip install mdpsolver mdpax stormpy`); see tabular_rivals.py.

    python benchmarks/tabular.py --only gains scale evaluate
    python benchmarks/tabular.py --only rivals --peers-python PEERS/bin/python --limit 600

Results go to benchmarks/results/tabular-*.csv and tabular-scale.png.
"""

import argparse
import csv
import json
import platform
import resource
import statistics
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from longrun.cli.solve import MODELS
from longrun.exact.tabular import evaluation as accuracy
from longrun.exact.tabular.solvers import grow_box
from longrun.tabular import evaluate, solve

RESULTS = Path(__file__).parent / "results"
RIVALS = Path(__file__).with_name("tabular_rivals.py")
HERE = str(Path(__file__).resolve())

KNOWN = [
    # model, options, printed gain, digits after the point that are printed, boxes
    ("riverswim", {}, 0.428622, 6, None),
    ("access-control", {}, 2.747642, 6, None),
    ("criss-cross", {"regime": "IL"}, -0.671, 3, [10, 15, 20]),
    ("criss-cross", {"regime": "BL"}, -0.843, 3, [10, 15, 20]),
    ("criss-cross", {"regime": "IM"}, -2.084, 3, [20, 30, 40]),
    ("criss-cross", {"regime": "BM"}, -2.829, 3, [20, 30, 40]),
    ("criss-cross", {"regime": "IH"}, -9.970, 3, [75, 112, 150]),
    ("criss-cross", {"regime": "BH"}, -15.228, 3, [75, 112, 150]),
]
SCALE = {
    "BH": [20, 30, 45, 65, 100, 150],
    "garnet": [10_000, 30_000, 100_000, 300_000, 1_000_000],
}
"""Heavy traffic, where larger boxes take longer to mix; random models, which mix at once."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parts = {"gains": gains, "rivals": rivals, "scale": scale, "evaluate": evaluation}
    parser.add_argument("--only", nargs="+", choices=parts, default=list(parts))
    parser.add_argument("--peers-python", help="interpreter that has the rivals")
    parser.add_argument("--limit", type=float, default=600, help="seconds for a rival's solution")
    parser.add_argument("--worker", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        print(json.dumps(WORKERS[options.worker[0]](*options.worker[1:])))
        return
    for part in options.only:
        print(f"== {part}")
        parts[part](options)


def gains(options: argparse.Namespace) -> None:
    """Known gains, with certified brackets; boxes are grown to see what truncation cuts off."""
    rows = []
    for place, (model, settings, printed, digits, _) in enumerate(KNOWN):
        found = measured("gain", str(place))
        tight = 0.001 * abs(printed) if settings.get("regime", "")[1:] == "H" else 0.5
        miss = abs(found["gain"] - printed)
        limit = tight if tight < 0.5 else 0.5 * 10**-digits + 1e-9
        row = {"model": model, **{"regime": "", **settings}, "printed": printed, **found}
        rows.append({**row, "off": miss, "allowed": limit, "met": miss <= limit})
        print(rows[-1], flush=True)
    write("gains", rows)


def rivals(options: argparse.Namespace) -> None:
    """A million states: ours before, between and after the rivals; ratios of medians."""
    if not options.peers_python:
        raise SystemExit("--peers-python is needed: an interpreter with mdpsolver, mdpax, stormpy")
    rows = []
    for regime in ("BM", "BH"):
        for solver in ("longrun", "stormpy", "longrun", "mdpsolver", "longrun", "mdpax"):
            if solver == "longrun":
                found = measured("solve", regime, "100")
            else:
                found = rival(options, solver, regime)
            rows.append({"regime": regime, "solver": solver, **found})
            print(rows[-1], flush=True)
            write("rivals", rows)
        ours = [r["solve_s"] for r in rows if (r["regime"], r["solver"]) == (regime, "longrun")]
        for row in rows:
            if row["regime"] == regime and row["solver"] != "longrun":
                late = str(row["error"]).startswith("no answer within")
                if row["gain"] is None and not late:
                    print(f"{regime}: {row['solver']} failed: {row['error']}")
                    continue
                least = "at least " if late else ""
                ratio = (options.limit if late else row["solve_s"]) / statistics.median(ours)
                row["times_ours"] = ratio
                print(f"{regime}: {row['solver']} takes {least}{ratio:.1f} times as long")
    write("rivals", rows)


def rival(options: argparse.Namespace, solver: str, regime: str) -> dict[str, Any]:
    command = [options.peers_python, str(RIVALS), solver, "--size", "100", "--regime", regime]
    command += ["--tolerance", "1e-6", "--timeout", str(options.limit)]
    output = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    found = json.loads(output.strip().splitlines()[-1])
    keys = ("version", "states", "gain", "build_s", "solve_s", "peak_mb", "method", "error")
    return {key: found.get(key) for key in keys}


def scale(options: argparse.Namespace) -> None:
    """Time of a solution over the number of transitions."""
    rows = []
    for family, sizes in SCALE.items():
        for size in sizes:
            rows.append({"family": family, "size": size, **measured("solve", family, str(size))})
            print(rows[-1], flush=True)
            write("scale", rows)
    draw_scale(rows)


def draw_scale(rows: list[dict[str, Any]]) -> None:
    figure = Figure(figsize=(6.5, 4.5), layout="constrained")
    axis = figure.subplots()
    names = {"BH": "criss-cross in heavy traffic (BH)", "garnet": "random models, 4 successors"}
    for family, name in names.items():
        chosen = [row for row in rows if row["family"] == family]
        transitions = np.array([row["transitions"] for row in chosen], float)
        seconds = np.array([row["solve_s"] for row in chosen])
        slope = np.polyfit(np.log(transitions), np.log(seconds), 1)[0]
        print(f"{family}: time grows with the {slope:.2f}th power of the number of transitions")
        (line,) = axis.loglog(transitions, seconds, "o-", label=f"{name}, slope {slope:.2f}")
        linear = seconds[0] * transitions / transitions[0]
        axis.loglog(transitions, linear, ":", color=line.get_color(), label="linear")
    axis.set(xlabel="transitions", ylabel="seconds to a bracket of 1e-6")
    axis.legend(frameon=False)
    figure.savefig(RESULTS / "tabular-scale.png", dpi=120)


def evaluation(options: argparse.Namespace) -> None:
    """One policy of a million states: gain and bias, how exact, how long."""
    rows = [measured("evaluate", regime, "100") for regime in ("BM", "BH")]
    for row in rows:
        print(row)
    write("evaluate", rows)


def solve_worker(regime: str, size: str) -> dict[str, Any]:
    started = time.perf_counter()
    if regime == "garnet":
        mdp = MODELS["garnet"](states=int(size), actions=3, branching=4)
    else:
        mdp = MODELS["criss-cross"](regime=regime, size=int(size))
    built = time.perf_counter()
    found = solve(mdp, tolerance=1e-6)
    return {
        "version": version("longrun"),
        "states": mdp.num_states,
        "transitions": mdp.num_transitions,
        "gain": -found.gain,
        "width": found.gain_high - found.gain_low,
        "iterations": found.iterations,
        "build_s": built - started,
        "solve_s": time.perf_counter() - built,
        "peak_mb": peak_mb(),
    }


def gain_worker(place: str) -> dict[str, Any]:
    model, settings, _, _, boxes = KNOWN[int(place)]
    started = time.perf_counter()
    if boxes is None:
        found, error = solve(MODELS[model](**settings), tolerance=1e-9), 0.0
    else:
        heavy = boxes[-1] >= 100
        grown = grow_box(
            lambda size: MODELS[model](size=size, **settings),
            boxes,
            tolerance=1e-6 if heavy else 1e-8,
        )
        found, error = grown.solutions[-1], grown.error
    return {
        "gain": found.gain,
        "gain_low": found.gain_low,
        "gain_high": found.gain_high,
        "boxes": boxes,
        "truncation_error": error,
        "seconds": time.perf_counter() - started,
        "peak_mb": peak_mb(),
    }


def evaluate_worker(regime: str, size: str) -> dict[str, Any]:
    """Serve class 3 first, class 1 when there is none: a plain policy, not the optimal one."""
    mdp = MODELS["criss-cross"](regime=regime, size=int(size))
    first, _, third = np.indices(mdp.shape).reshape(3, -1)
    policy = np.where(third > 0, 2, np.where(first > 0, 1, 0))
    started = time.perf_counter()
    found = evaluate(mdp, policy)
    gain, error = found.gain, found.gain_error
    solved = time.perf_counter()
    bias = found.bias
    ended = time.perf_counter()
    accuracy.TOLERANCE /= 100  # what do two more digits of the equations' residual change?
    closer = evaluate(mdp, policy)
    return {
        "regime": regime,
        "states": mdp.num_states,
        "gain": gain,
        "gain_error": error,
        "bias_span": float(np.ptp(bias)),
        "gain_change_two_digits_on": abs(gain - closer.gain),
        "bias_change_over_span": float(np.abs(bias - closer.bias).max() / np.ptp(bias)),
        "gain_s": solved - started,
        "bias_s": ended - solved,
        "peak_mb": peak_mb(),
    }


WORKERS = {"solve": solve_worker, "gain": gain_worker, "evaluate": evaluate_worker}


def measured(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, HERE, "--worker", *arguments]
    result: dict[str, Any] = json.loads(subprocess.check_output(command, text=True))
    return result


def peak_mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def write(name: str, rows: list[dict[str, Any]]) -> None:
    """A CSV whose first line says what made it."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    packages = ", ".join(f"{p} {version(p)}" for p in ("longrun", "numpy", "scipy", "pyamg"))
    with (RESULTS / f"tabular-{name}.csv").open("w", newline="") as file:
        file.write(f"# Python {platform.python_version()}, {packages}\n")
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
