"""Where compiled programs are kept, so that a second start takes a second."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import jax


def use_compilation_cache() -> None:
    """Keep compiled programs between runs, unless the user has a cache of their own.

    To be called before the first program is compiled. JAX writes an entry in place: of one that a
    killed process left half-written, or that another is writing just now, it only warns and
    compiles the program. Nobody can do anything about that, so it is not shown.
    """
    if getattr(jax.config, "jax_compilation_cache_dir", None) is None:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "longrun"
        jax.config.update("jax_compilation_cache_dir", str(cache))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        message = "Error reading persistent compilation cache entry"
        warnings.filterwarnings("ignore", message, UserWarning)
