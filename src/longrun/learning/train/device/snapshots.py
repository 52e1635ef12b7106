"""Converts between snapshots of single replicas and the stacked, sharded state of all replicas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from longrun.base.errors import FolderError
from longrun.learning.envs.native.batching import Chains
from longrun.learning.envs.native.protocol import Environment
from longrun.learning.envs.spaces import Array
from longrun.learning.train.device import program as device
from longrun.learning.train.device.program import ReplicaState
from longrun.learning.train.device.sharding import Layout
from longrun.learning.train.snapshot import Snapshot


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
    return layout.place(ReplicaState(stacked([start.state for start in starts]), chains))


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
