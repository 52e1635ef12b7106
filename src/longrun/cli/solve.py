"""`longrun solve`: the optimal gain of a finite model, certified."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

from rich.console import Console
from rich.table import Table

from longrun.cli.options import Parser, parse, shown, whole
from longrun.config import known
from longrun.tabular import (
    MDP,
    MODELS,
    Evaluation,
    Solution,
    evaluate,
    from_gymnasium,
    reachable,
    solve,
    structure,
)
from longrun.tabular.solvers import METHODS
from longrun.tabular.truncation import Truncation, grow_box

EVALUATED = 200_000
"""States up to which the optimal policy's law and Kemeny's constant are computed unasked."""

USAGE = """usage: longrun solve MODEL [options]   (longrun solve MODEL --help lists a model's own)

The optimal long-run average reward of a finite model, between two certified bounds.

models:
{models}
  or a Gymnasium toy-text environment, such as FrozenLake-v1

for example:
  longrun solve criss-cross --regime BM --map policy.png
  longrun solve access-control --method linear_program --json"""


def solve_command(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        lines = [f"  {name:20}{_first_line(build)}" for name, build in MODELS.items()]
        print(USAGE.format(models="\n".join(lines)))
        return 0
    name, build = arguments[0], _builder(arguments[0])
    parser = Parser(
        prog=f"longrun solve {name}",
        description=inspect.getdoc(build) or f"Gymnasium's {name}, continued through its resets.",
        epilog=f"example: longrun solve {name} --tolerance 1e-6 --json",
    )
    parameters = _add_model_options(parser, build)
    _add_solver_options(parser)
    given = parse(parser, arguments[1:])
    model = {key: given[key] for key in parameters if key in given}
    report = _solved(lambda **changed: build(**{**model, **changed}), parameters, given)
    if given.get("json"):
        print(json.dumps(report))
    else:
        _show(report)
    return 0


def _builder(name: str) -> Callable[..., MDP]:
    if name not in MODELS and re.search(r"-v\d+$", name):
        return lambda: reachable(from_gymnasium(name))[0]
    return MODELS[known("model", name, MODELS)]


def _first_line(build: Callable[..., MDP]) -> str:
    return (inspect.getdoc(build) or "").splitlines()[0]


def _add_model_options(parser: Parser, build: Callable[..., MDP]) -> list[str]:
    """One option for each parameter of the builder; returns their names."""
    group = parser.add_argument_group("model")
    hints = get_type_hints(build)
    parameters = inspect.signature(build).parameters
    for name, parameter in parameters.items():
        kind, flag = hints[name], "--" + name.replace("_", "-")
        default = parameter.default
        text = f"(default: {shown(default)})"
        if isinstance(default, tuple):
            group.add_argument(flag, type=float, nargs="+", metavar="X", help=text)
        else:
            group.add_argument(flag, type=whole if kind is int else kind, metavar="X", help=text)
    return list(parameters)


def _add_solver_options(parser: Parser) -> None:
    group = parser.add_argument_group("solver")
    group.add_argument(
        "--method", help=f"{', '.join(METHODS)} (default: policy_iteration)", metavar="NAME"
    )
    group.add_argument(
        "--tolerance", type=float, metavar="X", help="relative width of the bracket (default: 1e-8)"
    )
    group.add_argument(
        "--check-truncation",
        action="store_true",
        help="also solve boxes of half and three quarters of --size and estimate what is cut off",
    )
    group.add_argument(
        "--kemeny",
        action=argparse.BooleanOptionalAction,
        help="the policy's law and Kemeny's constant, an estimate above 2000 states "
        f"(default: up to {EVALUATED} states)",
    )
    group.add_argument(
        "--map", type=Path, metavar="FILE", help="draw the policy over 2 or 3 queues"
    )
    group.add_argument("--json", action="store_true", help="print one JSON object")


def _solved(build: Callable[..., MDP], parameters: list[str], given: dict[str, Any]) -> Any:
    """All that is printed, as JSON would have it."""
    started = time.perf_counter()
    options: dict[str, Any] = {key: given[key] for key in ("method", "tolerance") if key in given}
    mdp = build()
    built = time.perf_counter()
    _require_sense(mdp, parameters, given)
    console = Console(stderr=True, soft_wrap=True)  # a warning stays on one line
    with console.status(f"solving {mdp!r}") as status:

        def progress(iteration: int, low: float, high: float) -> None:
            status.update(f"iteration {iteration}: gain between {low:.8g} and {high:.8g}")

        begun = time.perf_counter()
        solution = solve(mdp, on_iteration=progress, **options)
        solved = time.perf_counter()
        report = _report(mdp, solution)
        report["build_seconds"] = built - started
        report["solve_seconds"] = solved - begun
        if given.get("kemeny", mdp.num_states <= EVALUATED):
            status.update("evaluating the policy")
            _add_evaluation(report, evaluate(mdp, solution.policy))
        if given.get("check_truncation"):
            status.update("solving smaller boxes")
            report["truncation"] = _truncation(build, mdp, solution, options)
    if "map" in given:
        from longrun.tabular.figures import policy_map

        policy_map(mdp, solution.policy, given["map"])
        report["map"] = str(given["map"])
    return report


def _require_sense(mdp: MDP, parameters: list[str], given: dict[str, Any]) -> None:
    """Refuse, before solving, what could not be done after it."""
    if given.get("check_truncation"):
        if "size" not in parameters:
            raise ValueError("--check-truncation is for models with a --size")
        if mdp.shape[0] <= 3:
            raise ValueError("--check-truncation solves smaller boxes too; give --size 3 or more")
    if "map" in given:
        from longrun.tabular.figures import require_map

        require_map(mdp, given["map"])


def _report(mdp: MDP, solution: Solution) -> dict[str, Any]:
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


def _add_evaluation(report: dict[str, Any], found: Evaluation) -> None:
    for shares, time_share in zip(
        report["policy"].values(), found.stationary @ found.policy, strict=True
    ):
        shares["time"] = float(time_share)
    report["kemeny"], report["kemeny_error"] = found.kemeny, found.kemeny_error


def _truncation(
    build: Callable[..., MDP], mdp: MDP, solution: Solution, options: dict[str, Any]
) -> dict[str, Any]:
    size = mdp.shape[0] - 1
    smaller = grow_box(lambda n: build(size=n), [size // 2, 3 * size // 4], **options)
    grown = Truncation([*smaller.sizes, size], [*smaller.solutions, solution])
    gains = [s.gain for s in grown.solutions]
    return {"sizes": grown.sizes, "gains": gains, "error": grown.error}


def _show(report: dict[str, Any]) -> None:
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
    words = ["communicating" if found["communicating"] else "weakly communicating"]
    words += ["unichain"] if found["unichain"] else []
    words += [f"period {found['period']}" if found["period"] > 1 else "aperiodic"]
    return ", ".join(words)


def _show_truncation(console: Console, found: dict[str, Any], sign: int) -> None:
    gains = ", ".join(
        f"{sign * gain:.8g} (size {size})"
        for size, gain in zip(found["sizes"], found["gains"], strict=True)
    )
    console.print(f"boxes: {gains}; cut off: about {found['error']:.2g}")


def _policy_table(report: dict[str, Any]) -> Table:
    table = Table("action", "share of states", "share of time")
    for action, shares in report["policy"].items():
        time_share = f"{shares['time']:.2%}" if "time" in shares else "-"
        table.add_row(action, f"{shares['states']:.2%}", time_share)
    return table
