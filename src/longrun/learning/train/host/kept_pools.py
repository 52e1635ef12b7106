"""Environments that stay alive between two calls of `learn`, so that nothing has to be repeated.

A pool belongs to a loop and is closed with it, or when others have been kept since. It is used
again if a training starts exactly where its environments are.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from longrun.base.errors import EnvironmentFailure
from longrun.learning.envs.spaces import Array
from longrun.learning.envs.worker_pool import Pool

MOST_KEPT = 2
"""Pools that one process keeps: each may have a process for each core."""


class KeptPool(NamedTuple):
    key: object
    """what the pool was made for"""
    positions: Sequence[Mapping[str, Array]]
    """where its environments are: the `environments` of each replica's snapshot"""
    pool: Pool
    process: int
    """the process that made it, whose workers a fork must not close"""

    def close(self) -> None:
        if self.process == os.getpid():
            self.pool.close()


kept: dict[int, KeptPool] = {}
"""pools by the id of their loops, the most recent one last"""
_lock = threading.RLock()
"""Reentrant: the garbage collector may end a loop in a thread that holds it."""


def take(loop: object, key: object, positions: Sequence[Mapping[str, Array]]) -> Pool | None:
    """The loop's pool if it was made for `key` and is at these positions; else it is closed.

    A pool is of no use either if a worker has died while nothing was asked of it.
    """
    with _lock:
        found = kept.pop(id(loop), None)
    if found is None:
        return None
    same = [id(each) for each in found.positions] == [id(each) for each in positions]
    usable = found.process == os.getpid() and not found.pool.has_failed
    if same and found.key == key and usable:
        return found.pool
    found.close()
    return None


def keep(loop: object, key: object, positions: Sequence[Mapping[str, Array]], pool: Pool) -> None:
    """Keep a pool until it is taken, or its loop is gone, or too many have been kept since."""
    with _lock:
        kept[id(loop)] = KeptPool(key, positions, pool, os.getpid())
        excess = [kept.pop(next(iter(kept))) for _ in range(len(kept) - MOST_KEPT)]
    for old in excess:
        with suppress(EnvironmentFailure):  # it is another agent's, which asked for nothing
            old.close()


def close(loop: int) -> None:
    """Close the pool of the loop with this id, if one is kept."""
    with _lock:
        found = kept.pop(loop, None)
    if found is not None:
        found.close()


def forget(loop: int) -> None:
    """The loop is gone, or the program ends: nobody could handle an error of an environment."""
    with suppress(Exception):
        close(loop)
