"""Run the numerical tests as if on other machines: `make test-portable`.

Instruction sets, BLAS and XLA's fusion round differently. Each pretended machine is a process of
its own, since all three libraries choose their kernels when they are loaded. Only machines older
than this one can be pretended: newer instructions would be illegal here.

    python tests/portable.py                 all machines that this one can pretend to be
    python tests/portable.py --machine avx2  one of them
    python tests/portable.py --quick         fewer tests
    python tests/portable.py --list          what there is
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

ROOT = Path(__file__).parents[1]
NUMERICAL = ("tests/learn", "tests/tabular", "tests/native", "tests/queueing")
"""Where the numerical tests are; the other tests start processes or look at files."""
LEARNER, MAPS = "tests/learn/test_learner.py", "tests/queueing/test_policy_maps.py"
TABULAR = ("bounds", "chain", "limits", "mdp", "models", "poisson", "policy_evaluation")
TABULAR += ("precision", "solvers", "structure", "trust_region_iteration")
"""All of tests/tabular but learning from samples, Gymnasium's tables and the imports."""
QUICK = (
    "tests/learn/test_advantages.py",
    "tests/learn/test_distributions.py",
    "tests/learn/test_trust_region.py",
    *(f"tests/tabular/test_{name}.py" for name in TABULAR),
    *(
        f"{LEARNER}::{test}"
        for test in (
            "test_the_first_ratio_is_1_to_rounding",
            "test_a_batch_and_its_metrics_by_hand",
            "test_apo_with_the_gain_frozen_at_0_learns_as_ppo_without_discount_to_the_bit",
            "test_an_update_of_stacked_replicas_is_the_update_of_each",
            "test_moments_of_a_large_number_with_little_spread_are_not_lost_in_rounding",
            "test_numpy_policy_agrees_with_the_network_and_rows_do_not_depend_on_each_other",
        )
    ),
    f"{MAPS}::test_the_cost_of_a_static_priority",
    f"{MAPS}::test_the_command",
)
"""Those of them that .ci/run repeats: what rounding can change."""
LIMIT = 1800
"""Seconds after which a machine's run is ended."""

AVX2_KERNELS = re.compile("X86_V3|AVX2|FMA3|AVX512|X86_V4")
AVX512_KERNELS = re.compile("AVX512|X86_V4")


@dataclass(frozen=True)
class Machine:
    """What the libraries are told, and what the CPU must have for that."""

    needs: str
    """a flag of /proc/cpuinfo"""
    xla: str
    """the newest instructions that XLA may use"""
    openblas: str
    """the processor whose kernels OpenBLAS takes"""
    without: re.Pattern[str] | None
    """NumPy's kernels that are switched off"""
    blas_threads: int = 1
    hash_seed: int = 0
    order_seed: int | None = None
    """tests run in an order that is drawn from it; None keeps the order of the files"""

    def environment(self) -> dict[str, str]:
        return {
            "XLA_FLAGS": f"--xla_cpu_max_isa={self.xla}",
            "OPENBLAS_CORETYPE": self.openblas,
            "OPENBLAS_NUM_THREADS": str(self.blas_threads),
            "NPY_DISABLE_CPU_FEATURES": " ".join(numpy_kernels(self.without)),
            "PYTHONHASHSEED": str(self.hash_seed),
            "JAX_PLATFORMS": "cpu",
            # Programs that another machine compiled would not show how this one rounds.
            "JAX_COMPILATION_CACHE_DIR": str(ROOT / ".pytest_cache" / f"programs-{self.xla}"),
        }

    def options(self, processes: int) -> list[str]:
        # Slow tests too, which pytest leaves out by itself; one process needs no other to lead it.
        number = ["-m", "not long", "-n", str(processes if processes > 1 else 0)]
        if self.order_seed is None:
            return number
        return [*number, "-p", "randomly", f"--randomly-seed={self.order_seed}"]


MACHINES = {
    "sse4": Machine("sse4_2", "SSE4_2", "Prescott", AVX2_KERNELS, hash_seed=1, order_seed=1),
    "avx": Machine("avx", "AVX", "SandyBridge", AVX2_KERNELS, hash_seed=2, order_seed=2),
    "avx2": Machine("avx2", "AVX2", "Haswell", AVX512_KERNELS),
    "avx2-threads": Machine(
        "avx2", "AVX2", "Zen", AVX512_KERNELS, blas_threads=4, hash_seed=3, order_seed=3
    ),
    "avx512": Machine("avx512f", "AVX512", "SkylakeX", None, hash_seed=4, order_seed=4),
}
"""`avx2` is the one that .ci/run always runs: fixed order, fixed hash seed, no surprises."""


def numpy_kernels(pattern: re.Pattern[str] | None) -> list[str]:
    """Names of NumPy's kernels for newer instructions; NumPy warns of names that it lacks."""
    if pattern is None:
        return []
    return [name for name in __cpu_dispatch__ if __cpu_features__[name] and pattern.match(name)]


def cpu_flags() -> set[str]:
    """Of the first processor; no flags where the system does not tell (not Linux, not x86)."""
    info = Path("/proc/cpuinfo")
    found = re.search(r"^flags\s*:(.*)$", info.read_text() if info.exists() else "", re.MULTILINE)
    return set(found[1].split()) if found else set()


def run(name: str, processes: int, arguments: list[str]) -> tuple[str, float]:
    """How pytest ended on one machine, and the seconds that it took."""
    machine, started = MACHINES[name], time.monotonic()
    command = [sys.executable, "-m", "pytest", *machine.options(processes), *arguments]
    settings = machine.environment()
    print(f"--- {name}:", *(f"{key}='{value}'" for key, value in settings.items()))
    print("   ", *command, flush=True)
    try:
        status = subprocess.run(command, cwd=ROOT, env=os.environ | settings, timeout=LIMIT)
        verdict = f"FAILED (exit {status.returncode})" if status.returncode else "passed"
    except subprocess.TimeoutExpired:
        verdict = f"FAILED (ended after {LIMIT} s)"
    return verdict, time.monotonic() - started


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--machine", choices=MACHINES, action="append", help="one of them; repeat")
    parser.add_argument("--quick", action="store_true", help="the tests that .ci/run repeats")
    # These tests wait for nothing: more processes than cores would only import more often.
    cores = len(os.sched_getaffinity(0))
    parser.add_argument("--processes", type=int, default=min(3, cores), help="at the same time")
    parser.add_argument("--list", action="store_true", help="the machines, and stop")
    parser.add_argument("pytest", nargs="*", help="tests and options for pytest (after --)")
    given = parser.parse_args()
    flags = cpu_flags()
    possible = {name: machine.needs in flags for name, machine in MACHINES.items()}
    if given.list:
        for name, machine in MACHINES.items():
            print(f"{name:13} {machine}{'' if possible[name] else ' (this CPU cannot)'}")
        return 0
    results = {}
    for name in given.machine or MACHINES:
        if possible[name]:
            tests = given.pytest or list(QUICK if given.quick else NUMERICAL)
            results[name] = run(name, given.processes, tests)
        else:
            results[name] = (f"left out: this CPU has no {MACHINES[name].needs}", 0.0)
    for name, (verdict, seconds) in results.items():
        print(f"{name:13} {seconds:5.0f} s  {verdict}")
    return int(any(verdict.startswith("FAILED") for verdict, _ in results.values()))


if __name__ == "__main__":
    sys.exit(main())
