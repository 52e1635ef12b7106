"""Commands of the command line, run in this process."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from longrun.cli import main


class Result(NamedTuple):
    status: Any
    out: str
    err: str


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> Result:
    """The exit status of `longrun ARGUMENTS`, and what it prints."""
    capsys.readouterr()
    try:
        status: Any = main([str(argument) for argument in arguments])
    except SystemExit as end:  # argparse ends --help this way
        status = end.code or 0
    return Result(status, *capsys.readouterr())
