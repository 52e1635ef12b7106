"""Options of the command line, made from the configurations' own fields."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from longrun.config import ALGORITHMS, Config, known, value_text
from longrun.errors import InputError
from longrun.presets import PRESETS, PRESETS_IN_WORDS


class Parser(argparse.ArgumentParser):
    """Wrong input raises a one-line ValueError; only options that were given are in the result."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(
            argument_default=argparse.SUPPRESS,
            allow_abbrev=False,
            formatter_class=lambda prog: argparse.HelpFormatter(prog, max_help_position=32),
            **settings,
        )

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message} (see {self.prog} --help)")


def whole(text: str) -> int:
    """A whole number, 1e6 included."""
    number = float(text)
    if not number.is_integer():
        raise ValueError
    return int(number)


whole.__name__ = "whole number"  # what argparse calls it in errors


def parse(parser: Parser, arguments: Sequence[str]) -> dict[str, Any]:
    """Options that were given, by name; an unknown one raises and lists the near ones."""
    given, unknown = parser.parse_known_args(list(arguments))
    for argument in unknown:
        if argument.startswith("--"):
            known(f"option of {parser.prog}", argument.split("=")[0], parser._option_string_actions)
        raise InputError(f"'{argument}' is not expected (see {parser.prog} --help)")
    return vars(given)


def add_run_options(parser: Parser) -> None:
    """What, how long, where to: the same for every algorithm."""
    group = parser.add_argument_group("run")
    group.add_argument(
        "--env",
        metavar="ID",
        help="Gymnasium environment, e.g. Swimmer-v5, or one that runs inside the compiled program:"
        " jax:criss-cross, brax:halfcheetah, playground:CheetahRun, gymnax:Pendulum-v1",
    )
    group.add_argument(
        "--env-args",
        nargs="+",
        metavar="NAME=VALUE",
        help="arguments of the environment, e.g. regime=BM; listed by --env jax:criss-cross --help",
    )
    group.add_argument(
        "--steps", type=whole, help="environment steps of each replica (default: 1000000)"
    )
    group.add_argument(
        "--seeds", type=int, metavar="K", help="replicas of each setting (default: 1)"
    )
    group.add_argument("--seed", type=int, help="first seed; the others follow (default: 0)")
    group.add_argument(
        "--grid",
        action="append",
        metavar="NAME=A,B,...",
        help="train one setting for each value of a numeric option; several make a grid",
    )
    add_preset_option(group)
    group.add_argument("--out", type=Path, help="run folder (default: runs/ALGORITHM-ENV)")
    group.add_argument("--resume", action="store_true", help="go on from --out's checkpoint")
    group.add_argument(
        "--workers", type=int, help="simulating processes (default: one a core; 0: none)"
    )
    group.add_argument(
        "--distributed",
        metavar="WHERE",
        help="this is one of several processes that train together on the devices of all: auto (on"
        " Slurm, Open MPI, Kubernetes, TPU) or ADDRESS:PORT,PROCESSES,INDEX",
    )
    add_evaluation_options(group)
    group.add_argument("--tensorboard", action="store_true", help="also write TensorBoard files")
    group.add_argument("--quiet", action="store_true", help="no progress bar")


def add_preset_option(group: argparse._ArgumentGroup) -> None:
    presets = "; ".join(f"{name}: {words}" for name, words in PRESETS_IN_WORDS.items())
    group.add_argument("--preset", metavar="NAME", help=f"{presets} (default: paper)")


def add_evaluation_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--eval-every",
        type=whole,
        metavar="STEPS",
        help="steps between evaluations (default: a 20th of --steps, at least 30000)",
    )
    group.add_argument(
        "--eval-steps", type=whole, metavar="STEPS", help="steps of an evaluation (default: 10000)"
    )
    group.add_argument("--no-eval", action="store_true", help="never evaluate")


def add_algorithm_options(parser: Parser, *kinds: type[Config]) -> None:
    """The options of an algorithm, or of several: each once."""
    names = ", ".join(kind.__name__.removesuffix("Config") for kind in kinds)
    group = parser.add_argument_group(f"{names} (defaults: paper)")
    options = {option.name: option for kind in kinds for option in dataclasses.fields(kind)}
    for option in options.values():
        flag = "--" + option.name.replace("_", "-")
        default = option.default
        usual = PRESETS["paper"].get(option.name, default)
        text = f"{option.metadata['help']} (default: {value_text(usual, ' ')})"
        if isinstance(default, bool):
            group.add_argument(flag, action=argparse.BooleanOptionalAction, help=text)
        elif isinstance(default, tuple):
            group.add_argument(flag, type=int, nargs="+", metavar="N", help=text)
        else:
            metavar = {int: "N", float: "X", str: "NAME"}[type(default)]
            group.add_argument(flag, type=type(default), metavar=metavar, help=text)


def algorithm_options(algorithm: str, given: dict[str, Any]) -> dict[str, Any]:
    """Those of the given options that belong to the algorithm itself."""
    names = {option.name for option in dataclasses.fields(ALGORITHMS[algorithm])}
    return {name: value for name, value in given.items() if name in names}
