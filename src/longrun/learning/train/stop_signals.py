"""Ctrl-C and SIGTERM while training: noted by a handler, and obeyed between two iterations.

Python's own KeyboardInterrupt can be raised anywhere, and is lost where a callback of a library
ignores exceptions. Raised while XLA compiled in other threads, it ended the process by a
segmentation fault.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

TERMINATED = 128 + signal.SIGTERM
"""Exit status of a process that SIGTERM ended, as shells have it."""


class StopRequest:
    """What signals have asked for so far."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def __bool__(self) -> bool:
        return self.signal is not None

    def obey(self) -> None:
        """End what is running, once everything is saved: KeyboardInterrupt, or SystemExit."""
        if self.signal == signal.SIGTERM:
            raise SystemExit(TERMINATED)
        if self.signal is not None:
            raise KeyboardInterrupt


@contextmanager
def stop_signals(end_at_once: Callable[[], None] | None = None) -> Iterator[StopRequest]:
    """Note Ctrl-C and SIGTERM instead of raising; a second signal calls `end_at_once`.

    Without `end_at_once` a second signal raises KeyboardInterrupt. Signals that the caller handles
    or ignores are left to the caller, and so are all of them outside the main thread.
    """
    request = StopRequest()

    def handle(number: int, frame: FrameType | None) -> None:
        if not request:
            request.signal = number
            if sys.stderr.isatty():
                print("\nsaving and stopping; Ctrl-C again stops at once", file=sys.stderr)
        elif end_at_once is not None:
            end_at_once()
        else:
            raise KeyboardInterrupt

    usual: dict[signal.Signals, Any] = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGTERM: signal.SIG_DFL,
    }
    taken = [number for number, handler in usual.items() if signal.getsignal(number) is handler]
    if threading.current_thread() is not threading.main_thread():
        taken = []
    for number in taken:
        signal.signal(number, handle)
    try:
        yield request
    finally:
        for number in taken:
            signal.signal(number, usual[number])
