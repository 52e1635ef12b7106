"""What was learned, to and from the files of a checkpoint (`runs.checkpoint_files`)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from longrun.base.errors import FolderError
from longrun.learning.envs.spaces import Array, Spaces
from longrun.learning.learn import learner
from longrun.learning.learn.compilation import use_compilation_cache
from longrun.learning.learn.types import TrainState
from longrun.learning.options.config import Config
from longrun.learning.options.config_options import own_networks
from longrun.learning.runs.checkpoint_files import (
    checked_tensor,
    damage_named,
    read_checkpoint,
    read_spaces,
    write_checkpoint,
)
from longrun.learning.runs.spec import RunSpec
from longrun.learning.train.events import Snapshot


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """All replicas of a run, or of one agent."""

    spec: RunSpec
    spaces: Spaces
    snapshots: list[Snapshot]
    interface: Mapping[str, Any] | None = None
    """the environment's own spaces (`envs.flat_spaces`), for policies without Gymnasium"""
    digest: str | None = None
    """content hash of the file that it was read from"""


def save(folder: Path, checkpoint: Checkpoint) -> str:
    """Write a checkpoint and return its digest; an older one is replaced in one step."""
    tensors = {
        f"{i}{name}": value
        for i, snapshot in enumerate(checkpoint.snapshots)
        for name, value in _named_leaves(snapshot)
    }
    return write_checkpoint(
        folder, checkpoint.spec, checkpoint.spaces, checkpoint.interface, tensors
    )


def load(path: Path, networks: Mapping[str, Any] | None = None) -> Checkpoint:
    """Read the checkpoint of a folder or run folder. Raises FolderError if it is damaged.

    `networks` are the functions `policy_network` and `value_network`, where these are not longrun's
    own: a file holds their names alone.
    """
    files = read_checkpoint(path)
    use_compilation_cache()
    with damage_named(files.folder):
        spaces = read_spaces(files.header["spaces"])
        configs = [_with_functions(c, networks or {}, files.folder) for c in files.spec.configs]
        return Checkpoint(
            dataclasses.replace(files.spec, configs=tuple(configs)),
            spaces,
            [_snapshot(str(i), c, spaces, files.tensors) for i, c in enumerate(configs)],
            files.header["interface"],
            files.header["sha256"],
        )


def _with_functions(config: Config, networks: Mapping[str, Any], folder: Path) -> Config:
    """The options with the user's functions in place of their names."""
    own = own_networks(vars(config))
    for name in own:
        if name not in networks:
            raise FolderError(
                f"checkpoint '{folder}' has {name} '{getattr(config, name)}', a function that no"
                f" file holds; load it with {name}=(init, apply)"
            )
    for name in networks:
        if name not in own:
            raise FolderError(f"checkpoint '{folder}' has no {name} of its own; leave out {name}=")
    return dataclasses.replace(config, **networks)


def _named_leaves(snapshot: Snapshot) -> list[tuple[str, Array]]:
    leaves = jax.tree_util.tree_leaves_with_path(snapshot.state)
    learned = [(f".state{jax.tree_util.keystr(path)}", np.asarray(leaf)) for path, leaf in leaves]
    # safetensors writes the memory as it is, so slices of larger arrays have to be copied.
    return learned + [
        (f".environments.{name}", np.ascontiguousarray(value))
        for name, value in snapshot.environments.items()
    ]


def _snapshot(prefix: str, config: Config, spaces: Spaces, tensors: dict[str, Array]) -> Snapshot:
    """A replica's snapshot from the tensors with this prefix; the config gives their shapes."""
    state = jax.eval_shape(lambda: learner.init(config, spaces, jax.random.key(0)))
    place = f"{prefix}.environments."
    environments = {n.removeprefix(place): t for n, t in tensors.items() if n.startswith(place)}

    def leaf(path: Any, expected: jax.ShapeDtypeStruct) -> Array:
        name = f"{prefix}.state{jax.tree_util.keystr(path)}"
        found: Array = checked_tensor(tensors, name, expected.shape, expected.dtype)
        return found

    # jnp.asarray would compile a program for each shape.
    filled: TrainState = jax.device_put(jax.tree_util.tree_map_with_path(leaf, state))
    if int(filled.iteration) < 0:
        raise TypeError(f"its iteration is {int(filled.iteration)}")
    if filled.trace is not None and not 0 <= float(filled.trace.gae_lambda) <= 1:
        raise TypeError(f"its lambda is {float(filled.trace.gae_lambda)}")
    return Snapshot(filled, environments)


def require_algorithm(spec: RunSpec, path: Path, algorithm: str) -> None:
    """Raise FolderError if the checkpoint is of another algorithm."""
    found = spec.algorithm
    if found != algorithm:
        raise FolderError(
            f"'{path}' holds algorithm '{found}', not '{algorithm}'; use"
            f" {found.upper()}.load('{path}'), or longrun train {found} --resume --out {path}"
        )


def require_same(checkpoint: Checkpoint, path: Path, env: str, spaces: Spaces) -> None:
    """Raise FolderError if the checkpoint is of another environment or of other spaces."""
    if env != checkpoint.spec.env:
        raise FolderError(f"'{path}' holds environment '{checkpoint.spec.env}', not '{env}'")
    if spaces != checkpoint.spaces:
        raise FolderError(
            f"'{path}' was made for {checkpoint.spaces}, but '{env}' now has {spaces}"
        )
