"""The command: makes the faults of a kind, and appends their number to results/faults.csv.

    python benchmarks/faults files          5000 mutated files of runs, sweeps and checkpoints
    python benchmarks/faults hostile        files that were made to do harm
    python benchmarks/faults kills          50 SIGKILLs on host, device, sweep and Ray, each resumed
    python benchmarks/faults operations     a SIGKILL before every file operation, and within writes
    python benchmarks/faults environments   what environments can do: 0 and 2 workers, sweeps
    python benchmarks/faults writers        two processes on one run, sweep or save folder
    python benchmarks/faults disk           full disks of several sizes, resumed with more space
    python benchmarks/faults clock          clocks that jump
    python benchmarks/faults signals        50 times SIGINT or SIGTERM, with cold and warm caches
    python benchmarks/faults all            one after another

A case that failed is printed with its name, which repeats it: `--only NAME`. Ctrl-C
ends a kind early, with a row of the cases so far.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

from faults import (
    clock,
    damaged_files,
    disk,
    environments,
    hostile_files,
    kills,
    operations,
    signals,
    writers,
)
from faults.processes import ROOT, Checks

RESULTS = ROOT / "benchmarks" / "results" / "faults.csv"


class Kind(NamedTuple):
    checks: Callable[[Path], Checks]
    cases: int | None
    """how many of the checks, by default; None for all, where their number is finite"""


KINDS = {
    "files": Kind(damaged_files.checks, 5000),
    "hostile": Kind(hostile_files.checks, None),
    "kills": Kind(kills.checks, 50),
    "operations": Kind(operations.checks, None),
    "environments": Kind(environments.checks, None),
    "writers": Kind(writers.checks, 24),
    "disk": Kind(disk.checks, None),
    "clock": Kind(clock.checks, None),
    "signals": Kind(signals.checks, 50),
}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python benchmarks/faults",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument("kind", choices=[*KINDS, "all"])
    parser.add_argument("--cases", type=int, help="how many, of those kinds that are drawn")
    parser.add_argument("--only", metavar="PATTERN", help="only cases such as 'sweep-*'; no row")
    given = parser.parse_args()
    if given.kind == "all":
        program = [sys.executable, str(Path(__file__).parent)]
        return max([subprocess.run([*program, kind]).returncode for kind in KINDS])
    if given.kind == "disk":
        disk.enter_namespace()
    kind, began, failed, count = KINDS[given.kind], time.perf_counter(), 0, 0
    with tempfile.TemporaryDirectory(prefix="faults", ignore_cleanup_errors=True) as folder:
        checks = itertools.islice(kind.checks(Path(folder)), given.cases or kind.cases)
        with suppress(KeyboardInterrupt):  # Ctrl-C: the cases so far are counted
            for name, check in checks:
                if given.only is not None and not fnmatch(name, given.only):
                    continue
                reasons = list(check())
                count, failed = count + 1, failed + bool(reasons)
                for why in reasons:
                    print(f"{given.kind} {name}: {why}", flush=True)
                if count % (100 if given.kind == "files" else 5) == 0:
                    print(f"{count} cases, {failed} failures", flush=True)
    seconds = time.perf_counter() - began
    print(f"{given.kind}: {count} cases, {failed} failures, {seconds:.0f} s", flush=True)
    if given.only is None:
        write_row(given.kind, count, failed, seconds)
    return 1 if failed else 0


def write_row(what: str, cases: int, failures: int, seconds: float) -> None:
    """Replace the row of this kind, or add one; it names the commit that was tried."""
    commit = _git("rev-parse", "--short=7", "HEAD")
    if _git("status", "--porcelain", "--", "src", "tests", "benchmarks/faults"):
        commit += "-dirty"
    rows = []
    if RESULTS.exists():
        with RESULTS.open(newline="") as file:
            rows = list(csv.reader(file))[1:]
    row = [what, cases, failures, round(seconds), commit, time.strftime("%Y-%m-%d")]
    with RESULTS.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["what", "cases", "failures", "seconds", "commit", "date"])
        writer.writerows([r for r in rows if r[0] != what] + [row])


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, text=True, capture_output=True)
    return done.stdout.strip()
