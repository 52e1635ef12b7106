"""Commands as processes, and the comparison of what they have left."""

from __future__ import annotations

import contextlib
import csv
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from faults.forked import Forked

ROOT = Path(__file__).parents[2]
Process = subprocess.Popen[str] | Forked
Check = Callable[[], Iterator[str]]
"""Yields why the case failed; nothing if it did not."""
Checks = Iterator[tuple[str, Check]]
"""Cases, each with the name that repeats it."""

SMALL = [
    *("--num-envs", "2", "--rollout-steps", "16", "--minibatch-size", "16", "--epochs", "1"),
    *("--hidden-sizes", "4", "--preset", "paper", "--quiet"),
]
STEPS = 32
"""of an iteration with these options"""
TINY = ["--env", "Pendulum-v1", "--workers", "0", *SMALL]
DEVICE = ["--env", "jax:access-control", *SMALL]
OFTEN = "from longrun.learning.train import training\ntraining.CHECKPOINT_SECONDS = 0.2"
"""Lines that make a command write checkpoints often."""
SECONDS = 240.0
"""in which every command ends, also on a busy machine"""


def train(env: list[str], run: Path, iterations: int, evaluate: int) -> list[str]:
    """A command that evaluates every so many iterations."""
    evaluation = ["--eval-every", str(evaluate * STEPS), "--eval-steps", "20"]
    steps = ["--steps", str(iterations * STEPS)]
    return ["train", "apo", *env, *steps, *evaluation, "--out", str(run)]


def resume(run: Path, command: list[str]) -> list[str]:
    """The command that resumes a run, or the first one if the run had not begun."""
    if not (run / "config.json").exists():
        return command
    return ["train", "--resume", "--out", str(run), "--quiet"]


def child_variables(**more: str) -> dict[str, str]:
    """Of a process that imports this working tree and the environments of its tests."""
    own = [str(ROOT / "src"), str(ROOT / "tests"), str(Path(__file__).parent)]
    paths = [*own, *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths)} | more


def start(command: list[str], patch: str = "") -> Forked:
    """`longrun COMMAND` as a process, after some lines of Python."""
    return Forked(
        "import signal, sys\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"at_end = lambda: None\n{patch}\nfrom longrun.cli import main\n"
        f"try:\n    sys.exit(main({command!r}))\nfinally:\n    at_end()"
    )


def ended(process: Process, seconds: float = SECONDS) -> tuple[int | None, str]:
    """Status and errors of a process; the status is None if it had to be killed."""
    try:
        _, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):  # a child may keep its output open
            process.communicate(timeout=5)
        return None, f"still running after {seconds:g} s"
    return process.returncode, errors


def call(command: list[str], patch: str = "") -> tuple[int | None, str]:
    """Run a command to its end: its status and what it wrote to its error output."""
    return ended(start(command, patch))


def require(command: list[str], patch: str = "") -> None:
    """Run a command that has to succeed, such as the run that others are compared with."""
    status, errors = call(command, patch)
    if status != 0:
        raise RuntimeError(f"longrun {' '.join(command)}: status {status}, {errors}")


def is_one_line(errors: str) -> bool:
    """Whether longrun has written one line of error, and no traceback.

    Besides there may be warnings, and what environments write.
    """
    own = [line for line in errors.splitlines() if line.startswith("longrun: ")]
    return "Traceback" not in errors and len([x for x in own if "longrun: warning: " not in x]) == 1


def rows(run: Path) -> dict[str, list[list[str]]]:
    """The rows of a run without the column that is a time."""
    found = {}
    for name in ("metrics.csv", "evaluations.csv"):
        with (run / name).open(newline="") as file:
            header, *lines = list(csv.reader(file))
        kept = [k for k, column in enumerate(header) if column != "steps_per_second"]
        found[name] = [[line[k] for k in kept] for line in lines]
    return found


def state(run: Path) -> dict[str, bytes]:
    """All tensors of the checkpoint, in a form that compares to the bit."""
    files = (run / "checkpoint").glob("*.safetensors")
    return {file.name: file.read_bytes() for file in files}


def differences(run: Path, whole: Path) -> Iterator[str]:
    """How a run differs from an uninterrupted one; nothing if it does not."""
    if not (run / "summary.json").exists():
        yield "it is not finished"
    elif rows(run) != rows(whole):
        yield "its rows differ from those of an uninterrupted run"
    elif state(run) != state(whole):
        yield "its tensors differ from those of an uninterrupted run"
    leftovers = [file.name for file in run.rglob(".*") if file.is_file()]
    if leftovers:
        yield f"it has left {leftovers}"


def descendants(pid: int) -> list[int]:
    """Processes that a process has started, and those that these have."""
    found, new = [], [pid]
    while new:
        threads = [task for p in new for task in Path(f"/proc/{p}/task").glob("*")]
        new = [int(child) for task in threads for child in _children(task)]
        found += new
    return found


def _children(task: Path) -> list[str]:
    try:
        return (task / "children").read_text().split()
    except OSError:  # it has ended
        return []
