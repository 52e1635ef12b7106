"""Hashes of observation rows, by which a repeated episode is compared with the recorded one."""

from __future__ import annotations

from functools import cache

import numpy as np

from longrun.learning.envs.spaces import Array

UNKNOWN = 0
"""Stands for the hash of a row that was not recorded."""


def row_hashes(rows: Array) -> Array:
    """Hashes of float32 rows: [..., D] -> [...] uint32, never `UNKNOWN`; they compare bits."""
    bits = np.ascontiguousarray(rows, np.float32).view(np.uint32)
    hashes = (bits * _factors(rows.shape[-1])).sum(-1, dtype=np.uint32)
    found: Array = np.maximum(hashes, np.uint32(1))
    return found


@cache
def _factors(size: int) -> Array:
    """[D] odd numbers: a product with one of them, modulo 2**32, loses no bit."""
    drawn = np.random.default_rng(0).integers(0, 2**31, size, np.uint32)
    return 2 * drawn + np.uint32(1)
