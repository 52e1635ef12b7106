"""The cache of compiled programs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

COMPILED_TWICE = """
from pathlib import Path
import jax
from longrun.learning.learn.compilation import use_compilation_cache

use_compilation_cache()
program = jax.jit(lambda x: x + 1)
print(program(1.0))
entries = list(Path(jax.config.jax_compilation_cache_dir).glob("*-cache"))
for entry in entries:
    entry.write_bytes(entry.read_bytes()[: entry.stat().st_size // 2])
jax.clear_caches()
print(program(1.0), len(entries))
"""


def test_an_entry_that_was_half_written_is_compiled_again_without_a_word(tmp_path: Path) -> None:
    others = {k: v for k, v in os.environ.items() if k != "JAX_COMPILATION_CACHE_DIR"}
    environment = others | {"XDG_CACHE_HOME": str(tmp_path)}
    command = [sys.executable, "-c", COMPILED_TWICE]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (done.stderr, done.stdout) == ("", "2.0\n2.0 1\n")
