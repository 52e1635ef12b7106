"""Environments that stay alive between two calls of `learn`, so that nothing has to be repeated.

A pool belongs to a loop and is closed with it, or when others have been kept since. It is used
again if a training starts exactly where its environments are.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from longrun.base.errors import EnvironmentFailure
from longrun.learning.envs.spaces import Array
from longrun.learning.envs.worker_pool import Pool

MOST_KEPT = 2
"""Pools that one process keeps: each may have a process for each core."""


@dataclass(eq=False)
class KeptPool:
    owner: weakref.ref[object]
    key: Hashable
    """what the pool was made for"""
    positions: list[Mapping[str, Array]]
    """where its environments are: the `environments` of each replica's snapshot"""
    pool: Pool
    process: int = field(default_factory=os.getpid)
    at_end: weakref.finalize[[KeptPool], object] | None = None
    """what closes the pool when its owner is gone, or the program ends"""

    def forget_owner(self) -> None:
        """Detach `at_end`, which would hold the memory of an entry that is not kept any more."""
        if self.at_end is not None:
            self.at_end.detach()

    def close(self) -> None:
        if self.process == os.getpid():  # not in a fork, whose parent still needs the workers
            self.pool.close()


kept: list[KeptPool] = []
"""the most recent one last"""
_lock = threading.RLock()
"""Reentrant: the garbage collector may end an owner in a thread that holds it."""


def take(owner: object, key: Hashable, positions: Sequence[Mapping[str, Array]]) -> Pool | None:
    """The owner's pool if it was made for `key` and is at these positions; else it is closed.

    A pool is of no use either if a worker has died while nothing was asked of it.
    """
    entry = _remove(owner)
    if entry is None:
        return None
    same = len(entry.positions) == len(positions) and all(
        mine is given for mine, given in zip(entry.positions, positions, strict=True)
    )
    usable = entry.process == os.getpid() and not entry.pool.has_failed
    if same and entry.key == key and usable:
        return entry.pool
    entry.close()
    return None


def keep(
    owner: object, key: Hashable, positions: Sequence[Mapping[str, Array]], pool: Pool
) -> None:
    """Keep a pool until it is taken, or its owner is gone, or too many have been kept since."""
    entry = KeptPool(weakref.ref(owner), key, list(positions), pool)
    entry.at_end = weakref.finalize(owner, _forget, entry)
    with _lock:
        kept.append(entry)
        excess = [kept.pop(0) for _ in range(len(kept) - MOST_KEPT)]
    for old in excess:
        old.forget_owner()
        with suppress(
            EnvironmentFailure
        ):  # it is another agent's, which was not asked for anything
            old.close()


def close(owner: object) -> None:
    """Close the owner's pool, if one is kept."""
    entry = _remove(owner)
    if entry is not None:
        entry.close()


def _remove(owner: object) -> KeptPool | None:
    with _lock:
        found = next((entry for entry in kept if entry.owner() is owner), None)
        if found is not None:
            kept.remove(found)
            found.forget_owner()
        return found


def _forget(entry: KeptPool) -> None:
    """The owner is gone, or the program ends: nobody could handle an error of an environment."""
    with _lock:
        if entry not in kept:
            return
        kept.remove(entry)
    with suppress(Exception):
        entry.close()
