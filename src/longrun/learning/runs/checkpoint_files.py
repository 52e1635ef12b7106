"""The files of a checkpoint, written and read with all checks, without JAX.

`checkpoint.json` is the header, which names one safetensors file and has the hash of both. A new
state file gets a new name and the header is replaced last, so that a complete checkpoint is on disk
at every moment. Whoever wrote the files, reading them runs no code.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors.numpy
from safetensors import SafetensorError

from longrun.base.errors import FolderError, listed
from longrun.base.files import read_bytes, read_json, write_bytes, write_json
from longrun.learning.envs.flat_spaces import Array, Spaces
from longrun.learning.runs.spec import FORMAT, RunSpec

MOST_RUNS = 5
"""Most runs that an error message names."""
STATE_FILE = re.compile(r"state-[0-9a-f]{16}\.safetensors")
OWN_FILES = re.compile(rf"{STATE_FILE.pattern}|\.{STATE_FILE.pattern}\.\d+|\.checkpoint\.json\.\d+")
"""State files, and temporary files that a crash left; no other file in the folder is deleted."""


class CheckpointFiles(NamedTuple):
    """What is on disk, checked against its hash."""

    folder: Path
    spec: RunSpec
    header: dict[str, Any]
    tensors: dict[str, Array]


def write_checkpoint(
    folder: Path,
    spec: RunSpec,
    spaces: Spaces,
    interface: Mapping[str, Any] | None,
    tensors: dict[str, Array],
) -> str:
    """Write a checkpoint and return its digest; an older one is replaced in one step."""
    content = safetensors.numpy.save(tensors)
    state_file = f"state-{hashlib.sha256(content).hexdigest()[:16]}.safetensors"
    # JSON has no infinity, so bounds are text.
    bounds = {name: [repr(bound) for bound in getattr(spaces, name)] for name in ("low", "high")}
    header = {
        "format": FORMAT,
        "run": spec.as_json(),
        "spaces": dataclasses.asdict(spaces) | bounds,
        "interface": interface,
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


def read_checkpoint(path: Path) -> CheckpointFiles:
    """The files of a folder or run folder. Raises FolderError if they are missing or damaged."""
    folder = path / "checkpoint" if (path / "checkpoint").is_dir() else path
    if not (folder / "checkpoint.json").is_file():
        runs = _runs_in(path)
        fix = f"; give one of the runs in it: {listed(runs, MOST_RUNS)}" if runs else ""
        raise FolderError(f"there is no checkpoint in '{path}'{fix}")
    header = read_json(folder / "checkpoint.json")
    if not isinstance(header, dict):
        raise FolderError(f"checkpoint '{folder}' is damaged: its header is not an object")
    with damage_named(folder):
        tensors = _tensors(folder, header)
        spec = RunSpec.from_json(header["run"], f"checkpoint '{folder}'")
        return CheckpointFiles(folder, spec, header, tensors)


def _runs_in(path: Path) -> list[str]:
    """Run folders and saved agents in a folder, or in a sweep's folder, for a message."""
    places = ("*/checkpoint", "*", "runs/*/checkpoint")
    found = [file.parent for place in places for file in path.glob(f"{place}/checkpoint.json")]
    return sorted(str(f.parent if f.name == "checkpoint" else f) for f in found)


@contextmanager
def damage_named(folder: Path) -> Iterator[None]:
    """Errors of missing or impossible content become one FolderError that names the folder."""
    try:
        yield
    except KeyError as error:
        raise FolderError(f"checkpoint '{folder}' is damaged: {error} is missing") from None
    except (OSError, SafetensorError, TypeError, AttributeError, IndexError) as error:
        raise FolderError(f"checkpoint '{folder}' is damaged: {error}") from None


def _tensors(folder: Path, header: dict[str, Any]) -> dict[str, Array]:
    if header["format"] != FORMAT:
        raise FolderError(
            f"checkpoint '{folder}' is of another version of longrun (format {header['format']},"
            f" not {FORMAT}); train it again"
        )
    if not STATE_FILE.fullmatch(str(header["state"])):
        raise FolderError(f"checkpoint '{folder}' is damaged: its state is '{header['state']}'")
    content = read_bytes(folder / header["state"], header["bytes"])
    if digest_of(header, content) != header["sha256"]:
        raise FolderError(f"checkpoint '{folder}' is damaged: it does not match its hash")
    tensors: dict[str, Array] = safetensors.numpy.load(content)
    return tensors


def digest_of(header: dict[str, Any], content: bytes) -> str:
    """The hash over the header and the state."""
    own = {name: value for name, value in header.items() if name != "sha256"}
    text = json.dumps(own, sort_keys=True).encode()
    return hashlib.sha256(text + b"\n" + content).hexdigest()


def read_spaces(header: dict[str, Any]) -> Spaces:
    """The spaces of a header, whose bounds are text."""
    bounds: dict[str, Any] = {n: tuple(map(float, header[n])) for n in ("low", "high")}
    return Spaces(**header | bounds | {"categories": tuple(header["categories"])})


def checked_tensor(tensors: dict[str, Array], name: str, shape: tuple[int, ...], dtype: Any) -> Any:
    """The tensor of this name. Raises TypeError unless it has this shape and type and is finite."""
    found = tensors[name]
    if found.shape != shape or found.dtype != dtype:
        raise TypeError(f"{name} is {found.dtype}{found.shape}, not {np.dtype(dtype)}{shape}")
    if not np.isfinite(found).all():
        raise TypeError(f"{name} has values that are not finite")
    return found
