"""Arrays shared by several processes, in one unnamed file in memory.

The file never has a name, so nothing is left behind however a process ends.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Mapping

import numpy as np

from longrun.learning.envs.spaces import Array

Spec = Mapping[str, tuple[tuple[int, ...], type]]
ALIGNMENT = 64  # of a cache line, and what lets JAX read an array in place


def _size(shape: tuple[int, ...], dtype: type) -> int:
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return -(-size // ALIGNMENT) * ALIGNMENT


def unnamed_file(size: int) -> int:
    """The descriptor of a new file of zeros."""
    if hasattr(os, "memfd_create"):  # Linux; unlike /dev/shm it is not limited by a mount
        fd = os.memfd_create("longrun", 0)
        os.ftruncate(fd, size)
        return fd
    with tempfile.TemporaryFile() as file:
        file.truncate(size)
        return os.dup(file.fileno())


def file_of(content: bytes) -> int:
    """The descriptor of a new file; unlike a socket it takes any size without waiting."""
    fd = unnamed_file(len(content))
    with mmap.mmap(fd, len(content)) as memory:
        memory[:] = content
    return fd


def content_of(fd: int) -> mmap.mmap:
    """What `file_of` has written; processes that share a descriptor do not disturb each other."""
    return mmap.mmap(fd, 0, access=mmap.ACCESS_READ)


class SharedArrays(dict[str, Array]):
    """A dictionary of zeroed arrays; a child process opens them by `fd`."""

    def __init__(self, spec: Spec, fd: int | None = None) -> None:
        super().__init__()
        total = sum(_size(*entry) for entry in spec.values())
        self.fd = unnamed_file(total) if fd is None else fd
        memory = mmap.mmap(self.fd, total)
        offset = 0
        for name, (shape, dtype) in spec.items():
            count = int(np.prod(shape))
            self[name] = np.frombuffer(memory, dtype, count, offset).reshape(shape)
            offset += _size(shape, dtype)

    def close(self) -> None:
        """Close the descriptor; the memory is freed with the last array of the last process."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
