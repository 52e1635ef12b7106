"""Parsers of the commands, and the options that several of them share."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import re
import shutil
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn, Protocol

from longrun.base.checks import known
from longrun.base.errors import InputError
from longrun.learning.options.config import ALGORITHMS, Config
from longrun.learning.options.config_options import (
    make_config,
    option_names,
    values_text,
    why_unknown,
)
from longrun.learning.options.option_fields import functions, limits, names
from longrun.learning.options.presets import DEFAULT, PRESETS_IN_WORDS


class Parser(argparse.ArgumentParser):
    """Wrong input raises InputError; only options that were given are in the result.

    Paragraphs of the description are wrapped; the epilog, which has examples, is printed as it is.
    `algorithms` are those whose options the command takes.
    """

    def __init__(
        self, description: str = "", algorithms: Sequence[str] = (), **settings: Any
    ) -> None:
        self.algorithms = algorithms
        super().__init__(
            argument_default=argparse.SUPPRESS,
            allow_abbrev=False,
            description=_wrapped(description),
            formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(
                prog, max_help_position=32
            ),
            **settings,
        )

    @property
    def flags(self) -> list[str]:
        """All options, as they are typed."""
        return list(self._option_string_actions)

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message} (see {self.prog} --help)")


class Arguments(Protocol):
    """A parser or a group of its options."""

    def add_argument(self, *flags: str, **settings: Any) -> Any: ...


def _wrapped(text: str) -> str:
    """Each paragraph filled to the width of the terminal."""
    width = shutil.get_terminal_size().columns - 2
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(textwrap.fill(paragraph, width) for paragraph in paragraphs)


def whole(text: str) -> int:
    """A whole number, 1e6 included."""
    number = float(text)
    if not number.is_integer():
        raise ValueError
    return int(number)


whole.__name__ = "whole number"  # what argparse calls it in errors


def parse(parser: Parser, arguments: Sequence[str]) -> dict[str, Any]:
    """Options that were given, by name. Raises InputError for an unknown one, with near names."""
    given, unknown = parser.parse_known_args(list(arguments))
    for argument in unknown:
        if argument.startswith("--"):
            given_name = argument.partition("=")[0]
            if why := why_unknown(given_name[2:].replace("-", "_"), parser.algorithms):
                raise InputError(f"unknown option of {parser.prog} '{given_name}'; {why}")
            known(f"option of {parser.prog}", given_name, parser.flags)
        raise InputError(f"'{argument}' is not expected (see {parser.prog} --help)")
    return vars(given)


def add_trust_option(parser: Arguments | Parser) -> None:
    """Add `--trust`, for commands that make an environment which a file names."""
    parser.add_argument(
        "--trust",
        action="store_true",
        help="import the module that a run names for its environment (module:Id), which runs the"
        " module's code",
    )


def add_results_argument(parser: Parser) -> None:
    """The folders that a command reads."""
    parser.add_argument(
        "runs", type=Path, nargs="+", help="run folders, sweep folders, or folders of these"
    )


def add_length_options(group: Arguments) -> None:
    """How many steps, and which seeds."""
    group.add_argument(
        "--steps",
        type=whole,
        metavar="N",
        help="environment steps of each seed of each setting (default: 1000000)",
    )
    group.add_argument("--seeds", type=int, metavar="K", help="seeds of each setting (default: 1)")
    group.add_argument(
        "--seed", type=int, metavar="N", help="first seed; the others follow (default: 0)"
    )


def add_preset_option(group: Arguments) -> None:
    presets = "; ".join(f"{name}: {words}" for name, words in PRESETS_IN_WORDS.items())
    group.add_argument("--preset", metavar="NAME", help=f"{presets} (default: {DEFAULT})")


def add_evaluation_options(group: Arguments) -> None:
    group.add_argument(
        "--eval-every",
        type=whole,
        metavar="STEPS",
        help="steps between evaluations (default: a 20th of --steps, at least 30000)",
    )
    group.add_argument(
        "--eval-steps", type=whole, metavar="STEPS", help="steps of an evaluation (default: 10000)"
    )
    group.add_argument(
        "--no-eval", dest="eval_every", action="store_const", const=0, help="never evaluate"
    )


def add_algorithm_options(parser: Parser, *kinds: type[Config]) -> None:
    """The options of one or several algorithms, from the fields of their configurations."""
    owned = {kind.__name__.removesuffix("Config"): option_names(kind) for kind in kinds}
    group = parser.add_argument_group(
        f"options of {', '.join(owned)} (defaults of --preset {DEFAULT})"
    )
    options = {option.name: option for kind in kinds for option in dataclasses.fields(kind)}
    presets = {name: make_config(name) for name in owned}
    for option in options.values():
        if option.metadata["check"] is functions:
            continue  # from Python only
        owners = [name for name, fields in owned.items() if option.name in fields]
        only = f"{', '.join(owners)} only: " if len(owners) < len(owned) else ""
        flag = "--" + option.name.replace("_", "-")
        default = option.default
        usual = values_text({name: getattr(presets[name], option.name) for name in owners})
        text = f"{only}{option.metadata['help']} (default: {usual})"
        if isinstance(default, bool):
            group.add_argument(flag, action=argparse.BooleanOptionalAction, help=text)
        elif option.metadata["check"] is limits:
            add_limit_option(group, text, dest=option.name)
        elif option.metadata["check"] is names:
            group.add_argument(flag, nargs="+", metavar="NAME", help=text)
        elif isinstance(default, tuple):
            group.add_argument(flag, type=sizes(flag), nargs="+", metavar="N", help=text)
        else:
            metavar = {int: "N", float: "X", str: "NAME"}[type(default)]
            kind = whole if isinstance(default, int) else type(default)
            group.add_argument(flag, type=kind, metavar=metavar, help=text)


def sizes(flag: str) -> Callable[[str], int]:
    """Reads one of the numbers of an option, which stand apart: 64 64."""

    def size(text: str) -> int:
        if re.fullmatch(r"\d+(,\d+)+,?", text):
            apart = text.replace(",", " ").strip()
            raise argparse.ArgumentTypeError(
                f"'{text}' is not one whole number; write {flag} {apart}"
            )
        return int(text)

    size.__name__ = "whole number"  # what argparse calls it in errors
    return size


def add_limit_option(group: Arguments, text: str, **settings: Any) -> None:
    """--limit NAME=RATE, which can be repeated."""
    group.add_argument(
        "--limit", action="append", type=limit, metavar="NAME=RATE", help=text, **settings
    )


def limit(text: str) -> tuple[str, float]:
    name, _, rate = text.partition("=")
    if not name:
        raise ValueError
    return name, float(rate)


limit.__name__ = "NAME=RATE"  # what argparse calls it in errors


def algorithm_options(algorithm: str, given: dict[str, Any]) -> dict[str, Any]:
    """The given options that are fields of the algorithm's configuration."""
    names = option_names(ALGORITHMS[algorithm])
    return {name: value for name, value in given.items() if name in names}
