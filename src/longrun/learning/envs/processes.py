"""Worker processes: Python programs of this package, each with its own session and one thread.

No wait here is without a limit: a process may be stopped, or in a state where it cannot be killed.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import cache, partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import IO, Any

ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1"
)
"""Environment variables that keep the numerical libraries of a process to one thread."""

MESSAGE_SECONDS = 60
"""Longest wait for the rest of a message, or for room to send one: a worker can be stopped amid."""
PR_SET_PDEATHSIG = 1
"""The constant of <linux/prctl.h>."""
KILL_SECONDS = 10.0
"""Longest wait for a process that was killed, but may be in a system call that does not return."""


class Child:
    """A process `python -m module CONNECTION *arguments`, and this end of its connection."""

    def __init__(
        self,
        module: str,
        variables: Mapping[str, str],
        arguments: Sequence[object] = (),
        fds: Sequence[int] = (),
        output: IO[bytes] | None = None,
    ) -> None:
        """The connection comes before the other arguments and files of `start_process`."""
        self.connection, theirs = limited_pipe()
        with theirs:
            fd = theirs.fileno()
            self.process = start_process(module, (fd, *arguments), (fd, *fds), variables, output)
        self._is_ending = threading.Lock()

    def has_ended(self) -> bool:
        """Whether it has ended and all its messages were read.

        The connection alone does not tell: a process that an environment has forked can keep it.
        """
        return self.process.poll() is not None and not self.connection.poll()

    def end(self, seconds: float) -> int:
        """Wait up to `seconds`, then kill it and its child processes; returns its exit status.

        Once, since another process may have its number later.
        """
        if self._is_ending.acquire(blocking=False):
            return end_process(self.process, seconds)
        return self.process.poll() or 0


def limited_pipe() -> tuple[Connection, Connection]:
    """A pipe in both directions. At the first end, reading or writing amid a message has a limit.

    What does not come in time is an OSError there, as if the other end were closed.
    """
    ours, theirs = Pipe()
    with socket.socket(fileno=os.dup(ours.fileno())) as same:
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            same.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", MESSAGE_SECONDS, 0))
    return ours, theirs


def start_process(
    module: str,
    arguments: Sequence[object],
    fds: Sequence[int],
    variables: Mapping[str, str],
    output: IO[bytes] | None = None,
) -> subprocess.Popen[bytes]:
    """Run `python -m module` with the paths of this process, these open files and variables.

    Its output goes to `output`, or to that of this process. It has a session of its own: Ctrl-C
    reaches only this process, which then ends the other. The calling thread may end before it.
    """
    paths = {"PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
    start = partial(
        subprocess.Popen,
        [sys.executable, "-P", "-m", module, *map(str, arguments)],
        pass_fds=fds,
        env=os.environ | paths | dict(variables),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
    )
    started: Future[subprocess.Popen[bytes]] = Future()
    _starts(os.getpid()).put((started, start))
    try:
        wait([started])
    except BaseException:  # Ctrl-C: nobody else knows of the process
        if started.exception() is None:
            end_process(started.result(), 0.0)
        raise
    return started.result()


@cache
def _starts(process: int) -> SimpleQueue[tuple[Future[Any], Callable[[], Any]]]:
    """What the thread of this process that starts others has to do; that thread never ends.

    By process number, since a process that was forked has none of its parent's threads.
    """
    queue: SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = SimpleQueue()

    def start_all() -> None:
        while True:
            settle(*queue.get())

    threading.Thread(target=start_all, name="longrun starts processes", daemon=True).start()
    return queue


def settle(future: Future[Any], function: Callable[[], Any]) -> None:
    """Call the function for a future."""
    try:
        future.set_result(function())
    except BaseException as error:
        future.set_exception(error)


def end_process(process: subprocess.Popen[bytes], seconds: float) -> int:
    """Wait up to `seconds`, then kill it and its child processes; returns its exit status."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    with suppress(ProcessLookupError, PermissionError):  # macOS: of one that has ended
        os.killpg(process.pid, signal.SIGKILL)
    try:
        return process.wait(KILL_SECONDS)
    except subprocess.TimeoutExpired:
        return -signal.SIGKILL  # it ends when its system call does


def end_with(parent: int) -> None:
    """Let this process end when its parent does, whatever it is doing.

    On Linux the kernel sees to it, also for a process that is stopped or hangs in C code with
    Python's lock. It does so when the thread ends that started this process, which is why
    `start_process` has a thread for it. Elsewhere a thread of this process has to notice.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended before the kernel was told
        os._exit(1)
    threading.Thread(target=_exit_with, args=(parent,), daemon=True).start()


def _exit_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def cause_of_exit(status: int) -> str:
    """The signal that ended a process, or its exit status."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:  # real-time signals have no name
        return f"signal {-status}"
