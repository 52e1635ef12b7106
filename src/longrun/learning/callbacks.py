"""Callbacks for `learn(on_log=...)`: plain functions of a `Progress`, one or a list of them.

A callback that returns False stops the training. Those below are made by functions. A callback of
your own is any function; with `on_evaluation` it is called where there is an evaluation.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from longrun.base.checks import MOST_STEPS, whole_number
from longrun.base.errors import InputError
from longrun.base.files import read_json, write_json
from longrun.learning.options.config_options import own_networks
from longrun.learning.runs.evaluation_report import EvaluationReport
from longrun.learning.train import checkpoint
from longrun.learning.train.checkpoint import Checkpoint
from longrun.learning.train.events import Snapshot
from longrun.learning.train.experiment_trackers import to_mlflow, to_wandb
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


def stop_at(average_reward: float) -> OnLog:
    """Stop when an evaluation of each replica has reached this average reward.

    A line on the standard error says so.
    """
    reached: set[int] = set()

    def stop_at(progress: Progress, evaluation: EvaluationReport) -> bool:
        if evaluation.average_reward >= average_reward:
            reached.add(progress.replica)
        goes_on = len(reached) < len(progress.run.spec.seeds)
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
    best, since, step = -math.inf, 0, 0

    def stop_on_plateau(progress: Progress, evaluation: EvaluationReport) -> bool:
        nonlocal best, since, step
        since += 1
        if evaluation.average_reward > best + min_improvement:
            best, since, step = evaluation.average_reward, 0, progress.step
        if since >= patience:
            best_text = f"the best evaluation, {best:.4g} per step at {step:,} steps"
            _tell(progress, f"stop_on_plateau found none above {best_text}, in {patience} more")
        return since < patience

    return on_evaluation(stop_on_plateau)


def _tell(progress: Progress, why: str) -> None:
    """Say on the standard error why a training stops before its end, if it does."""
    if progress.step < progress.total_steps:
        done = f"{progress.step:,} of {progress.total_steps:,} steps"
        print(f"longrun: stopped after {done}: {why}", file=sys.stderr, flush=True)


def save_best(folder: str | Path | None = None) -> OnLog:
    """Save the agent with the best evaluation so far, by default to `best/` in the run folder.

    It is loaded as any other: `APO.load("runs/swimmer/best")`. Of several replicas each has its own
    best; `best.json` has their steps and average rewards.
    """
    found: dict[int, tuple[dict[str, Any], Snapshot]] | None = None
    """the best of each replica; what an earlier part of a resumed run saved is read first"""

    def save_best(progress: Progress, evaluation: EvaluationReport) -> None:
        nonlocal found
        place = _run_folder(progress, "save_best") / "best" if folder is None else Path(folder)
        now = progress.run.checkpoint()
        found = _saved_best(place, now, progress.step) if found is None else found
        before, rate = found.get(progress.replica), evaluation.average_reward
        if before is not None and rate <= before[0]["average_reward"]:
            return
        about = {"seed": progress.seed, "step": progress.step, "average_reward": rate}
        found[progress.replica] = about, now.snapshots[progress.replica]
        snapshots = [found.get(i, (None, s))[1] for i, s in enumerate(now.snapshots)]
        checkpoint.save(place, replace(now, snapshots=snapshots))
        rows = [found[i][0] if i in found else None for i in range(len(snapshots))]
        write_json(place / "best.json", rows)

    return on_evaluation(save_best)


def _saved_best(
    folder: Path, now: Checkpoint, step: int
) -> dict[int, tuple[dict[str, Any], Snapshot]]:
    """What an earlier part of the same run saved; nothing if the folder is another run's.

    A run that starts anew does not compare itself with a later step of its predecessor.
    """
    if not (folder / "best.json").exists():
        return {}
    options = vars(now.spec.configs[0])
    saved = checkpoint.load(folder, {name: options[name] for name in own_networks(options)})
    rows = read_json(folder / "best.json")
    one, other = ((s.env, s.seeds, s.configs) for s in (saved.spec, now.spec))
    if one != other or any(row and row["step"] > step for row in rows):
        return {}
    return {i: (row, saved.snapshots[i]) for i, row in enumerate(rows) if row}


def save_every(steps: int, folder: str | Path | None = None) -> OnLog:
    """Save a copy of the agent every so many steps, by default to `copies/` in the run folder.

    Steps are counted from the start of the run, also where it is resumed.
    """
    every = whole_number("steps", steps, 1, MOST_STEPS)
    done: int | None = None
    """steps of the last copy; before the first one, those with which `learn` began"""

    def save_every(progress: Progress) -> None:
        nonlocal done
        per_iteration = progress.run.spec.per_iteration
        done = progress.step - per_iteration if done is None else done
        if progress.step // every <= done // every:
            return
        place = _run_folder(progress, "save_every") / "copies" if folder is None else folder
        content = progress.run.checkpoint()
        # On a device the agent may be some iterations ahead of the one that is reported.
        done = int(content.snapshots[0].state.iteration) * per_iteration
        checkpoint.save(Path(place) / f"step-{done:09d}", content)

    return save_every


def _run_folder(progress: Progress, name: str) -> Path:
    if progress.run.log_dir is None:
        raise InputError(f"{name} needs a folder: give log_dir to learn, or folder= to {name}")
    return progress.run.log_dir
