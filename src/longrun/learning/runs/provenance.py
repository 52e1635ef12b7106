"""Where, when and with which versions a run was made."""

from __future__ import annotations

import platform
import sys
import time
from functools import cache
from importlib import metadata
from typing import Any

from longrun import __version__

PACKAGES = ("jax", "jaxlib", "numpy", "optax", "gymnasium", "mujoco")


def provenance() -> dict[str, Any]:
    """Entries of config.json that do not say what is trained."""
    return {
        "versions": {"longrun": __version__, "python": platform.python_version()}
        | {name: _version(name) for name in PACKAGES},
        "platform": platform.platform(),
        "command": sys.argv,
        "created": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }


@cache
def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
