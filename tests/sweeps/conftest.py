"""Fixtures of the tests of sweeps."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fake_workers import InlineWorkers, sweep_arguments
from longrun.cli import main
from longrun.lab.sweeps import run_sweep


@pytest.fixture
def inline(monkeypatch):
    """Sweeps train their runs in this process."""
    monkeypatch.setattr(run_sweep, "LocalWorkers", InlineWorkers)


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished sweep of two seeds, trained by two worker processes; not to be changed."""
    out = tmp_path_factory.mktemp("sweeps") / "whole"
    assert main(sweep_arguments(out, "--workers", "2")) == 0
    return out


@pytest.fixture
def copy(whole: Path, tmp_path: Path) -> Path:
    """A copy of `whole` that may be changed."""
    shutil.copytree(whole, tmp_path / "copy")
    return tmp_path / "copy"
