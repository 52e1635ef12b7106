"""Callbacks for `learn(on_log=...)`: plain functions of a `Progress`, one or a list of them.

A callback that returns False stops the training. Those below are made by functions, which are given
the agent where they save or name something. A callback of your own is any function; with
`on_evaluation` it is called where there is an evaluation.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from longrun.base.checks import MOST_STEPS, whole_number
from longrun.base.errors import InputError
from longrun.base.files import read_json, write_json
from longrun.learning.options.config_options import own_networks
from longrun.learning.runs.evaluation_report import EvaluationReport
from longrun.learning.train import checkpoint
from longrun.learning.train.checkpoint import Checkpoint
from longrun.learning.train.experiment_trackers import Trained, to_mlflow, to_wandb
from longrun.learning.train.job import Snapshot
from longrun.learning.train.progress import OnLog, Progress

__all__ = [
    "on_evaluation",
    "save_best",
    "save_every",
    "stop_at",
    "stop_on_plateau",
    "to_mlflow",
    "to_wandb",
]


def on_evaluation(function: Callable[[Progress, EvaluationReport], Any]) -> OnLog:
    """A callback that is called with each evaluation; without evaluations `learn` refuses it."""

    def on_log(progress: Progress) -> Any:
        if progress.evaluation is not None:
            return function(progress, progress.evaluation)
        return None

    on_log.needs_evaluations = True  # type: ignore[attr-defined]
    on_log.__name__ = function.__name__
    return on_log


def stop_at(average_reward: float, *, replicas: int = 1) -> OnLog:
    """Stop when an evaluation has reached this average reward; of each of several replicas.

    A line on the standard error says so.
    """
    reached: set[int] = set()

    def stop_at(progress: Progress, evaluation: EvaluationReport) -> bool:
        if evaluation.average_reward >= average_reward:
            reached.add(progress.replica)
        goes_on = len(reached) < replicas
        if not goes_on:
            rate = f"{evaluation.average_reward:.4g} per step"
            _tell(progress, f"the evaluation has {rate}, and stop_at is {average_reward:g}")
        return goes_on

    return on_evaluation(stop_at)


def stop_on_plateau(evaluations: int = 10, *, min_improvement: float = 0.0) -> OnLog:
    """Stop when the best average reward has not risen for so many evaluations.

    It has risen if it is more than `min_improvement` above the best before. Evaluations are noisy:
    give `learn` enough `eval_steps` that their intervals are narrow compared with what counts. A
    line on the standard error says why and when it stopped.
    """
    patience = whole_number("evaluations", evaluations, 1)
    best: list[float] = [-math.inf]
    since: list[int] = [0]
    step: list[int] = [0]
    """step of the best evaluation"""

    def stop_on_plateau(progress: Progress, evaluation: EvaluationReport) -> bool:
        since[0] += 1
        if evaluation.average_reward > best[0] + min_improvement:
            best[0], since[0], step[0] = evaluation.average_reward, 0, progress.step
        goes_on = since[0] < patience
        if not goes_on:
            best_text = f"the best evaluation, {best[0]:.4g} per step at {step[0]:,} steps"
            _tell(progress, f"stop_on_plateau found none above {best_text}, in {patience} more")
        return goes_on

    return on_evaluation(stop_on_plateau)


def _tell(progress: Progress, why: str) -> None:
    """Say on the standard error why a training stops before its end, if it does."""
    if progress.step < progress.total_steps:
        done = f"{progress.step:,} of {progress.total_steps:,} steps"
        print(f"longrun: stopped after {done}: {why}", file=sys.stderr, flush=True)


def save_best(agent: Trained, folder: str | Path | None = None) -> OnLog:
    """Save the agent with the best evaluation so far, by default to `best/` in the run folder.

    It is loaded as any other: `APO.load("runs/swimmer/best")`. Of several replicas each has its own
    best; `best.json` has their steps and average rewards.
    """
    best = _Best(agent, None if folder is None else Path(folder))

    def save_best(progress: Progress, evaluation: EvaluationReport) -> None:
        best.consider(progress, evaluation.average_reward)

    return on_evaluation(save_best)


class _Best:
    """The best snapshot of each replica, which a resumed run finds in its folder."""

    def __init__(self, trained: Trained, folder: Path | None) -> None:
        self._trained, self._folder = trained, folder
        self._found: dict[int, tuple[dict[str, Any], Snapshot]] | None = None

    def consider(self, progress: Progress, average_reward: float) -> None:
        folder = self._folder or _run_folder(self._trained, "save_best") / "best"
        now = self._trained.checkpoint()
        if self._found is None:
            self._found = _saved_best(folder, now, progress.step)
        before = self._found.get(progress.replica)
        if before is not None and average_reward <= before[0]["average_reward"]:
            return
        about = {"seed": progress.seed, "step": progress.step, "average_reward": average_reward}
        self._found[progress.replica] = about, now.snapshots[progress.replica]
        snapshots = [self._found.get(i, (None, s))[1] for i, s in enumerate(now.snapshots)]
        content = Checkpoint(
            now.env,
            now.spaces,
            now.configs,
            now.seeds,
            snapshots,
            interface=now.interface,
            preset=now.preset,
        )
        checkpoint.save(folder, content)
        rows = [self._found[i][0] if i in self._found else None for i in range(len(snapshots))]
        write_json(folder / "best.json", rows)


def _saved_best(
    folder: Path, now: Checkpoint, step: int
) -> dict[int, tuple[dict[str, Any], Snapshot]]:
    """What an earlier part of the same run saved; nothing if the folder is another run's.

    A run that starts anew does not compare itself with a later step of its predecessor.
    """
    if not (folder / "best.json").exists():
        return {}
    options = vars(now.configs[0])
    saved = checkpoint.load(folder, {name: options[name] for name in own_networks(options)})
    rows = read_json(folder / "best.json")
    same = (saved.env, saved.seeds, saved.configs) == (now.env, now.seeds, now.configs)
    if not same or len(rows) != len(saved.seeds) or any(row and row["step"] > step for row in rows):
        return {}
    return {i: (row, saved.snapshots[i]) for i, row in enumerate(rows) if row}


def save_every(agent: Trained, steps: int, folder: str | Path | None = None) -> OnLog:
    """Save a copy of the agent every so many steps, by default to `copies/` in the run folder.

    Steps are counted from the start of the run, also where it is resumed.
    """
    every = whole_number("steps", steps, 1, MOST_STEPS)
    done: list[int] = []
    """steps of the last copy; before the first one, those with which `learn` began"""

    def save_every(progress: Progress) -> None:
        if not done:
            done.append(progress.step - agent.checkpoint().configs[0].steps_per_iteration)
        if progress.step // every <= done[0] // every:
            return
        place = _run_folder(agent, "save_every") / "copies" if folder is None else Path(folder)
        content = agent.checkpoint()
        # On a device the agent may be some iterations ahead of the one that is reported.
        at = int(content.snapshots[0].state.iteration) * content.configs[0].steps_per_iteration
        checkpoint.save(place / f"step-{at:09d}", content)
        done[0] = at

    return save_every


def _run_folder(trained: Trained, name: str) -> Path:
    if trained.log_dir is None:
        raise InputError(f"{name} needs a folder: give log_dir to learn, or folder= to {name}")
    return trained.log_dir
