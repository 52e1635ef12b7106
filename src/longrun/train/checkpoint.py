"""Checkpoints: `checkpoint.json` and one safetensors file; loading one never runs code.

The JSON file holds the name and the hash of its state file. A new state file gets a new name and
the JSON file is replaced last, so that a complete checkpoint is on disk at every moment.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import jax
import numpy as np
import safetensors.numpy
from safetensors import SafetensorError

from longrun.config import ALGORITHMS, Config, algorithm_name, known, saved_config
from longrun.envs.spaces import Array, Spaces
from longrun.errors import FolderError
from longrun.files import MOST_BYTES, read_bytes, read_json, write_bytes, write_json
from longrun.learn import learner
from longrun.learn.compilation import use_compilation_cache
from longrun.learn.types import TrainState
from longrun.train.job import Snapshot

FORMAT = 3
"""Format 2, which is read as well, had a hash of the state alone."""
STATE_FILE = re.compile(r"state-[0-9a-f]{16}\.safetensors")
OWN_FILES = re.compile(rf"{STATE_FILE.pattern}|\.{STATE_FILE.pattern}\.\d+|\.checkpoint\.json\.\d+")
"""State files, and temporary files that a crash left; no other file in the folder is deleted."""
LATER_FIELDS = (".criterion.reward_sum",)
"""Fields that checkpoints of earlier versions do not hold; they start at zero."""


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """All replicas of a run, or of one agent."""

    env: str
    spaces: Spaces
    configs: list[Config]
    seeds: list[int]
    snapshots: list[Snapshot]
    digest: str | None = None
    """of the file that it was read from"""

    @property
    def algorithm(self) -> str:
        return algorithm_name(self.configs[0])


def save(folder: Path, checkpoint: Checkpoint) -> str:
    """Write a checkpoint and return its digest; an older one is replaced in one step."""
    tensors = {
        f"{i}{name}": value
        for i, snapshot in enumerate(checkpoint.snapshots)
        for name, value in _named_leaves(snapshot)
    }
    content = safetensors.numpy.save(tensors)
    state_file = f"state-{hashlib.sha256(content).hexdigest()[:16]}.safetensors"
    header = {
        "format": FORMAT,
        "algorithm": checkpoint.algorithm,
        "env": checkpoint.env,
        "spaces": _jsonable(checkpoint.spaces),
        "replicas": [
            {"seed": seed, "options": dataclasses.asdict(config)}
            for seed, config in zip(checkpoint.seeds, checkpoint.configs, strict=True)
        ],
        "state": state_file,
        "bytes": len(content),
    }
    digest = digest_of(header, content)
    write_bytes(folder / state_file, content)
    write_json(folder / "checkpoint.json", header | {"sha256": digest})
    for old in folder.iterdir():
        if OWN_FILES.fullmatch(old.name) and old.name != state_file:
            old.unlink(missing_ok=True)
    return digest


def load(path: Path) -> Checkpoint:
    """Read the checkpoint of a folder or run folder. Raises FolderError if it is damaged."""
    folder = path / "checkpoint" if (path / "checkpoint").is_dir() else path
    if not (folder / "checkpoint.json").is_file():
        raise FolderError(f"there is no checkpoint in '{path}'")
    header = read_json(folder / "checkpoint.json")
    if not isinstance(header, dict):
        raise FolderError(f"checkpoint '{folder}' is damaged: its header is not an object")
    use_compilation_cache()
    try:
        return _read(folder, header)
    except KeyError as error:
        raise FolderError(f"checkpoint '{folder}' is damaged: {error} is missing") from None
    except (OSError, SafetensorError, TypeError, AttributeError, IndexError) as error:
        raise FolderError(f"checkpoint '{folder}' is damaged: {error}") from None


def _read(folder: Path, header: dict[str, Any]) -> Checkpoint:
    if header["format"] not in (2, FORMAT):
        raise FolderError(
            f"checkpoint '{folder}' has format {header['format']}; this version reads 2, {FORMAT}"
        )
    if not STATE_FILE.fullmatch(str(header["state"])):
        raise FolderError(f"checkpoint '{folder}' is damaged: its state is '{header['state']}'")
    content = read_bytes(folder / header["state"], header.get("bytes", MOST_BYTES))
    if digest_of(header, content) != header["sha256"]:
        raise FolderError(f"checkpoint '{folder}' is damaged: it does not match its hash")
    known("algorithm", header["algorithm"], ALGORITHMS)
    tensors = safetensors.numpy.load(content)
    spaces = _spaces(header["spaces"])
    configs = [saved_config(header["algorithm"], r["options"]) for r in header["replicas"]]
    snapshots = [_snapshot(str(i), c, spaces, tensors) for i, c in enumerate(configs)]
    seeds = [replica["seed"] for replica in header["replicas"]]
    return Checkpoint(header["env"], spaces, configs, seeds, snapshots, header["sha256"])


def digest_of(header: dict[str, Any], content: bytes) -> str:
    """The hash over the header and the state; in format 2 over the state alone."""
    if header["format"] == 2:
        return hashlib.sha256(content).hexdigest()
    own = {name: value for name, value in header.items() if name != "sha256"}
    text = json.dumps(own, sort_keys=True).encode()
    return hashlib.sha256(text + b"\n" + content).hexdigest()


def _jsonable(spaces: Spaces) -> dict[str, Any]:
    """The spaces for JSON, with bounds as text, since JSON has no infinity."""
    bounds = {name: [repr(bound) for bound in getattr(spaces, name)] for name in ("low", "high")}
    return dataclasses.asdict(spaces) | bounds


def _spaces(header: dict[str, Any]) -> Spaces:
    bounds: dict[str, Any] = {n: tuple(map(float, header[n])) for n in ("low", "high")}
    return Spaces(**header | bounds | {"categories": tuple(header["categories"])})


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
        field = jax.tree_util.keystr(path)
        name = f"{prefix}.state{field}"
        if field in LATER_FIELDS and name not in tensors:
            return np.zeros(expected.shape, expected.dtype)
        found = tensors[name]
        if found.shape != expected.shape or found.dtype != expected.dtype:
            raise TypeError(f"{name} is {found.dtype}{found.shape}, not {expected}")
        if not np.isfinite(found).all():
            raise TypeError(f"{name} has values that are not finite")
        return found

    # jnp.asarray would compile a program for each shape.
    filled: TrainState = jax.device_put(jax.tree_util.tree_map_with_path(leaf, state))
    if int(filled.iteration) < 0:
        raise TypeError(f"its iteration is {int(filled.iteration)}")
    return Snapshot(filled, environments)


def require_same(
    checkpoint: Checkpoint, path: Path, algorithm: str, env: str, spaces: Spaces | None = None
) -> None:
    """Raise FolderError if the checkpoint is of another algorithm or environment."""
    for what, expected, found in (
        ("algorithm", algorithm, checkpoint.algorithm),
        ("environment", env, checkpoint.env),
    ):
        if expected != found:
            raise FolderError(f"'{path}' holds {what} '{found}', not '{expected}'")
    if spaces is not None and spaces != checkpoint.spaces:
        raise FolderError(
            f"'{path}' was made for {checkpoint.spaces}, but '{env}' now has {spaces}"
        )
