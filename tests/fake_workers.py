"""Sweeps without worker processes, and what tests of sweeps share: commands, folders, children."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from longrun.lab.sweeps.grids import options_for, points_of
from longrun.lab.sweeps.plan import Planned, Setting, runs_of
from longrun.lab.sweeps.sweep_folder import SweepFolder
from longrun.lab.sweeps.worker_process import train_run
from longrun.learning.options.config_options import make_config
from longrun.learning.runs.spec import RunSpec
from longrun.learning.train import checkpoint
from tiny_envs import ITERATION, TINY_FLAGS

TESTS = Path(__file__).parent
ENV, SLOW, GATED = (f"tiny_envs:{name}Drift-v0" for name in ("", "Slow", "Gated"))
ITERATIONS = 10
"""Of each run that `sweep_arguments` asks for."""


class InlineWorkers:
    """Trains in this process: a run is over when `start` returns."""

    def __init__(self, folder: SweepFolder, slots: int, native: bool) -> None:
        self.slots = 1
        self.reported: list[tuple[int, dict[str, Any]]] = []
        """Messages that have not been handed out yet."""

    def start(self, slot: int, run: RunSpec, path: Path) -> None:
        def report(message: dict[str, Any]) -> None:
            self.reported.append((slot, json.loads(json.dumps(message))))

        report(train_run(run, path, report, threading.Event()))

    def messages(self, seconds: float) -> Iterator[tuple[int, dict[str, Any]]]:
        messages, self.reported = self.reported, []
        yield from messages

    def close(self) -> None:
        pass


class ScriptedWorkers:
    """Answers each start of a run with the next message that the script has for its seed."""

    def __init__(self, slots: int, script: Mapping[int, list[dict[str, Any]]]) -> None:
        self.slots = slots
        self.started: list[Any] = []
        """(slot, seed) of each start, and at last "closed"."""
        self._script = {seed: list(messages) for seed, messages in script.items()}
        self._messages: list[tuple[int, dict[str, Any]]] = []

    def start(self, slot: int, run: RunSpec, path: Path) -> None:
        [seed] = run.seeds
        self.started.append((slot, seed))
        messages = self._script.get(seed, [])
        self._messages.append((slot, messages.pop(0) if messages else {"kind": "done"}))

    def messages(self, seconds: float) -> Iterator[tuple[int, dict[str, Any]]]:
        yield self._messages.pop(0)

    def close(self) -> None:
        self.started.append("closed")


# Commands and folders.


def sweep_arguments(out: Path, *more: str, env: str = ENV) -> list[str]:
    """`longrun sweep` of two seeds with an evaluation every second iteration."""
    steps = ["--steps", str(ITERATIONS * ITERATION), "--seeds", "2"]
    evaluation = ["--eval-every", str(2 * ITERATION), "--eval-steps", "50"]
    command = ["sweep", "apo", "--env", env, "--out", str(out)]
    return [*command, *steps, *evaluation, *TINY_FLAGS, *more]


def run_of(out: Path, seed: int, env: str = ENV) -> Path:
    """The run folder of a seed."""
    return out / "runs" / f"{env.replace(':', '-')}_apo_seed{seed}"


def some_runs(
    algorithm: str = "apo",
    env: str = ENV,
    *,
    settings: Sequence[Mapping[str, Any]] | None = None,
    grid: Mapping[str, Any] | None = None,
    seeds: Sequence[int] = (0, 1),
    steps: int = 128,
    preset: str = "tuned",
    fixed: Mapping[str, Any] | None = None,
    **evaluation: Any,
) -> list[Planned]:
    """Two seeds of a grid of two settings, unless the arguments say otherwise."""
    lists = options_for(algorithm, {"gae_lambda": [0.8, 0.9]} if grid is None else grid)
    tried = list(points_of(lists)) if settings is None else settings
    configs = [make_config(algorithm, preset, **{**(fixed or {}), **each}) for each in tried]
    whole = [Setting(env, c, preset, each) for c, each in zip(configs, tried, strict=True)]
    return runs_of(whole, seeds, steps, **evaluation)


def short_runs(seeds: int) -> list[Planned]:
    """Runs of two iterations."""
    options = {"num_envs": 2, "rollout_steps": 4, "minibatch_size": 4}
    return some_runs(grid={}, fixed=options, steps=8, seeds=range(seeds))


def content(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every file in a folder, with the time of its last change."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(p.relative_to(folder)): (p.stat().st_mtime_ns, p.read_bytes()) for p in files}


def evaluations(run: Path) -> bytes:
    return (run / "evaluations.csv").read_bytes()


def saved_iterations(run: Path) -> int:
    return int(checkpoint.load(run).snapshots[0].state.iteration)


def metric_rows(run: Path) -> int:
    """Lines of metrics.csv; 0 if there is none yet."""
    with suppress(OSError):
        return (run / "metrics.csv").read_text().count("\n")
    return 0


# Child processes.


def child_environment(**more: str) -> dict[str, str]:
    """The variables of this process, with the tests on the path besides what is there already."""
    paths = [str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths)} | more


INTERRUPTS = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)"
"""A test run that was started in the background ignores SIGINT, and its children inherit that."""


def launch(command: list[str], patches: str = "", **more: str) -> subprocess.Popen[str]:
    """`longrun COMMAND` in a process of its own, after some lines of Python."""
    call = f"import sys\nfrom longrun.cli import main\n{patches}\nsys.exit(main({command!r}))"
    return subprocess.Popen(
        [sys.executable, "-c", f"{INTERRUPTS}\n{call}"],
        env=child_environment(**more),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
