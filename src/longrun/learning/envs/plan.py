"""What a pool of environments runs, and the arrays that its workers and the learner share.

The arrays are in one unnamed file in memory: it never has a name, so nothing is left behind however
a process ends.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from longrun.learning.envs import seeding, watchdog
from longrun.learning.envs.factories import Factory
from longrun.learning.envs.numpy_policy import count_weights
from longrun.learning.envs.spaces import Array, Spaces
from longrun.learning.options.acting import Acting

Spec = Mapping[str, tuple[tuple[int, ...], type]]
ALIGNMENT = 64  # of a cache line, and what lets JAX read an array in place


@dataclass(frozen=True)
class Plan:
    """What a pool runs, for all replicas: R = len(seeds)."""

    factory: Factory
    spaces: Spaces
    acting: Acting
    seeds: tuple[int, ...]
    num_envs: int
    """N"""
    rollout_steps: int
    """T"""
    eval_envs: int = 0
    """E"""
    eval_steps: int = 0
    """S, for each of the E environments"""
    eval_noise: bool = False
    """whether evaluations draw actions, instead of taking the most likely ones"""
    eval_purposes: tuple[int, int] = seeding.IN_TRAINING
    """purposes of the random streams of an evaluation: resets, noise"""
    is_vector: bool = False
    """whether the factory makes a VectorEnv, with all environments of a replica"""
    state_bytes: int = 0
    """most bytes of an environment's saved state; 0 if it cannot save it"""
    costs: tuple[str, ...] = ()
    """K names"""

    def memory(self, num_workers: int = 1) -> Spec:
        """Shapes of the arrays that shards and the learner share, and of the workers' rows."""
        r, t, n = len(self.seeds), self.rollout_steps, self.num_envs
        d, a = self.spaces.observation_size, self.spaces.action_size
        k = len(self.costs)
        return {
            "weights": ((r, count_weights(self.acting, self.spaces)), np.float32),
            "obs": ((r, t + 1, n, d), np.float32),  # the next rollout starts from the last row
            "action": ((r, t, n, a), self.spaces.action_dtype),
            "reward": ((r, t, n), np.float32),
            "next_obs": ((r, t, n, d), np.float32),
            "terminated": ((r, t, n), np.bool_),
            "truncated": ((r, t, n), np.bool_),
            "env_state": ((r, n, self.state_bytes), np.uint8),
            "env_state_size": ((r, n), np.int64),
            "strayed": ((r, n), np.bool_),  # environments that could not be restored
            "eval_reward": ((r, self.eval_steps, self.eval_envs), np.float64),
            "eval_ended": ((r, self.eval_steps, self.eval_envs), np.bool_),
            "costs": ((r, t, n, k), np.float32),
            "eval_costs": ((r, self.eval_steps, self.eval_envs, k), np.float64),
            "heartbeat": ((num_workers, watchdog.CELLS), np.int64),
        }


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


class SharedArrays(dict[str, Array]):
    """A dictionary of zeroed arrays; a child process opens them by `fd`."""

    def __init__(self, spec: Spec, fd: int | None = None) -> None:
        super().__init__()
        total = sum(_size(*entry) for entry in spec.values())
        self.fd = unnamed_file(total) if fd is None else fd
        memory = mmap.mmap(self.fd, total)
        offset = 0
        for name, (shape, dtype) in spec.items():
            self[name] = np.ndarray(shape, dtype, memory, offset)
            offset += _size(shape, dtype)

    def close(self) -> None:
        """Close the descriptor; the memory is freed with the last array of the last process."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
