"""What this machine has: cores, and memory, beyond which sizes are refused."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from longrun.base.errors import InputError

GIB = 2**30
LIMIT_OF_CGROUP = Path("/sys/fs/cgroup/memory.max")


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def total_memory() -> float:
    """Bytes that this machine, or its container, has; infinity where the system does not say."""
    limits = [float("inf")]
    with suppress(OSError, ValueError, AttributeError):
        limits.append(float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")))
    with suppress(OSError, ValueError):  # "max" where there is no limit
        limits.append(float(LIMIT_OF_CGROUP.read_text()))
    return min(limits)


def require_memory(size: float, what: str, fix: str = "choose smaller ones") -> None:
    """Raise InputError if `what` needs more bytes than there are at all; `fix` is what to do."""
    if size > total_memory():
        raise InputError(
            f"{what} need {size / GIB:,.1f} GiB of memory, of {total_memory() / GIB:,.1f} GiB that"
            f" there are; {fix}"
        )
