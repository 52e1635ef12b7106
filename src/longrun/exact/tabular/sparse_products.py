"""Products of a large sparse matrix with a vector, on all cores.

SciPy releases Python's lock in products, so blocks of rows can be multiplied in threads.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
from scipy import sparse

from longrun.exact.tabular.validation import Array, Matrix

ENTRIES = 1_000_000
"""Minimum number of entries of a block; below that, threads cost more than they save."""


class RowBlocks:
    """A CSR matrix [R, C] as blocks of rows that share its memory."""

    def __init__(self, matrix: Matrix) -> None:
        cores = os.cpu_count() or 1
        self.rows = matrix.shape[0]
        count = min(2 * cores, matrix.nnz // ENTRIES) if cores > 1 else 1
        places = np.linspace(0, matrix.nnz, max(count, 1) + 1)
        self.edges = np.searchsorted(matrix.indptr, places)
        self.edges[0], self.edges[-1] = 0, self.rows
        self.blocks = [
            _rows(matrix, int(first), int(last))
            for first, last in zip(self.edges[:-1], self.edges[1:], strict=True)
        ]

    def __matmul__(self, vector: Array) -> Array:
        if len(self.blocks) == 1:
            return np.asarray(self.blocks[0] @ vector)
        result = np.empty(self.rows)

        def multiply(block: int) -> None:
            result[self.edges[block] : self.edges[block + 1]] = self.blocks[block] @ vector

        list(_threads().map(multiply, range(len(self.blocks))))
        return result


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="longrun-products")


if hasattr(os, "register_at_fork"):  # a forked process has none of its parent's threads
    os.register_at_fork(after_in_child=_threads.cache_clear)


def _rows(matrix: Matrix, first: int, last: int) -> Matrix:
    starts = matrix.indptr[first : last + 1]
    entries = slice(starts[0], starts[-1])
    block = sparse.csr_array((last - first, matrix.shape[1]))
    # The constructor would copy parts of much larger arrays.
    block.data, block.indices = matrix.data[entries], matrix.indices[entries]
    block.indptr = starts - starts[0]
    return block
