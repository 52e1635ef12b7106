"""Sharding of replicas and their environments over all devices, of one host or of many.

There is one code path. With one device the mesh has one element; with several hosts each runs the
same program on its own devices, and the arrays are global.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from longrun.base.errors import FolderError, InputError
from longrun.learning.envs.native.batching import Chains
from longrun.learning.envs.native.protocol import Environment
from longrun.learning.envs.spaces import Array
from longrun.learning.train.device import program as device
from longrun.learning.train.device.program import ReplicaState
from longrun.learning.train.events import Snapshot


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
        self.by_replica = NamedSharding(mesh, PartitionSpec("replicas"))
        self.by_env = NamedSharding(mesh, PartitionSpec("replicas", "envs"))
        self._copy = jax.jit(lambda x: x, out_shardings=NamedSharding(mesh, PartitionSpec()))

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


def stacked(trees: Sequence[Any]) -> Any:
    """One tree with leaves [R, ...] from R trees with leaves [...].

    Python numbers get the dtypes that they have inside jit.
    """
    return jax.tree.map(
        lambda *xs: np.stack([np.asarray(x, jnp.result_type(x)) for x in xs]), *trees
    )


@cache
def _compiled_begin(by_env: Any) -> Any:
    """`begin` with this sharding; one function for all calls, so that it is compiled once."""
    return jax.jit(device.begin, static_argnums=(0, 1), out_shardings=by_env)


def placed(
    layout: Layout, env: Environment, num_envs: int, seeds: jax.Array, starts: Sequence[Snapshot]
) -> ReplicaState:
    """The replicas' snapshots on their devices; environments without a snapshot are reset."""
    if starts[0].environments:
        like = jax.eval_shape(partial(device.begin, env, num_envs), seeds)
        chains = stacked([_chains(like, start.environments) for start in starts])
    else:
        chains = _compiled_begin(layout.by_env)(env, num_envs, seeds)
    learned = jax.device_put(stacked([start.state for start in starts]), layout.by_replica)
    return ReplicaState(learned, jax.device_put(chains, layout.by_env))


def snapshot_of(replicas: ReplicaState, index: int) -> Snapshot:
    """One replica of a copy on the host, whose leaves are [R, ...]."""
    one = jax.tree.map(lambda x: x[index], replicas)
    leaves = jax.tree_util.tree_leaves_with_path(one.chains)
    return Snapshot(one.learned, {_name(path): leaf for path, leaf in leaves})


def _name(path: Any) -> str:
    return str(jax.tree_util.keystr(path)).removeprefix(".")


def _chains(like: Chains, named: Mapping[str, Array]) -> Chains:
    """One replica's environments from named arrays; `like` has the shapes [R, ...] of all."""

    def leaf(path: Any, expected: jax.ShapeDtypeStruct) -> Array:
        name = _name(path)
        found = named.get(name)
        if found is None or found.shape != expected.shape[1:] or found.dtype != expected.dtype:
            wanted = f"{expected.dtype}{expected.shape[1:]}"
            have = "missing" if found is None else f"{found.dtype}{found.shape}"
            raise FolderError(
                f"the checkpoint does not fit the environment: {name} must be {wanted} and is"
                f" {have}; load it with the environment that it was made for"
            )
        return found

    chains: Chains = jax.tree_util.tree_map_with_path(leaf, like)
    return chains
