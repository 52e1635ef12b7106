"""Faults, made on purpose and counted: damaged files, kills, signals.

    python benchmarks/faults.py files --cases 5000     mutated files of runs, sweeps and checkpoints
    python benchmarks/faults.py kills --cases 50       SIGKILL at random moments, then resumed
    python benchmarks/faults.py signals --cases 50     SIGINT and SIGTERM, with cold and warm caches

A row for each is appended to benchmarks/results/faults.csv with the commit it was made at. A
failure is printed with the seed of its case, which repeats it: `--first SEED --cases 1`.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "faults.csv"
TINY = [
    *("--env", "Pendulum-v1", "--num-envs", "2", "--rollout-steps", "16", "--minibatch-size", "16"),
    *("--epochs", "1", "--hidden-sizes", "4", "--workers", "0", "--quiet"),
]
STEPS = 32
"""of an iteration with these options"""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("what", choices=CASES)
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="seed of the first case")
    given = parser.parse_args()
    failures, began = [], time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        case = CASES[given.what](Path(folder))
        for seed in range(given.first, given.first + given.cases):
            if why := next(iter(case(seed)), None):
                failures.append(seed)
                print(f"case {seed}: {why}", flush=True)
            if (seed + 1) % max(given.cases // 20, 1) == 0:
                print(
                    f"{seed + 1 - given.first} of {given.cases}, {len(failures)} failed", flush=True
                )
    seconds = time.perf_counter() - began
    print(f"{given.what}: {given.cases} cases, {len(failures)} failures, {seconds:.0f} s")
    write_row(given.what, given.first, given.cases, len(failures), seconds)
    return 1 if failures else 0


def write_row(what: str, first: int, cases: int, failures: int, seconds: float) -> None:
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, text=True, capture_output=True
    )
    new = not RESULTS.exists()
    with RESULTS.open("a", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if new:
            writer.writerow(
                ["what", "first_seed", "cases", "failures", "seconds", "commit", "date"]
            )
        writer.writerow(
            [
                what,
                first,
                cases,
                failures,
                round(seconds),
                commit.stdout.strip(),
                time.strftime("%Y-%m-%d"),
            ]
        )


# Damaged files: every command ends with one line, never with a traceback.


def damaged_files(folder: Path) -> Callable[[int], Iterator[str]]:
    from longrun.cli import main as longrun

    run, sweep = folder / "run", folder / "sweep"
    more = ["--steps", str(4 * STEPS), "--eval-every", str(2 * STEPS), "--eval-steps", "20"]
    with contextlib.redirect_stdout(io.StringIO()):
        assert longrun(["train", "apo", *TINY, *more, "--seeds", "2", "--out", str(run)]) == 0
    runs = {f"apo-{k}": run for k in range(2)}
    for name, source in runs.items():
        shutil.copytree(source, sweep / "runs" / name)
    planned = [
        {"name": name, "env": "Pendulum-v1", "algorithm": "apo", "preset": "paper", "options": {}}
        | {"replicas": [{"seed": 0}], "steps": 4 * STEPS, "settings": {}, "fixed": {}}
        for name in runs
    ]
    (sweep / "sweep.json").write_text(json.dumps({"meaning": 2, "id": "x", "runs": planned}))
    (sweep / "failures.json").write_text(
        json.dumps([{"run": "apo-0", "error": "x", "attempts": 1}])
    )

    def case(seed: int) -> Iterator[str]:
        rng = random.Random(seed)
        source = rng.choice([run, run, sweep])
        copy = folder / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(source, copy)
        files = sorted(path for path in copy.rglob("*") if path.is_file())
        target = rng.choice(files)
        how = mutate(rng, target)
        commands = [
            ["evaluate", str(copy), "--steps", "20"],
            ["train", "--resume", "--out", str(copy), "--steps", str(5 * STEPS), "--quiet"],
            ["compare", str(copy)],
            ["plot", str(copy), "--out", str(folder / "curves.png")],
            ["report", str(copy), "--no-frames", "--out", str(folder / "page.html")],
        ]
        command = rng.choice(commands[2:] if source is sweep else commands)
        yield from one_line(longrun, command, f"{target.relative_to(copy)} {how}")

    return case


def one_line(longrun: Callable[[list[str]], int], command: list[str], about: str) -> Iterator[str]:
    """Why a command did not end as it should: a status, and if not 0 one line that says why."""
    out, errors = io.StringIO(), io.StringIO()
    try:
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(errors),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            status = longrun(command)
    except BaseException:
        last = traceback.format_exc().strip().splitlines()
        yield f"{about}; longrun {' '.join(command)}: {last[-1]} ({last[-3].strip()})"
        return
    lines = [line for line in errors.getvalue().splitlines() if line.startswith("longrun: ")]
    if status not in (0, 1, 2) or (status and len(lines) != 1):
        yield f"{about}; longrun {' '.join(command)}: status {status}, {errors.getvalue()[-200:]!r}"


def mutate(rng: random.Random, file: Path) -> str:
    """Damage a file in one of many ways; what was done."""
    content = file.read_bytes()
    how = rng.choice(["flip", "cut", "insert", "empty", "repeat", "json", "json", "json"])
    if how == "json" and file.suffix == ".json":
        document = json.loads(content)
        where = mutate_json(rng, document)
        file.write_text(json.dumps(document))
        return f"json {where}"
    place = rng.randrange(max(len(content), 1))
    changed = {
        "flip": content[:place] + bytes([rng.randrange(256)]) + content[place + 1 :],
        "cut": content[:place],
        "insert": content[:place] + rng.randbytes(rng.randrange(1, 20)) + content[place:],
        "empty": b"",
        "repeat": content + content[place:],
    }
    file.write_bytes(changed.get(how, content[:place]))
    return f"{how} at {place}"


STRANGE: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1.5,
    1e308,
    2**70,
    "",
    "x",
    "\x00",
    [],
    {},
    [[]],
    {"a": 1},
)


def mutate_json(rng: random.Random, document: Any) -> str:
    """Replace or remove one entry somewhere in a document, which is changed in place."""
    places: list[tuple[Any, Any]] = []

    def visit(node: Any) -> None:
        for key in list(node) if isinstance(node, dict) else range(len(node)):
            places.append((node, key))
            if isinstance(node[key], dict | list):
                visit(node[key])

    visit(document)
    node, key = rng.choice(places)
    if rng.random() < 0.25:
        del node[key]
        return f"without {key}"
    node[key] = rng.choice(STRANGE)
    return f"{key}={node[key]!r}"


# Kills: after any of them a run resumes and ends as if nothing had happened.


def start(arguments: list[str], **variables: str) -> subprocess.Popen[str]:
    code = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler);"
        f"from longrun.cli import main; sys.exit(main({arguments!r}))"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env=os.environ | variables,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def rows(run: Path) -> dict[str, list[list[str]]]:
    """The rows of a run without the column that is a time."""
    found = {}
    for name in ("metrics.csv", "evaluations.csv"):
        with (run / name).open(newline="") as file:
            header, *lines = list(csv.reader(file))
        kept = [k for k, column in enumerate(header) if column != "steps_per_second"]
        found[name] = [[line[k] for k in kept] for line in lines]
    return found


def kills(folder: Path) -> Callable[[int], Iterator[str]]:
    total = 200 * STEPS
    common = [*TINY, "--steps", str(total), "--eval-every", str(40 * STEPS), "--eval-steps", "20"]
    whole = folder / "whole"
    process = start(["train", "apo", *common, "--out", str(whole)])
    assert process.wait(300) == 0, process.communicate()

    def case(seed: int) -> Iterator[str]:
        rng, run = random.Random(seed), folder / "killed"
        shutil.rmtree(run, ignore_errors=True)
        process = start(["train", "apo", *common, "--out", str(run)])
        times = 0
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(rng.uniform(1.0, 6.0))
                break
            process.kill()
            process.wait()
            times += 1
            again = ["train", "--resume", "--out", str(run), "--quiet"]
            if not (run / "config.json").exists():
                again = ["train", "apo", *common, "--out", str(run)]
            if times == 4:  # then it may end
                process = start(again)
                process.wait(300)
                break
            process = start(again)
        if process.returncode != 0:
            yield f"{times} kills, then status {process.returncode}: {process.communicate()[1]}"
        elif rows(run) != rows(whole):
            yield f"{times} kills, then other rows than without"

    return case


def signals(folder: Path) -> Callable[[int], Iterator[str]]:
    def case(seed: int) -> Iterator[str]:
        rng, run, cache = random.Random(seed), folder / "run", folder / "cache"
        shutil.rmtree(run, ignore_errors=True)
        if rng.random() < 0.5:
            shutil.rmtree(cache, ignore_errors=True)
        number = rng.choice([signal.SIGINT, signal.SIGTERM])
        command = ["train", "apo", *TINY, "--steps", "100000000", "--no-eval", "--out", str(run)]
        process = start(command, JAX_COMPILATION_CACHE_DIR=str(cache))
        deadline = time.monotonic() + 120
        while not (run / "checkpoint" / "checkpoint.json").exists():
            if time.monotonic() > deadline:
                yield "did not start"
                return
            time.sleep(0.02)
        time.sleep(rng.uniform(0, 8))
        process.send_signal(number)
        try:
            _, errors = process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            yield f"{number.name}: still running after two minutes"
            return
        expected = 130 if number == signal.SIGINT else 143
        if process.returncode != expected or errors.count("\n") != 1:
            yield f"{number.name}: status {process.returncode}, {errors[-300:]!r}"

    return case


CASES: dict[str, Callable[[Path], Callable[[int], Iterator[str]]]] = {
    "files": damaged_files,
    "kills": kills,
    "signals": signals,
}

if __name__ == "__main__":
    sys.exit(main())
