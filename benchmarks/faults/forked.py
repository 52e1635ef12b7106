"""Processes that begin with longrun imported, which takes most of the time of a short run."""

from __future__ import annotations

import functools
import importlib
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from typing import Any

PRELOADED = ("jax", "optax", "gymnasium", "gymnasium.envs.classic_control", "longrun.cli.train_run")
PRELOADED += ("longrun.lab.results.tables", "longrun.lab.sweeps.run_sweep", "longrun.cli.sweep")


class Forked:
    """A fork of this process that executes Python code; used as a `subprocess.Popen`.

    This process must not have computed anything with JAX: the threads of that would be missing.
    """

    def __init__(self, code: str) -> None:
        _preload()
        self.returncode: int | None = None
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  (until it was read)
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            null = os.open(os.devnull, os.O_RDWR)
            for target, source in ((0, null), (1, null), (2, self._errors.fileno())):
                os.dup2(source, target)
            os.closerange(3, 256)
            status = _status_of(code)
            sys.stderr.flush()
            os._exit(status)  # what this process does at its exit is not the child's to do

    def poll(self) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        began = time.monotonic()
        while self.poll() is None:
            if timeout is not None and time.monotonic() - began > timeout:
                raise subprocess.TimeoutExpired("a fork", timeout)
            time.sleep(0.01)
        assert self.returncode is not None
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[None, str]:
        self.wait(timeout)
        if self._errors.closed:
            return None, ""
        self._errors.seek(0)
        with self._errors:
            return None, self._errors.read().decode(errors="replace")

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@functools.cache
def _preload() -> None:
    for name in PRELOADED:
        importlib.import_module(name)


def _status_of(code: str) -> int:
    """Execute code in the child; the status that a program of it would have."""
    try:
        exec(compile(code, "<command>", "exec"), {"__name__": "__main__"})
    except SystemExit as ending:
        status: Any = ending.code
        return status if isinstance(status, int) else 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0
