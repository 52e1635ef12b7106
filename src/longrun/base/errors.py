"""The errors that longrun raises on purpose, each with a message of one line for the user.

Each is also a ValueError or a RuntimeError. The command line prints them in one line and exits with
a status; any other exception is a defect and keeps its traceback.
"""

from __future__ import annotations

import difflib
import sys
import warnings
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

OWN_CODE = (str(Path(__file__).parents[1]), "<string>")
"""The folder of longrun's code; dataclasses define their methods in "<string>"."""

NAMED = 4
"""Names that a message lists before it only counts the rest."""
MOST_VALID = 40
"""The same for a list of all valid names."""

LONGEST_TEXT = 1000
"""Characters of another library's error message that are shown."""


class LongrunError(Exception):
    """The base class of all errors below."""


class InputError(LongrunError, ValueError):
    """An argument, an option or a file's content is wrong: the message names it and the fix."""


class InfeasibleLimits(InputError):
    """No policy of a finite model keeps the limits on its costs."""

    def __init__(self, message: str, rates: Mapping[str, float], over: Mapping[str, float]) -> None:
        super().__init__(message)
        self.cost_rates = dict(rates)
        """long-run averages under the policy that comes closest, by the name of the cost"""
        self.violations = dict(over)
        """how far each rate exceeds its limit; the largest, in units of the cost's range in the
        model, is the least that is possible"""


class FolderError(InputError):
    """A run folder, sweep folder or checkpoint is missing, damaged, locked or of another run."""


class EnvironmentFailure(LongrunError, RuntimeError):
    """An environment raised an error or returned something that cannot be learned from."""


class WorkerError(EnvironmentFailure):
    """A process that simulates environments failed or died."""


class HungError(WorkerError):
    """An environment in the training process does not return; its thread is left behind."""


class NonFiniteError(EnvironmentFailure):
    """Non-finite values: observations or rewards of an environment, or what was learned."""


class NoConvergence(LongrunError, RuntimeError):
    """An exact computation did not reach a precision that is of use."""

    def __init__(self, message: str, solution: Any = None) -> None:
        super().__init__(message)
        self.solution = solution
        """the best `longrun.tabular.Solution` so far, with a bracket that holds; None without"""


def text_of(error: BaseException) -> str:
    """An error's text in one line; the error itself where it has none, its type if need be.

    Exceptions such as SystemExit, whose text alone would say little, are written as in Python.
    """
    for as_text in (str, repr) if isinstance(error, Exception) else (repr,):
        with suppress(BaseException):  # a user's class may raise anything here
            if lines := [line.strip() for line in as_text(error).splitlines() if line.strip()]:
                return "; ".join(lines)[:LONGEST_TEXT]
    return type(error).__name__


def named(error: BaseException) -> str:
    """An error's type and text in one line; the text alone where longrun has raised it."""
    text, kind = text_of(error), type(error).__name__
    return text if isinstance(error, LongrunError) or text.startswith(kind) else f"{kind}: {text}"


def warn(message: str) -> None:
    """A warning of one line for the user, about the line of the user's code that led to it."""
    warnings.warn(message, UserWarning, stacklevel=users_level())


def users_level() -> int:
    """The `stacklevel` of a warning of the calling function, so that it names the user's line.

    That is the first line outside longrun; in a thread of longrun's own there is none.
    """
    level, frame = 1, sys._getframe(1)
    while frame.f_back and frame.f_code.co_filename.startswith(OWN_CODE):
        level, frame = level + 1, frame.f_back
    return level


def listed(names: Iterable[str], most: int = NAMED) -> str:
    """The first few names, and how many more there are."""
    names = list(names)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def suggestion(name: str, valid: Iterable[str]) -> str:
    """The names that are similar to an unknown one, or the valid ones, for a message."""
    valid = list(valid)
    if near := similar(name, valid):
        return f"did you mean {', '.join(near)}?"
    return f"valid: {listed(valid, MOST_VALID)}"


def similar(name: str, valid: Iterable[str]) -> list[str]:
    """The valid names that are nearly this one, regardless of case."""
    by_lower = {each.lower(): each for each in valid}
    return [by_lower[each] for each in difflib.get_close_matches(name.lower(), by_lower, n=4)]
