"""The result of `longrun solve`, as JSON and as text."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from longrun.exact.tabular.evaluation import Evaluation
from longrun.exact.tabular.mdp import MDP
from longrun.exact.tabular.solvers import Solution
from longrun.exact.tabular.structure import structure

SHOWN_DIGITS, MOST_DIGITS = 8, 15
"""Significant digits of the gain that are printed, and that a double has."""
SHOWN = 5
"""Randomised states that are printed."""


def describe(mdp: MDP, solution: Solution) -> dict[str, Any]:
    """The model and its solution, as --json prints them."""
    report: dict[str, Any] = {
        "model": mdp.name,
        "states": mdp.num_states,
        "transitions": mdp.num_transitions,
        "structure": dataclasses.asdict(structure(mdp)),
        "rewards_are_costs": mdp.cost,
        "gain": solution.gain,
        "gain_low": solution.gain_low,
        "gain_high": solution.gain_high,
        "method": solution.method,
        "iterations": solution.iterations,
    }
    if not solution.limits:
        report["sweeps"] = solution.sweeps
    policy = solution.policy
    report["policy"] = {
        action: {"states": float((policy == a if policy.ndim == 1 else policy[:, a]).mean())}
        for a, action in enumerate(mdp.actions)
    }
    if not solution.limits:
        return report
    costs = {
        name: {
            "rate": rate,
            "limit": solution.limits.get(name),
            "multiplier": solution.multipliers.get(name),
            "excess": solution.excess.get(name),
        }
        for name, rate in solution.cost_rates.items()
    }
    randomised = [
        {
            "state": [_plain(value) for value in mdp.place(s)],
            "actions": {mdp.actions[a]: probability for a, probability in chosen.items()},
        }
        for s, chosen in solution.randomised.items()
    ]
    return report | {"costs": costs, "randomised": randomised}


def _plain(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, (int, float, str)) else str(value)


def add_evaluation(report: dict[str, Any], found: Evaluation, kemeny: bool) -> None:
    """Add the share of time of each action and, if asked for, Kemeny's constant."""
    times = found.stationary @ found.policy
    for shares, time in zip(report["policy"].values(), times, strict=True):
        shares["time"] = float(time)
    if kemeny:
        report["kemeny"], report["kemeny_error"] = found.kemeny, found.kemeny_error


def show(report: dict[str, Any]) -> None:
    """Print a report for people."""
    console = Console(soft_wrap=True, highlight=False)
    sign, name = (-1, "average cost") if report["rewards_are_costs"] else (1, "average reward")
    name += " within the limits" if "costs" in report else ""
    console.print(
        f"[bold]{report['model']}[/]: {report['states']:,} states, "
        f"{report['transitions']:,} transitions, {_kind(report['structure'])}"
    )
    ends = sorted((sign * report["gain_low"], sign * report["gain_high"]))
    console.print(f"optimal {name} {certified(sign * report['gain'], *ends)}")
    if "costs" in report:
        _show_limits(console, report)
    if found := report.get("truncation"):
        boxes = zip(found["sizes"], found["gains"], strict=True)
        gains = ", ".join(f"{sign * gain:.8g} (size {size})" for size, gain in boxes)
        console.print(f"boxes: {gains}; truncation error: about {found['error']:.2g}")
    table = Table("action", "share of states", "share of time")
    for action, shares in report["policy"].items():
        time = f"{shares['time']:.2%}" if "time" in shares else "-"
        table.add_row(action, f"{shares['states']:.2%}", time)
    console.print(table)
    if "kemeny" in report:
        error = report["kemeny_error"]
        spread = f" ± {error:.2g} (95 %, estimated)" if error else ""
        console.print(f"Kemeny's constant {report['kemeny']:.6g}{spread}")
    evaluating = report.get("evaluate_seconds")
    beside = "" if evaluating is None else f", {evaluating:.2f} s to evaluate the policy"
    console.print(
        f"{_work(report)}: {report['solve_seconds']:.2f} s; "
        f"{report['build_seconds']:.2f} s to build the model{beside}"
    )
    if "map" in report:
        console.print(f"wrote {report['map']}", markup=False)


def certified(value: float, low: float, high: float) -> str:
    """A number for people, with the significant digits to which its bounds agree."""
    relative = (high - low) / abs(value) if value else float(high > low)
    digits = min(max(int(-math.log10(relative)), 0), MOST_DIGITS) if relative else MOST_DIGITS
    told = f"{value:.{min(max(digits, 2), SHOWN_DIGITS)}g}, certified to {digits} digits"
    return told if digits >= SHOWN_DIGITS else f"{told}: between {low:.8g} and {high:.8g}"


def _work(report: dict[str, Any]) -> str:
    number = report["iterations"]
    plural = "s" * (number != 1)
    if report["method"] == "policy_iteration" and "sweeps" in report:
        return f"{number} policy iteration{plural} after {report['sweeps']:,} value sweeps"
    return f"{report['method']}, {number} iteration{plural}"


def _kind(found: dict[str, Any]) -> str:
    words = ["communicating" if found["communicating"] else "weakly communicating"]
    words += ["unichain"] if found["unichain"] else []
    words += [f"period {found['period']}" if found["period"] > 1 else "aperiodic"]
    return ", ".join(words)


def _show_limits(console: Console, report: dict[str, Any]) -> None:
    table = Table("cost", "average", "limit", "multiplier")
    for name, cost in report["costs"].items():
        numbers = [cost[key] for key in ("rate", "limit", "multiplier")]
        table.add_row(name, *("-" if number is None else f"{number:.6g}" for number in numbers))
    console.print(table)
    for place in report["randomised"][:SHOWN]:
        state = ", ".join(map(str, place["state"]))
        actions = ", ".join(f"{name} {share:.2%}" for name, share in place["actions"].items())
        console.print(f"randomises in state ({state}): {actions}", markup=False)
    if more := len(report["randomised"][SHOWN:]):
        console.print(f"and in {more} more state{'s' * (more > 1)} (--json lists them)")
