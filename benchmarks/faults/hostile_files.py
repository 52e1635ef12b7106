"""Files that were made to do harm: nothing is imported or read elsewhere, every command ends."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from faults.damaged_files import commands, make_folders, one_line
from faults.processes import STEPS, Checks
from longrun.learning.runs.checkpoint_files import digest_of

SECONDS = 60
"""in which a command has to end"""
EVIL = "import pathlib\npathlib.Path(__file__).with_name('imported').touch()\n"
RUN_FILES = ("config.json", "metrics.csv", "evaluations.csv", "summary.json")
RUN_FILES += ("checkpoint/checkpoint.json", "checkpoint/state")
SWEEP_FILES = ("sweep.json", "failures.json")
Harm = Callable[[Path], None]
"""Changes a copy of a run or of a sweep."""


def checks(folder: Path) -> Checks:
    run, sweep = make_folders(folder)
    for files, source in ((RUN_FILES, run), (SWEEP_FILES, sweep)):
        for file in files:
            for what, make in INSTEAD.items():
                yield f"{what} as {file}", _case(folder, source, _instead(file, make))
    for name, harm in OF_RUNS.items():
        yield name, _case(folder, run, harm)
    for name, harm in OF_SWEEPS.items():
        yield name, _case(folder, sweep, harm)


def _case(folder: Path, source: Path, harm: Harm) -> Callable[[], Iterator[str]]:
    def check() -> Iterator[str]:
        is_sweep, copy = (source / "sweep.json").exists(), folder / "copy"
        calls = commands(copy, is_sweep)
        if is_sweep:
            calls.append(["sweep", "--resume", "--out", str(copy), "--quiet", "--workers", "1"])
        (folder / "evil.py").write_text(EVIL)
        for command in calls:
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(source, copy)
            harm(copy)
            with _limited(folder):
                yield from one_line(command)
            if (folder / "imported").exists():
                (folder / "imported").unlink()
                yield f"longrun {' '.join(command)} has imported a module that a file names"
            if (folder / "elsewhere").exists():
                shutil.rmtree(folder / "elsewhere")
                yield f"longrun {' '.join(command)} has written outside its folder"

    return check


@contextmanager
def _limited(folder: Path) -> Iterator[None]:
    """In the folder of the evil module, with a limit of time."""

    def stop(*_: Any) -> None:
        raise TimeoutError(f"still running after {SECONDS} s")

    before, place = signal.signal(signal.SIGALRM, stop), Path.cwd()
    os.chdir(folder)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        os.chdir(place)


# Something else than a regular file of a sensible size.


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2**41)


INSTEAD: dict[str, Callable[[Path], None]] = {
    "a link to /etc/passwd": lambda path: path.symlink_to("/etc/passwd"),
    "a link to /dev/zero": lambda path: path.symlink_to("/dev/zero"),
    "a pipe": os.mkfifo,
    "two terabytes": _sparse,
    "a folder": lambda path: path.mkdir(),
    "nested brackets": lambda path: path.write_text("[" * 200_000) and None,
    "a long line": lambda path: path.write_bytes(b"1," * 5_000_000) and None,
    "no text": lambda path: path.write_bytes(bytes(range(256)) * 40) and None,
}


def _instead(name: str, make: Callable[[Path], None]) -> Harm:
    def harm(copy: Path) -> None:
        path = copy / name
        if name.endswith("state"):
            (path,) = path.parent.glob("state-*")
        path.unlink()
        make(path)

    return harm


# Contents that name something, or that have no sense, with a hash that fits.


def _header(**changes: Any) -> Harm:
    def harm(copy: Path) -> None:
        file = copy / "checkpoint" / "checkpoint.json"
        header = json.loads(file.read_text())
        (state,) = file.parent.glob("state-*")
        header |= changes
        header["sha256"] = digest_of(header, state.read_bytes())
        file.write_text(json.dumps(header))

    return harm


def _tensors(change: Callable[[dict[str, Any]], Any]) -> Harm:
    """Other tensors, under the same name and with a hash that fits."""

    def harm(copy: Path) -> None:
        (state,) = (copy / "checkpoint").glob("state-*")
        tensors = safetensors.numpy.load_file(state)
        change(tensors)
        state.write_bytes(safetensors.numpy.save(tensors))
        _header(bytes=state.stat().st_size)(copy)

    return harm


def _bytes(content: bytes) -> Harm:
    def harm(copy: Path) -> None:
        (state,) = (copy / "checkpoint").glob("state-*")
        state.write_bytes(content)
        _header(bytes=len(content))(copy)

    return harm


def _config(**changes: Any) -> Harm:
    def harm(copy: Path) -> None:
        file = copy / "config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | changes))
        if "env" in changes:
            _header(env=changes["env"])(copy)

    return harm


def _csv(name: str, change: Callable[[list[str]], list[str]]) -> Harm:
    def harm(copy: Path) -> None:
        lines = (copy / name).read_text().splitlines()
        (copy / name).write_text("\n".join(change(lines)) + "\n")

    return harm


def _fill(value: float) -> Callable[[dict[str, Any]], Any]:
    def fill(tensors: dict[str, Any]) -> None:
        for name in tensors:
            shape, dtype = tensors[name].shape, tensors[name].dtype
            with np.errstate(invalid="ignore"):  # NaN as a whole number
                tensors[name] = np.full(shape, value, np.float64).astype(dtype)

    return fill


def _add(tensors: dict[str, Any]) -> None:
    tensors |= {f"{i}.environments.x": np.zeros(3, np.float32) for i in range(1000)}


OF_RUNS: dict[str, Harm] = {
    "env is a module": _config(env="evil:Pendulum-v1"),
    "env is a module in the header": _header(env="evil:Pendulum-v1"),
    "env is a path": _config(env="../evil:Pendulum-v1"),
    "env has an entry point": _config(env="evil:evil?entry_point=evil:Evil"),
    "env is a native module": _config(env="jax:../evil"),
    "env is long": _config(env="x" * 1_000_000),
    "env with a NUL": _config(env="Pendulum-v1\0"),
    "state is /dev/zero": _header(state="/dev/zero"),
    "state is elsewhere": _header(state="../../../../../etc/passwd"),
    "state has a huge size": _header(bytes=2**70),
    "state has a negative size": _header(bytes=-1),
    "format 10**400": _header(format=10**400),
    "no replicas": _header(replicas=[]),
    "a million replicas": _header(replicas=[{}] * 1_000_000),
    "spaces are huge": _header(spaces={"observation_size": 10**12}),
    "tensors are NaN": _tensors(_fill(np.nan)),
    "tensors are infinite": _tensors(_fill(np.inf)),
    "tensors are negative": _tensors(_fill(-1)),
    "tensors are missing": _tensors(lambda tensors: tensors.clear()),
    "tensors are added": _tensors(_add),
    "a header of 2**63 bytes": _bytes(b"\xff" * 7 + b"\x7f" + b"{}"),
    "an empty state": _bytes(b""),
    "a state of zeros": _bytes(b"\0" * 100_000),
    "hidden sizes of terabytes": _config(options={"hidden_sizes": [10**6, 10**6]}),
    "options that do not exist": _config(options={"__class__": "x"}),
    "10**9 workers": _config(num_workers=10**9),
    "negative steps": _config(steps=-5),
    "10**400 steps": _config(steps=10**400),
    "an evaluation of 10**15 steps": _config(eval_steps=10**15, eval_every=1),
    "a preset that is a path": _config(preset="../../evil"),
    "seeds out of range": _config(replicas=[{"seed": -1}, {"seed": 2**64}]),
    "a row with a million columns": _csv("metrics.csv", lambda x: [*x, ",".join("1" * 10**6)]),
    "a field of megabytes": _csv("metrics.csv", lambda x: [*x, '"' + "x" * 5_000_000]),
    "rows out of order": _csv("metrics.csv", lambda x: [x[0], *reversed(x[1:])]),
    "a million rows": _csv("evaluations.csv", lambda x: x + x[1:] * 100_000),
    "numbers that overflow": _csv(
        "evaluations.csv", lambda x: [y.replace("1", "9e999") for y in x]
    ),
    "columns that are formulas": _csv("metrics.csv", lambda x: ["=cmd()," + x[0], *x[1:]]),
    "the same column twice": _csv("metrics.csv", lambda x: [f"{y},{y}" for y in x]),
}


def _sweep(name: str | None = None, **changes: Any) -> Harm:
    """Changes of the first run, and of its name."""

    def harm(copy: Path) -> None:
        content = json.loads((copy / "sweep.json").read_text())
        first = next(iter(content["runs"]))
        content["runs"] |= {name or first: content["runs"][first] | changes}
        (copy / "sweep.json").write_text(json.dumps(content))

    return harm


OF_SWEEPS: dict[str, Harm] = {
    "a run elsewhere": _sweep(name="../../elsewhere"),
    "a run at an absolute path": _sweep(name="/tmp/elsewhere/x"),
    "a run whose name is long": _sweep(name="x" * 5000),
    "a run whose name has a NUL": _sweep(name="a\0b"),
    "a run of a module": _sweep(name="new", env="evil:Pendulum-v1"),
    "a run of 10**400 steps": _sweep(name="new", steps=10**400),
    "options that are unknown": _sweep(name="new", options={"__init__": 1}, steps=4 * STEPS),
    "replicas that are text": _sweep(name="new", replicas="xyz", steps=4 * STEPS),
}
