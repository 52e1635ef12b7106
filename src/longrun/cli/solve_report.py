"""The result of `longrun solve`, as JSON and as text."""

from __future__ import annotations

import dataclasses
from typing import Any

from rich.console import Console
from rich.table import Table

from longrun.tabular import MDP, Evaluation, Solution, structure


def describe(mdp: MDP, solution: Solution) -> dict[str, Any]:
    """The model and its solution, as --json prints them."""
    chosen = {
        action: {"states": float((solution.policy == a).mean())}
        for a, action in enumerate(mdp.actions)
    }
    return {
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
        "policy": chosen,
    }


def add_evaluation(report: dict[str, Any], found: Evaluation) -> None:
    """Add the share of time of each action, and Kemeny's constant."""
    for shares, time_share in zip(
        report["policy"].values(), found.stationary @ found.policy, strict=True
    ):
        shares["time"] = float(time_share)
    report["kemeny"], report["kemeny_error"] = found.kemeny, found.kemeny_error


def show(report: dict[str, Any]) -> None:
    """Print a report for people."""
    cost = report["rewards_are_costs"]
    sign = -1 if cost else 1
    ends = sorted((sign * report["gain_low"], sign * report["gain_high"]))
    name = "average cost" if cost else "average reward"
    console = Console(soft_wrap=True, highlight=False)
    console.print(
        f"[bold]{report['model']}[/]: {report['states']:,} states, "
        f"{report['transitions']:,} transitions, {_kind(report['structure'])}"
    )
    console.print(f"optimal {name} [bold]{sign * report['gain']:.8g}[/]")
    console.print(f"certified between {ends[0]:.12g} and {ends[1]:.12g}")
    if "truncation" in report:
        _show_truncation(console, report["truncation"], sign)
    console.print(_policy_table(report))
    if "kemeny" in report:
        error = report["kemeny_error"]
        spread = f" ± {error:.2g} (95 %, estimated)" if error else ""
        console.print(f"Kemeny's constant {report['kemeny']:.6g}{spread}")
    number, seconds = report["iterations"], report["solve_seconds"]
    console.print(
        f"{report['method']}, {number} iteration{'s' * (number != 1)}: {seconds:.2f} s, "
        f"and {report['build_seconds']:.2f} s to build the model"
    )
    if "map" in report:
        console.print(f"wrote {report['map']}", markup=False)


def _kind(found: dict[str, Any]) -> str:
    """The structure of the model in words."""
    words = ["communicating" if found["communicating"] else "weakly communicating"]
    words += ["unichain"] if found["unichain"] else []
    words += [f"period {found['period']}" if found["period"] > 1 else "aperiodic"]
    return ", ".join(words)


def _show_truncation(console: Console, found: dict[str, Any], sign: int) -> None:
    gains = ", ".join(
        f"{sign * gain:.8g} (size {size})"
        for size, gain in zip(found["sizes"], found["gains"], strict=True)
    )
    console.print(f"boxes: {gains}; truncation error: about {found['error']:.2g}")


def _policy_table(report: dict[str, Any]) -> Table:
    table = Table("action", "share of states", "share of time")
    for action, shares in report["policy"].items():
        time_share = f"{shares['time']:.2%}" if "time" in shares else "-"
        table.add_row(action, f"{shares['states']:.2%}", time_share)
    return table
