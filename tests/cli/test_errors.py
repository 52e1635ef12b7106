"""Errors of commands: exit status, one line for the user, tracebacks on request."""

from __future__ import annotations

import errno
import os
import signal
import subprocess

import pytest

import longrun.cli.solve
from command_line import SCRIPT, call
from fake_workers import launch
from longrun.base.errors import NoConvergence
from longrun.cli import main

WRONG = ["solve", "riverswim", "--length", "1"]
MESSAGE = "longrun: length=1 is too small; give 2 or more\n"


@pytest.fixture(autouse=True)
def no_debugging(monkeypatch):
    monkeypatch.delenv("LONGRUN_DEBUG", raising=False)


def test_wrong_input_is_one_line_and_status_2(capsys):
    assert call(capsys, *WRONG) == (2, "", MESSAGE)


@pytest.mark.parametrize("place", [0, 1, len(WRONG)])
def test_debug_anywhere_shows_the_traceback_before_the_line(place, capsys):
    status, out, err = call(capsys, *WRONG[:place], "--debug", *WRONG[place:])
    assert (status, out) == (2, "")
    assert err.startswith("Traceback (most recent call last):\n")
    assert "longrun.base.errors.InputError: length=1 is too small" in err
    assert err.endswith(MESSAGE)


@pytest.mark.parametrize(("value", "shown"), [("1", True), ("0", False), ("", False)])
def test_the_environment_variable_has_the_same_effect(value, shown, capsys, monkeypatch):
    monkeypatch.setenv("LONGRUN_DEBUG", value)
    status, _, err = call(capsys, *WRONG)
    assert status == 2
    assert ("Traceback" in err) == shown
    assert err.endswith(MESSAGE)


@pytest.mark.parametrize("error", [NoConvergence("no bounds"), OSError("no bounds")])
def test_a_failure_is_one_line_and_status_1(error, capsys, monkeypatch):
    def fail(arguments: list[str]) -> int:
        raise error

    monkeypatch.setattr(longrun.cli.solve, "solve_command", fail)
    assert call(capsys, "solve") == (1, "", "longrun: no bounds\n")
    assert "Traceback" in call(capsys, "solve", "--debug").err


def test_a_defect_is_not_caught(monkeypatch):
    monkeypatch.setattr(longrun.cli.solve, "solve_command", lambda arguments: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        main(["solve"])


def test_the_interpreter_reports_a_defect_with_its_traceback_and_status_1():
    defect = "import longrun.cli.solve as module; module.solve_command = lambda arguments: 1 // 0"
    process = launch(["solve"], patches=defect)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (1, "")
    assert err.startswith("Traceback (most recent call last):\n")
    assert err.splitlines()[-1].startswith("ZeroDivisionError: ")
    assert "longrun: " not in err


def test_an_interrupt_is_one_line_and_status_130(capsys, monkeypatch):
    def interrupt(arguments: list[str]) -> int:
        raise KeyboardInterrupt("; longrun train --resume --out run resumes it")

    monkeypatch.setattr(longrun.cli.solve, "solve_command", interrupt)
    expected = "longrun: interrupted; longrun train --resume --out run resumes it\n"
    assert call(capsys, "solve") == (130, "", expected)


@pytest.mark.parametrize(
    "arguments", ["train apo --help", "plot --help", "--version", "solve riverswim --json"]
)
def test_a_reader_that_ends_early_gets_no_error(arguments):
    """As `| head`. Some versions of argparse ignore errors of writing long help."""
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [SCRIPT, *arguments.split()], stdout=write, stderr=subprocess.PIPE, timeout=120
    )
    os.close(write)
    statuses = {128 + signal.SIGPIPE, *([0] if "--help" in arguments else [])}
    assert done.stderr == b""
    assert done.returncode in statuses


def test_the_error_of_another_pipe_is_one_line(capsys, monkeypatch):
    def fail(arguments: list[str]) -> int:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr(longrun.cli.solve, "solve_command", fail)
    assert call(capsys, "solve") == (1, "", "longrun: [Errno 32] Broken pipe\n")
