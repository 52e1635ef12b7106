"""Mutated files of runs, sweeps and checkpoints: every command ends with a result or one line."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import random
import shutil
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from faults.processes import STEPS, TINY, Checks, train
from longrun.cli import main as longrun
from longrun.learning.runs.run_folder import RunFolder
from longrun.learning.runs.spec import FORMAT


def checks(folder: Path) -> Checks:
    case = damaged(folder)
    for seed in itertools.count():
        yield str(seed), lambda seed=seed: case(seed)


def make_folders(folder: Path) -> tuple[Path, Path]:
    """A run, and a sweep of two copies of it."""
    run, sweep = folder / "run", folder / "sweep"
    with contextlib.redirect_stdout(io.StringIO()):
        assert longrun([*train(TINY, run, 4, 2), "--seeds", "2"]) == 0
    runs = {f"apo-{k}": run for k in range(2)}
    for name, source in runs.items():
        shutil.copytree(source, sweep / "runs" / name)
    planned = dict.fromkeys(runs, RunFolder(run).read_spec().as_json())
    (sweep / "sweep.json").write_text(json.dumps({"format": FORMAT, "id": "x", "runs": planned}))
    (sweep / "failures.json").write_text(
        json.dumps([{"run": "apo-0", "error": "x", "attempts": 1}])
    )
    return run, sweep


def damaged(folder: Path) -> Callable[[int], Iterator[str]]:
    """Damages one file and gives the folder to one command."""
    run, sweep = make_folders(folder)

    def case(seed: int) -> Iterator[str]:
        rng = random.Random(seed)
        source = rng.choice([run, run, sweep])
        copy = folder / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(source, copy)
        files = sorted(path for path in copy.rglob("*") if path.is_file())
        target = rng.choice(files)
        how = mutate(rng, target)
        command = rng.choice(commands(copy, source is sweep))
        for why in one_line(command):
            yield f"{target.relative_to(copy)} {how}; {why}"

    return case


def commands(folder: Path, is_sweep: bool) -> list[list[str]]:
    """The commands that read a folder of this kind."""
    name, beside = str(folder), folder.parent
    of_both = [
        ["compare", name],
        ["plot", name, "--out", str(beside / "curves.png")],
        ["report", name, "--no-frames", "--out", str(beside / "page.html")],
    ]
    of_runs = [
        ["evaluate", name, "--steps", "20"],
        ["train", "--resume", "--out", name, "--steps", str(5 * STEPS), "--quiet"],
    ]
    return of_both if is_sweep else [*of_runs, *of_both]


def one_line(command: list[str]) -> Iterator[str]:
    """Why a command did not end as it should: a status, and if not 0 one line that says why."""
    out, errors = io.StringIO(), io.StringIO()
    name = f"longrun {' '.join(command)}"
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
        yield f"{name}: {last[-1]} ({last[-3].strip()})"
        return
    lines = [line for line in errors.getvalue().splitlines() if line.startswith("longrun: ")]
    if status not in (0, 1, 2) or (status and len(lines) != 1):
        yield f"{name}: status {status}, {errors.getvalue()[-200:]!r}"


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
