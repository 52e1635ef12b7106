"""What config.json holds: everything that defines a run, and where it was made."""

from __future__ import annotations

import math
import platform
import sys
import time
from collections.abc import Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from longrun import __version__
from longrun.base.errors import FolderError, InputError
from longrun.base.files import read_json
from longrun.learning.options.config import ALGORITHMS, Config, algorithm_name
from longrun.learning.options.config_options import differing, require_all_options, written_options

CONFIG_TYPES = {
    "algorithm": str,
    "env": str,
    "preset": str,
    "options": dict,
    "replicas": list,
    "steps": int,
    "begins": int,
    "env_source": dict,
}
"""Entries of config.json that every run has."""
OTHER_TYPES = {
    "name": str,
    "num_workers": int,
    "eval_every": int,
    "eval_steps": int,
}
"""Entries that need not be there."""
LONGEST_NAME = 100
PACKAGES = ("jax", "jaxlib", "numpy", "optax", "gymnasium", "mujoco")


def checked_config(file: Path) -> dict[str, Any]:
    """The content of a config.json, with the types that `describe_run` gives its entries."""
    config: dict[str, Any] = read_json(file)
    if not isinstance(config, dict):
        raise FolderError(f"'{file}' is damaged: it is not an object")
    needed = CONFIG_TYPES | {name: t for name, t in OTHER_TYPES.items() if name in config}
    for name, kind in needed.items():
        if not isinstance(config.get(name), kind):
            raise FolderError(f"'{file}' is damaged: it has no valid '{name}'")
    seeds = [r.get("seed") if isinstance(r, dict) else None for r in config["replicas"]]
    if not seeds or not all(isinstance(seed, int) for seed in seeds):
        raise FolderError(f"'{file}' is damaged: it has no valid 'replicas', each with a seed")
    if not isinstance(config["env_source"].get("identity"), str):
        raise FolderError(f"'{file}' is damaged: its 'env_source' has no identity")
    if config["algorithm"] in ALGORITHMS:
        require_all_options(f"'{file}'", config["algorithm"], config["options"])
    if not all(
        _are_limits(own.get("limits", [])) for own in (config["options"], *config["replicas"])
    ):
        raise FolderError(f"'{file}' is damaged: its 'limits' are not pairs of a name and a rate")
    return config


def describes_run(file: Path) -> bool:
    """Whether a config.json is that of a run, and not another program's."""
    try:
        checked_config(file)
    except FolderError:
        return False
    return True


def _are_limits(value: object) -> bool:
    """Whether this is the option `limits` as JSON, which results read from a run's options."""
    return isinstance(value, list) and all(
        isinstance(pair, list)
        and [type(each) for each in pair] in ([str, float], [str, int])
        and math.isfinite(pair[1])
        for pair in value
    )


def describe_run(
    env: str, configs: Sequence[Config], seeds: Sequence[int], steps: int, **settings: Any
) -> dict[str, Any]:
    """The content of config.json: everything that defines a run, and where it was made."""
    return {
        "algorithm": algorithm_name(configs[0]),
        "env": env,
        "steps": steps,
        "options": written_options(configs[0]),
        "replicas": [
            {"seed": seed, **{name: getattr(config, name) for name in differing(configs)}}
            for seed, config in zip(seeds, configs, strict=True)
        ],
        **settings,
        "versions": {"longrun": __version__, "python": platform.python_version()}
        | {name: _version(name) for name in PACKAGES},
        "platform": platform.platform(),
        "command": sys.argv,
        "created": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }


def run_name(name: object) -> str:
    """The user's name of a run, for tables and legends. Raises InputError if it is not one."""
    if not isinstance(name, str) or not name.isprintable() or not 0 < len(name) <= LONGEST_NAME:
        raise InputError(f"name={name!r} must be a line of 1 to {LONGEST_NAME} characters")
    return name


@cache
def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
