"""`longrun sweep`: many settings, seeds, environments and algorithms, in one folder."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from longrun.cli.options import (
    Parser,
    add_algorithm_options,
    add_evaluation_options,
    add_preset_option,
    parse,
    whole,
)
from longrun.config import ALGORITHMS, known, whole_number
from longrun.errors import InputError

EXAMPLES = """\
The same command again goes on where it was stopped, and finished runs are not done again; with
more seeds, values, environments or steps than before the sweep grows.

examples:
  longrun sweep apo --env Swimmer-v5 --steps 300000 --seeds 5 --out runs/sweep \\
      --grid value_constraint=0,0.1,0.3 --grid gae_lambda=0.95,0.99
  longrun sweep apo ppo --env Swimmer-v5 HalfCheetah-v5 --seeds 5 --grid discount=0.99,0.999
  longrun sweep apo --env Hopper-v5 --grid hidden_sizes=64x64,128x128 \\
      --grid scale_rewards=true,false
  longrun sweep apo --env Ant-v5 --search optuna --trials 30 --seed 100 --seeds 2 \\
      --range learning_rate=1e-4:1e-3:log --range gae_lambda=0.8:0.99
  longrun sweep --resume --out runs/sweep"""


RUNNING = ("workers", "ray", "retries", "quiet")
"""Options that say how a sweep is run, and not what it is."""


def sweep_command(arguments: list[str]) -> int:
    algorithms = [
        known("algorithm", name.lower(), ALGORITHMS)
        for name in itertools.takewhile(lambda a: not a.startswith("-"), arguments)
    ]
    given = parse(_parser(algorithms), arguments[len(algorithms) :])
    from longrun.sweeps.run_sweep import run_sweep
    from longrun.sweeps.sweep_folder import SweepFolder

    running = {name: given[name] for name in RUNNING if name in given}
    if not given.get("resume"):
        return run_sweep(_new(algorithms, given), **running)
    others = [name for name in given if name not in (*RUNNING, "resume", "out")]
    if algorithms or others:
        what = f"--{others[0].replace('_', '-')}" if others else algorithms[0]
        raise InputError(f"--resume takes the sweep as it is in --out; leave out {what}")
    if "out" not in given:
        raise InputError("--resume needs --out, the sweep's folder")
    return run_sweep(SweepFolder.open(given["out"]), **running)


def _parser(algorithms: Sequence[str]) -> Parser:
    parser = Parser(
        prog="longrun sweep",
        usage="longrun sweep ALGORITHM [ALGORITHM ...] --env ID [ID ...] [options]",
        description="Train every setting of a grid or a search with every seed. A sweep is a"
        " folder; it can be stopped and started again at any moment.",
        epilog=EXAMPLES,
    )
    parser.formatter_class = lambda prog: _Help(prog, max_help_position=32)
    group = parser.add_argument_group("what")
    group.add_argument("--env", nargs="+", metavar="ID", help="one or more environments")
    group.add_argument("--steps", type=whole, help="steps of each replica (default: 1000000)")
    group.add_argument("--seeds", type=int, metavar="K", help="seeds of each setting (default: 1)")
    group.add_argument("--seed", type=int, help="first seed; the others follow (default: 0)")
    group.add_argument(
        "--grid",
        action="append",
        metavar="NAME=A,B,...",
        help="values of an option, any of those below; several make a grid. An option that one of"
        " the algorithms does not have is left out for it; ppo.gae_lambda=0.9 is PPO's alone",
    )
    group.add_argument(
        "--range",
        action="append",
        metavar="NAME=LOW:HIGH[:log]",
        help="numbers to search in, with --search random or optuna",
    )
    group.add_argument(
        "--search",
        metavar="HOW",
        help="grid: every combination (default); random: --trials points drawn from grid and"
        " ranges; optuna: --trials points, each chosen from the results so far, for each"
        " algorithm and environment (maximises the last evaluation's average reward)",
    )
    group.add_argument("--trials", type=int, metavar="N", help="points of a search (default: 20)")
    add_preset_option(group)
    add_evaluation_options(group)
    add_running_options(parser)
    parser.add_argument("--out", type=Path, help="the sweep's folder (default: runs/sweep)")
    parser.add_argument("--resume", action="store_true", help="go on with the sweep in --out")
    if algorithms:
        add_algorithm_options(parser, *(ALGORITHMS[name] for name in algorithms))
    return parser


class _Help(argparse.HelpFormatter):
    """Leaves the lines of the examples as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if "\n" in text else super()._fill_text(text, width, indent)


def add_running_options(parser: Parser) -> None:
    """Where and how the runs of a sweep are trained."""
    group = parser.add_argument_group("where")
    group.add_argument(
        "--workers", type=int, metavar="N", help="runs at once (default: one for each core)"
    )
    group.add_argument(
        "--ray",
        metavar="ADDRESS",
        help="train on a Ray cluster: auto for the one this machine belongs to, or HOST:PORT",
    )
    group.add_argument(
        "--retries",
        type=int,
        metavar="N",
        help="how often a failed run is tried again, from its checkpoint (default: 1)",
    )
    group.add_argument("--quiet", action="store_true", help="no live table")


def _new(algorithms: Sequence[str], given: Mapping[str, Any]) -> Any:
    from longrun.sweeps.grids import parse_lists, parse_ranges
    from longrun.sweeps.request import Request
    from longrun.sweeps.run_sweep import begin

    if not algorithms:
        raise InputError(f"sweep needs an algorithm; valid: {', '.join(ALGORITHMS)}")
    if "env" not in given:
        raise InputError("sweep needs --env, for example --env Swimmer-v5 HalfCheetah-v5")
    first = whole_number("seed", given.get("seed", 0))
    count = whole_number("seeds", given.get("seeds", 1), 1)
    evaluation = {name: given[name] for name in ("eval_every", "eval_steps") if name in given}
    names = {f for a in algorithms for f in ALGORITHMS[a].__dataclass_fields__}
    request = Request(
        algorithms=algorithms,
        envs=given["env"],
        steps=given.get("steps", 1_000_000),
        seeds=range(first, first + count),
        preset=given.get("preset", "paper"),
        fixed={name: value for name, value in given.items() if name in names},
        lists=parse_lists(given.get("grid", [])),
        ranges=parse_ranges(given.get("range", [])),
        search=given.get("search", "grid"),
        trials=given.get("trials"),
        evaluation=evaluation | ({"eval_every": 0} if given.get("no_eval") else {}),
    )
    return begin(request, given.get("out", Path("runs/sweep")))
