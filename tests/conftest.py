"""Settings of all tests, made before JAX is imported. Processes that tests start inherit them."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

CACHE = Path(__file__).parents[1] / ".pytest_cache"

# Hundreds of programs are compiled here for a few steps each: optimising them would take longer
# than running them. `make test-shipped` sets the variable to 0 and runs some of them as users do.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
# A third of the compile time: fused loops by the older code generator, each program in one piece.
# Only for the pinned version: XLA ends the process at a flag that it does not know.
QUICK = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
GIVEN = os.environ.get("XLA_FLAGS", "")
if (
    os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] == "1"
    and version("jaxlib").startswith("0.10.")
    and QUICK not in GIVEN
):
    os.environ["XLA_FLAGS"] = f"{QUICK} {GIVEN}".strip()

# A tenth of the time to trace and lower a program: no Python source lines in it. They say where an
# operation came from in dumps of XLA and change nothing that is computed.
os.environ.setdefault("JAX_TRACEBACK_IN_LOCATIONS_LIMIT", "0")

# Several processes share the cores: more threads of BLAS in each only wait for each other. A
# pretended machine (tests/portable.py) may ask for several.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Compiled programs are kept for the next run of the tests, away from the user's.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(CACHE / "programs"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")

# Where Python may not write bytecode beside its sources, every process would compile them all.
if sys.dont_write_bytecode:
    sys.dont_write_bytecode = False
    sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(CACHE / "bytecode")
    del os.environ["PYTHONDONTWRITEBYTECODE"]

# Tracing makes millions of objects that stay, and the collector would scan them again and again:
# a tenth of the time. Garbage is collected once after each file of tests instead, and what is left
# then is not scanned again.
gc.disable()


LONG = (
    "test_readme.py",
    "test_examples.py",
    "test_interrupted_sweeps.py",
    "test_sweep_ray.py",
    "test_resume.py",
    "test_sharding.py",
    "test_two_writers.py",
    "test_learner.py",
    "test_device_loop.py",
    "test_workers.py",
    "test_theory_doc.py",
)
"""Files that take longest, started first: one of them at the end would leave cores idle."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    rank = {name: place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: rank.get(item.path.name, len(LONG)))


def pytest_collection_finish() -> None:
    from longrun.base import picture_files
    from longrun.learning.learn import advantages

    if os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] == "1":
        # A fifth of the time to compile what computes advantages.
        advantages.UNROLL = 1
    # Three quarters of the time to draw a figure; the tests of each kind of figure ask for it.
    picture_files.LAYOUT = None
    gc.freeze()  # what was imported stays


@pytest.fixture
def laid_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The layout of figures that users get."""
    monkeypatch.setattr("longrun.base.picture_files.LAYOUT", "constrained")


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Path]:
    """A closed gate for `tiny_envs.Gated`; it is opened in the end, so that nothing waits on."""
    path = tmp_path / "gate"
    path.touch()
    yield path
    path.unlink(missing_ok=True)


@pytest.fixture
def optimised() -> Iterator[None]:
    """XLA's optimisations, for programs that take longer to run than to compile."""
    import jax

    jax.config.update("jax_disable_most_optimizations", False)
    yield
    before = os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] == "1"
    jax.config.update("jax_disable_most_optimizations", before)
