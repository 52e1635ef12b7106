"""Messages of a sweep's workers, as JSON carries them.

alive: a sign of life, every few seconds. progress: of a run; the first one says that it begins.
done, stopped, failed: how a run ended. died: the worker is gone without such a message.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

from longrun.base.errors import HungError, text_of

Message = dict[str, Any]
"""`kind`, and what belongs to it."""
Report = Callable[[Message], None]
"""Receives messages about the progress of a run."""


def progress_message(steps: int, rate: float = 0.0, reward: float = float("nan")) -> Message:
    """Steps of all replicas so far, steps per second, mean reward of the last rollout."""
    return {"kind": "progress", "steps": steps, "steps_per_second": rate, "reward": reward}


def failure_message(error: Exception) -> Message:
    """The message about the exception that is being handled.

    `again`: whether another attempt may succeed. `ends`: whether the worker has to end, because a
    thread of it is left behind in an environment.
    """
    return {
        "kind": "failed",
        "error": f"{type(error).__name__}: {text_of(error)}",
        "traceback": traceback.format_exc(),
        "errno": getattr(error, "errno", None),
        "again": not isinstance(error, ValueError),  # wrong input stays wrong
        "ends": isinstance(error, HungError),
    }


def one_line(error: BaseException | str) -> str:
    """The first line of an error's text; the exception's representation if it has no text."""
    return next(iter(str(error).strip().splitlines()), repr(error))
