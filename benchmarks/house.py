"""The house: how large the code is, how much of it a run goes through, and how fast it starts.

    python benchmarks/house.py                            prints a table; takes some minutes
    python benchmarks/house.py --out results/house.csv    and adds this commit to the file

Lines are those of Python files that git tracks. Code lines have no comment, docstring or blank
line. Descriptions of a run are classes that have seeds or replicas among their fields. Times are
medians of five processes; those of runs are to the first row of metrics, after two starts that fill
the caches of bytecode and of compiled programs. CPU times have the end of the run, too.
"""

from __future__ import annotations

import argparse
import ast
import io
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from csv_rows import Row, rows_of, write_rows
from markdown_table import table

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "longrun"
REPEATS = 5
ENVIRONMENT = {n: v for n, v in os.environ.items() if n != "PYTHONDONTWRITEBYTECODE"}
"""as users have it: modules are compiled once"""
SPACE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)

HOST_RUN = """
import dataclasses, sys, threading
import longrun
agent = longrun.APO("Pendulum-v1", num_envs=2, rollout_steps=16, minibatch_size=8, epochs=1)
files, functions = set(), set()

def on_event(frame, event, _):
    code = frame.f_code
    if event == "call" and code.co_name != "<module>" and code.co_filename.startswith(sys.argv[1]):
        files.add(code.co_filename)
        functions.add(code)

def on_log(progress):
    sys.setprofile(None)
    threading.setprofile(None)
    return False

threading.setprofile(on_event)
sys.setprofile(on_event)
agent.learn(64, on_log=on_log)
print(sum(name.partition(".")[0] == "longrun" for name in sys.modules))
kinds = longrun.APOConfig, longrun.PPOConfig, longrun.ATRPOConfig, longrun.TRPOConfig
print(len({field.name for kind in kinds for field in dataclasses.fields(kind)}))
lines = sum(open(file).read().count("\\n") for file in files)
print(len(files), lines, len(functions), longrun.APO.__mro__[-2].__module__)
"""
"""Prints modules imported; options; files and functions until the first row, the agent's module."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--out", type=Path, help="CSV file; rows of other commits are kept")
    parser.add_argument("--no-times", action="store_true", help="leave out what takes minutes")
    given = parser.parse_args()
    measures = {**sizes(), **reached(), "descriptions of a run": len(descriptions())}
    if not given.no_times:
        measures |= times()
    commit = _git("rev-parse", "--short", "HEAD") + ("+" if _git("diff", "HEAD", "src") else "")
    rows: list[Row] = []
    if given.out and given.out.exists():
        rows = [row for row in rows_of(given.out) if row["commit"] != commit]
    rows += [{"measure": m, "value": f"{v:.6g}", "commit": commit} for m, v in measures.items()]
    if given.out:
        write_rows(given.out, rows)
    commits = list(dict.fromkeys(row["commit"] for row in rows))
    values = {(row["measure"], row["commit"]): row["value"] for row in rows}
    names = list(dict.fromkeys(row["measure"] for row in rows))
    print(table(["", *commits], [[n, *(values.get((n, c), "") for c in commits)] for n in names]))


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


# Sizes.


def sizes() -> dict[str, float]:
    """Lines and code lines of each package of the library, of its tests and its benchmarks."""
    lines: Counter[str] = Counter()
    code: Counter[str] = Counter()
    entries = set()
    for name in _git("ls-files", "src/longrun", "tests", "benchmarks").splitlines():
        parts = Path(name).parts
        places = [parts[0]]
        if parts[0] == "src":
            entries.add(parts[2])
            places.append(f"src: {parts[2] if len(parts) > 3 else 'top level'}")
        if name.endswith(".py") and (ROOT / name).exists():
            text = (ROOT / name).read_text()
            for place in places:
                lines[place] += len(text.splitlines())
                code[place] += code_lines(text)
    found: dict[str, float] = {"entries at the top of src/longrun": len(entries)}
    for place in sorted(lines):
        found |= {f"lines, {place}": lines[place], f"code lines, {place}": code[place]}
    return found


def code_lines(text: str) -> int:
    """The number of lines that have more than comments and docstrings."""
    documented = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in SPACE and token.string.strip():
            code |= set(range(token.start[0], token.end[0] + 1))
    return len(code - documented)


# What a run goes through.


def reached() -> dict[str, float]:
    """Modules, files and functions of a small run on Gymnasium's Pendulum, and all options."""
    printed = _python("-c", HOST_RUN, str(SOURCE)).split()[-6:]
    imported, options, files, lines, functions, agent = printed
    found = closure(agent)
    return {
        "modules imported by a host run": int(imported),
        "modules imported with the agent's module": len(found),
        "lines of the modules imported with it": sum(
            len(_file(m).read_text().splitlines()) for m in found
        ),
        "files from learn to the first row": int(files),
        "lines of these files": int(lines),
        "lines of each, a hop": int(lines) / int(files),
        "functions from learn to the first row": int(functions),
        "options": int(options),
    }


def closure(module: str) -> set[str]:
    """All modules of the library that are imported with `module`, packages around them included."""
    found: set[str] = set()
    new = [module]
    while new:
        module = new.pop()
        if module and module not in found and _file(module).exists():
            found.add(module)
            new += [module.rpartition(".")[0], *imports(module)]
    return found


def imports(module: str) -> Iterator[str]:
    """What a module imports when it is imported itself; some may be names in a module instead."""
    for node in ast.parse(_file(module).read_text()).body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("longrun."))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("longrun"):
            yield from (node.module or "", *(f"{node.module}.{a.name}" for a in node.names))


def _file(module: str) -> Path:
    place = SOURCE.parent.joinpath(*module.split("."))
    return place / "__init__.py" if place.is_dir() else place.with_suffix(".py")


def descriptions() -> list[str]:
    """Classes of the library with a field for the seeds or replicas of a run."""
    return [
        f"{file.relative_to(SOURCE)}:{node.name}"
        for file in sorted(SOURCE.rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ClassDef)
        and any(
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and field.target.id in ("seeds", "replicas")
            for field in node.body
        )
    ]


# Times.


def times() -> dict[str, float]:
    """Medians of the time to start, and of processor time, which is steadier on a busy machine."""
    found = {"processes that wait or run, per core": os.getloadavg()[0] / (os.cpu_count() or 1)}
    with tempfile.TemporaryDirectory() as folder:
        starts: dict[str, Callable[[int], object]] = {
            "import longrun": lambda _: _python("-c", "import longrun"),
            "longrun --help": lambda _: _python("-m", "longrun", "--help"),
            "second start of a host run": lambda i: train(folder, "Pendulum-v1", i),
            "second start of a JAX run": lambda i: train(folder, "jax:criss-cross", i),
        }
        for name, start in starts.items():
            wall, cpu = zip(
                *(_seconds(start, repeat) for repeat in range(2 + REPEATS)), strict=True
            )
            found[f"seconds, {name}"] = statistics.median(wall[2:])  # the first ones fill caches
            found[f"CPU seconds, {name}"] = statistics.median(cpu[2:])
    return {name: round(value, 2) for name, value in found.items()}


def _seconds(start: Callable[[int], object], repeat: int) -> tuple[float, float]:
    """Seconds, the start's own if it returns some, and processor time of all its processes."""
    began, before = time.perf_counter(), os.times()
    own = start(repeat)
    wall, after = time.perf_counter() - began, os.times()
    cpu = after.children_user + after.children_system
    cpu -= before.children_user + before.children_system
    return own if isinstance(own, float) else wall, cpu


def train(folder: str, env: str, repeat: int) -> float:
    """Seconds from the start of `longrun train` to its first row of metrics; then it is stopped."""
    out = Path(folder) / f"{env.replace(':', '-')}-{repeat}"
    rows = out / "metrics.csv"
    command = [sys.executable, "-m", "longrun", "train", "apo", "--env", env, "--out", str(out)]
    began = time.perf_counter()
    with subprocess.Popen(
        [*command, "--steps", "10000000", "--quiet"],
        env=ENVIRONMENT | {"XDG_CACHE_HOME": folder},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        while not rows.exists() or rows.read_text().count("\n") < 2:
            assert process.poll() is None, f"`{' '.join(command)}` has ended"
            time.sleep(0.005)
        seconds = time.perf_counter() - began
        process.send_signal(signal.SIGINT)
    return seconds


def _python(*arguments: str) -> str:
    command = [sys.executable, *arguments]
    run = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)
    return run.stdout


if __name__ == "__main__":
    main()
