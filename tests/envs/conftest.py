"""Fixtures of the tests of environments."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tiny_envs import is_running, wait_until


@pytest.fixture
def nothing_left(tmp_path: Path) -> Iterator[Path]:
    """A folder for `Drift(notes=...)`; at the end no process, memory or descriptor is left."""
    memory = _shared_memory()
    notes = tmp_path / "notes"
    notes.mkdir()
    yield notes
    pids = {path.name for path in notes.iterdir()} - {str(os.getpid())}
    try:
        wait_until(lambda: not any(map(is_running, pids)), seconds=5)  # being killed takes a moment
    finally:  # a test that fails leaves nothing either
        for pid in filter(is_running, pids):
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
    assert _shared_memory() - memory == set()


def _shared_memory() -> set[str]:
    """Names of shared memory; semaphores are not the library's, but of other tests meanwhile."""
    return {name for name in os.listdir("/dev/shm") if not name.startswith("sem.")}
