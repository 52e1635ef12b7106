"""Commands of the command line, and checks of what they print and write."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import pytest
from matplotlib.image import imread

from longrun.cli import main
from tiny_envs import ITERATION, TINY_FLAGS

SCRIPT = Path(sys.executable).parent / "longrun"


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


def script(*command: str) -> Result:
    """The same for the installed program."""
    done = subprocess.run([SCRIPT, *command], capture_output=True, text=True, timeout=120)
    return Result(done.returncode, done.stdout, done.stderr)


def train_arguments(out: Path, *more: str) -> list[str]:
    """`longrun train` of two iterations, each with an evaluation."""
    steps = ["--steps", str(2 * ITERATION), "--eval-every", str(ITERATION), "--eval-steps", "100"]
    where = ["train", "apo", "--env", "Drift-v0", "--out", str(out), "--workers", "0"]
    return [*where, *steps, *TINY_FLAGS, *more]


def refused(result: Result, *words: str) -> None:
    """Exit status 2 and one line with these words, nothing else."""
    assert result.status == 2
    assert result.out == ""
    assert result.err.count("\n") == 1, result.err
    assert result.err.startswith("longrun: ")
    for word in words:
        assert word in result.err


def files_of(folder: Path) -> dict[Path, bytes]:
    """The content of every file in a folder."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def require_picture(file: Path) -> None:
    """The file is what its ending says; a PNG has colours besides black, white and grey."""
    if file.suffix == ".svg":
        assert ElementTree.parse(file).getroot().tag.endswith("svg")
    else:
        red, green, blue = imread(file)[..., :3].reshape(-1, 3).T
        assert ((red != green) | (green != blue)).any()
