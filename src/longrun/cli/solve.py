"""`longrun solve`: the optimal average reward of a finite model, between certified bounds."""

from __future__ import annotations

import argparse
import inspect
import json
import re
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args, get_type_hints

from rich.console import Console

from longrun.base.checks import known
from longrun.base.errors import InfeasibleLimits, InputError
from longrun.cli.options import Parser, add_limit_option, parse, whole
from longrun.cli.solve_report import add_evaluation, describe, show
from longrun.exact.queueing.known_networks import MODELS as NETWORK_MODELS
from longrun.exact.tabular.evaluation import evaluate
from longrun.exact.tabular.gymnasium_tables import from_gymnasium
from longrun.exact.tabular.mdp import MDP, require_mdp
from longrun.exact.tabular.models import MODELS as TABULAR_MODELS
from longrun.exact.tabular.solvers import METHODS, Truncation, grow_box, solve
from longrun.exact.tabular.structure import reachable
from longrun.learning.envs.env_strings import named_object
from longrun.learning.options.config_options import value_text

MODELS = dict(sorted({**TABULAR_MODELS, **NETWORK_MODELS}.items()))
EVALUATED = 200_000
"""States up to which the optimal policy's stationary distribution is computed by default. Kemeny's
constant takes about ten times as long as the solution of a large model: only on request."""


USAGE = """usage: longrun solve MODEL [options]   (longrun solve MODEL --help lists a model's own)

The optimal long-run average reward of a finite model, between two certified bounds.

models:
{models}
  or a Gymnasium toy-text environment, such as FrozenLake-v1
  or module:name, an MDP of your own or a function that makes one; its parameters become options

for example:
  longrun solve criss-cross --regime BM --map policy.png
  longrun solve access-control --method linear_program --json
  longrun solve n-model --size 30 --limit customers_2=4"""


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
    defaults = _add_model_options(parser, build)
    _add_solver_options(parser)
    given = parse(parser, arguments[1:])
    model = {key: given[key] for key in defaults if key in given}
    size = {**defaults, **model}.get("size")
    report = _solved(lambda **changed: build(**{**model, **changed}), size, given)
    if given.get("json"):
        print(json.dumps(report))
    else:
        show(report)
    return 0


def _builder(name: str) -> Callable[..., MDP]:
    if name not in MODELS and re.search(r"-v\d+$", name):
        return lambda: reachable(from_gymnasium(name))[0]
    if ":" in name:
        return _own_model(name)
    return MODELS[known("model", name, MODELS)]


def _own_model(name: str) -> Callable[..., MDP]:
    found = named_object(name)
    if isinstance(found, MDP):
        return lambda: found
    if not callable(found):
        raise InputError(f"'{name}' is {found!r}; it must be an MDP, or a function that makes one")
    build: Callable[..., MDP] = found
    return build


def _first_line(build: Callable[..., MDP]) -> str:
    return (inspect.getdoc(build) or "").splitlines()[0]


def _add_model_options(parser: Parser, build: Callable[..., MDP]) -> dict[str, Any]:
    """One option for each parameter of the builder; returns their defaults, None where none is."""
    group = parser.add_argument_group("model")
    hints = get_type_hints(build)
    parameters = inspect.signature(build).parameters
    defaults: dict[str, Any] = {}
    for name, parameter in parameters.items():
        default, flag = parameter.default, "--" + name.replace("_", "-")
        settings: dict[str, Any] = {"help": f"(default: {value_text(default, ' ')})"}
        if default is inspect.Parameter.empty:
            default, settings = None, {"required": True, "help": "(required)"}
        defaults[name] = default
        kind = hints.get(name, type(default))
        if isinstance(default, tuple):
            settings["nargs"] = "+"
            kind = (get_args(kind) or (type(default[0]) if default else float,))[0]
        if kind is bool:
            group.add_argument(flag, action=argparse.BooleanOptionalAction, **settings)
            continue
        convert = whole if kind is int else kind if kind in (float, str) else _plain_value
        group.add_argument(flag, type=convert, metavar="X", **settings)
    return defaults


def _plain_value(text: str) -> Any:
    """A number if the text is one, for parameters that do not say what they take."""
    for convert in (whole, float):
        with suppress(ValueError):
            return convert(text)
    return text


def _add_solver_options(parser: Parser) -> None:
    group = parser.add_argument_group("solver")
    group.add_argument(
        "--method", metavar="NAME", help=f"{', '.join(METHODS)} (default: policy_iteration)"
    )
    add_limit_option(
        group,
        "the largest long-run average of one of the model's costs, which are named above; can"
        " be repeated. The policy may then randomise, and the method is policy_iteration or"
        " linear_program (default: by size)",
    )
    group.add_argument(
        "--tolerance",
        type=float,
        metavar="X",
        help="relative distance of the bounds (default: 1e-8)",
    )
    group.add_argument(
        "--check-truncation",
        action="store_true",
        help="also solve the model with half and three quarters of its --size, and estimate the"
        " error that the largest size makes",
    )
    group.add_argument(
        "--kemeny",
        action=argparse.BooleanOptionalAction,
        help="also compute Kemeny's constant of the optimal policy, estimated above 2000 states;"
        f" --no-kemeny: nor its shares of time, which are shown up to {EVALUATED:,} states",
    )
    group.add_argument(
        "--map",
        type=Path,
        metavar="FILE",
        help="draw the optimal policy over 2 or 3 queues: png, pdf or svg",
    )
    group.add_argument("--json", action="store_true", help="print one JSON object")


def _solved(build: Callable[..., MDP], size: Any, given: dict[str, Any]) -> Any:
    """Build and solve the model; the report that --json prints.

    size: the value of the model's parameter of that name, None if it has none.
    """
    options: dict[str, Any] = {key: given[key] for key in ("method", "tolerance") if key in given}
    if "limit" in given:
        options["limits"] = _limits(given["limit"])
    started = time.perf_counter()
    mdp = build()
    require_mdp("solve", mdp)
    built = time.perf_counter()
    _check(mdp, size, given)
    console = Console(stderr=True, soft_wrap=True)  # a warning stays on one line
    with console.status(f"solving {mdp!r}") as status:

        def progress(iteration: int, low: float, high: float) -> None:
            status.update(f"iteration {iteration}: gain between {low:.8g} and {high:.8g}")

        start = time.perf_counter()
        solution = solve(mdp, on_iteration=progress, **options)
        solved = time.perf_counter()
        report = describe(mdp, solution)
        report["build_seconds"], report["solve_seconds"] = built - started, solved - start
        if given.get("kemeny", mdp.num_states <= EVALUATED):
            status.update("evaluating the policy")
            found = evaluate(mdp, solution.policy)
            add_evaluation(report, found, given.get("kemeny", False))
            report["evaluate_seconds"] = time.perf_counter() - solved
        if given.get("check_truncation"):
            status.update("solving smaller boxes")
            report["truncation"] = _truncation(build, size, solution, options)
    if "map" in given:
        from longrun.lab.policy_map.picture import solution_map

        policy = solution.policy
        solution_map(mdp, policy if policy.ndim == 1 else policy.argmax(1), given["map"])
        report["map"] = str(given["map"])
    return report


def _limits(given: list[tuple[str, float]]) -> dict[str, float]:
    limits = dict(given)
    if len(limits) < len(given):
        twice = next(name for i, (name, _) in enumerate(given) if name in dict(given[:i]))
        raise InputError(f"--limit {twice} is given twice; give one rate")
    return limits


def _check(mdp: MDP, size: Any, given: dict[str, Any]) -> None:
    """Raise InputError, before solving, for options that could not be served afterwards."""
    if given.get("check_truncation"):
        if not isinstance(size, int):
            raise InputError("--check-truncation is for models with a --size, a whole number")
        if size < 3:
            raise InputError("--check-truncation also solves smaller boxes; give --size 3 or more")
    if "map" in given:
        from longrun.lab.policy_map.picture import require_map

        require_map(mdp, given["map"])


def _truncation(
    build: Callable[..., MDP], size: int, solution: Any, options: dict[str, Any]
) -> dict[str, Any]:
    """Gains with half, three quarters and all of the size, and the estimated error."""
    try:
        smaller = grow_box(lambda n: build(size=n), [size // 2, 3 * size // 4], **options)
    except InfeasibleLimits as error:
        raise InputError(f"--check-truncation: in a smaller box, {error}") from None
    grown = Truncation([*smaller.sizes, size], [*smaller.solutions, solution])
    gains = [s.gain for s in grown.solutions]
    return {"sizes": grown.sizes, "gains": gains, "error": grown.error}
