"""Sharding of replicas and their environments over all devices, of one host or of many.

There is one code path. With one device the mesh has one element; with several hosts each runs the
same program on its own devices, and the arrays are global.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from longrun.base.errors import InputError
from longrun.learning.train.device.program import ReplicaState


class Layout:
    """A mesh of devices with two axes: replicas and environments."""

    def __init__(self, replicas: int, num_envs: int) -> None:
        devices = jax.devices()
        across = math.gcd(replicas, len(devices))
        within = len(devices) // across
        if num_envs % within:
            raise InputError(
                f"num_envs={num_envs} of {replicas} replicas do not divide over {len(devices)}"
                f" devices; choose num_envs as a multiple of {within}, or {len(devices)} seeds"
            )
        mesh = Mesh(np.array(devices).reshape(across, within), ("replicas", "envs"))
        self._everywhere = NamedSharding(mesh, PartitionSpec())
        self.by_replica = NamedSharding(mesh, PartitionSpec("replicas"))
        self.by_env = NamedSharding(mesh, PartitionSpec("replicas", "envs"))
        self._copy = jax.jit(lambda x: x, out_shardings=self._everywhere)

    def place(self, replicas: ReplicaState) -> ReplicaState:
        """Move host arrays [R, ...] to their devices."""
        return ReplicaState(
            jax.device_put(replicas.learned, self.by_replica),
            jax.device_put(replicas.chains, self.by_env),
        )

    def fetch(self, tree: Any) -> Any:
        """NumPy copies of global arrays; every host gets them whole."""
        return jax.device_get(self._copy(tree) if jax.process_count() > 1 else tree)


def join_hosts(where: str) -> None:
    """Join several processes that train together; to be called before any other use of JAX.

    `where` is 'auto' on clusters that JAX knows (Slurm, Open MPI, Kubernetes, TPU), otherwise the
    first process's address, the number of processes and this one's index: '10.0.0.1:1234,2,0'.
    """
    if where == "auto":
        jax.distributed.initialize()
        return
    form = re.fullmatch(r"(.+:\d+),(\d+),(\d+)", where)
    if form is None:
        raise InputError(
            f"--distributed '{where}' must be auto, or address:port,processes,index such as"
            " 10.0.0.1:1234,2,0"
        )
    processes, index = int(form[2]), int(form[3])
    if index >= processes:
        raise InputError(
            f"--distributed '{where}' has index {index} of {processes} processes; count from 0"
        )
    jax.distributed.initialize(form[1], processes, index)


def is_first_host() -> bool:
    """Whether this process is the one that writes files and prints."""
    return bool(jax.process_index() == 0)


def wait_for_hosts(what: str) -> None:
    """Wait until all processes have called this."""
    if jax.process_count() > 1:
        multihost_utils.sync_global_devices(what)


@contextmanager
def ends_all_hosts() -> Iterator[None]:
    """End all processes if what only the first process does fails there."""
    try:
        yield
    except BaseException:
        agreed(False)
        raise
    if not agreed(True):
        raise InputError("the first process could not start the run; see its error message")


def agreed(number: int) -> int:
    """The first host's number, on all hosts: measured times must not make them differ."""
    if jax.process_count() == 1:
        return number
    return int(multihost_utils.broadcast_one_to_all(np.int32(number)))
