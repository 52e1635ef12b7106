"""The cache of compiled programs, so that a second start takes about a second."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import jax


def use_compilation_cache() -> None:
    """Keep compiled programs between runs, unless the user has configured a cache.

    Must be called before the first program is compiled. JAX writes cache entries in place. If
    one is incomplete, because a process was killed or is still writing it, JAX warns and compiles
    the program. Users cannot do anything about it, so the warning is not shown.
    """
    if getattr(jax.config, "jax_compilation_cache_dir", None) is None:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "longrun"
        jax.config.update("jax_compilation_cache_dir", str(cache))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        message = "Error reading persistent compilation cache entry"
        warnings.filterwarnings("ignore", message, UserWarning)
