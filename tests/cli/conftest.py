"""Fixtures of the tests of the command line."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from command_line import call, train_arguments
from longrun.cli import main


@pytest.fixture
def longrun(capsys):
    """Runs a command in this process."""
    return partial(call, capsys)


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seeds of two settings, two iterations each. Tests that change it work on a copy."""
    out = tmp_path_factory.mktemp("runs") / "run"
    assert main(train_arguments(out, "--seeds", "2", "--grid", "value-constraint=0,0.3")) == 0
    return out
