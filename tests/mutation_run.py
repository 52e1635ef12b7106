"""Apply the kept mutants one by one, and see which tests notice: `make test-mutants`.

    python tests/mutation_run.py               all of tests/mutants.py; writes tests/mutants.csv
    python tests/mutation_run.py gain limit    those whose name or file has one of these words
    python tests/mutation_run.py --processes 4 so many at once; by default one for each core

A mutant is applied to a copy of the code, which a process of its own imports, so that the working
tree stays as it is. The exit status is 1 if a mutant survives, or if its tests fail without it.
"""

from __future__ import annotations

import argparse
import csv
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from mutants import MUTANTS, Mutant

ROOT = Path(__file__).parents[1]
TABLE = Path(__file__).with_suffix("").parent / "mutants.csv"
SECONDS = 120
"""CPU time of a mutant's tests; a mutant that takes longer counts as a survivor."""
WITHOUT_ANY = 600
"""CPU time of all these tests without a mutant."""
PATIENCE = 10
"""Seconds for each of CPU time, after which tests are ended that wait for something."""
SURVIVED, CAUGHT, NOTHING_RUN = 0, 1, 5
"""Exit statuses of pytest."""


class Outcome(NamedTuple):
    """What became of a mutant."""

    caught_by: str
    """the first test that failed; "" if none did"""
    seconds: float
    """CPU time"""
    problem: str = ""
    """why nothing can be said; "" otherwise"""


def mutated(mutant: Mutant, source: Path) -> None:
    """Apply a mutant to a copy of src. Raises ValueError unless its text occurs exactly once."""
    file = source / "longrun" / mutant.file
    text = file.read_text()
    if (count := text.count(mutant.old)) != 1:
        raise ValueError(f"{mutant.name}: its text occurs {count} times in {mutant.file}")
    file.write_text(text.replace(mutant.old, mutant.new))


def run_tests(
    source: Path, tests: Sequence[str], *options: str, processes: int = 0, limit: int = SECONDS
) -> Outcome:
    """Run tests against the code in a folder: in one process, or in others that it starts."""
    names = [f"tests/{test}" for test in tests]
    pytest = [sys.executable, "-m", "pytest", "-n", str(processes), *options, *names]
    # In seconds of CPU time: other programs may need the cores, too.
    limited = ["sh", "-c", f'ulimit -t {limit}; exec "$@"', "sh", *pytest]
    environment = os.environ | {"PYTHONPATH": str(source)}
    with tempfile.TemporaryFile("w+") as output:
        begun = subprocess.Popen(
            limited, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT
        )
        stuck = threading.Timer(PATIENCE * limit, begun.kill)
        stuck.start()
        _, status, used = os.wait4(begun.pid, 0)
        stuck.cancel()
        begun.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        told = output.read()
    seconds = used.ru_utime + used.ru_stime
    failed = re.search(r"^FAILED (.+?)(?: - .*)?$", told, re.MULTILINE)
    if begun.returncode == CAUGHT and failed:
        return Outcome(failed[1].removeprefix("tests/"), seconds)
    if begun.returncode == SURVIVED:
        return Outcome("", seconds)
    if begun.returncode < 0:
        return Outcome("", seconds, f"ended by {signal.Signals(-begun.returncode).name}")
    what = "ran no test" if begun.returncode == NOTHING_RUN else "could not be run"
    return Outcome("", seconds, f"{what}: {told[-600:]}")


def outcome_of(mutant: Mutant) -> Outcome:
    """The outcome of one mutant, which is applied to a copy."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "src")
        shutil.copytree(ROOT / "src", source)
        try:
            mutated(mutant, source)
        except ValueError as error:
            return Outcome("", 0, str(error))
        return run_tests(source, mutant.tests, "-x", "-p", "no:cacheprovider")


def chosen(words: Sequence[str]) -> list[Mutant]:
    """Mutants whose name or file has one of the words; all if there are none."""
    return [m for m in MUTANTS if not words or any(w in m.name or w in m.file for w in words)]


def write_table(path: Path, outcomes: dict[Mutant, Outcome]) -> None:
    with path.open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["mutant", "file", "caught_by", "seconds"])
        for mutant, found in outcomes.items():
            rows.writerow([mutant.name, mutant.file, found.caught_by, f"{found.seconds:.0f}"])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("words", nargs="*", metavar="WORD", help="only mutants that have the word")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    given = parser.parse_args(arguments)
    mutants, begin = chosen(given.words), time.monotonic()
    tests = sorted({test for mutant in mutants for test in mutant.tests})
    print(f"{len(mutants)} mutants; first their tests without any of them")
    found = run_tests(ROOT / "src", tests, processes=given.processes, limit=WITHOUT_ANY)
    if found.caught_by or found.problem:
        print(f"without any mutant: {found.caught_by} {found.problem}")
        return 1
    outcomes: dict[Mutant, Outcome] = {}
    with ThreadPoolExecutor(given.processes) as pool:
        for mutant, found in zip(mutants, pool.map(outcome_of, mutants), strict=True):
            outcomes[mutant] = found
            told = found.caught_by or f"SURVIVED {found.problem}"
            print(f"{found.seconds:4.0f} s  {mutant.file}: {mutant.name}: {told}", flush=True)
    if not given.words:
        write_table(TABLE, outcomes)
    left = [mutant for mutant, found in outcomes.items() if not found.caught_by]
    seconds = time.monotonic() - begin
    print(f"{len(mutants) - len(left)} of {len(mutants)} mutants caught in {seconds:.0f} s")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
