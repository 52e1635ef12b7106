"""A training session: a loop with its run folder, checkpoints, progress bar and callbacks."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any, Self

from longrun.base.errors import FolderError
from longrun.learning.envs.spaces import interface_of
from longrun.learning.learn.trace import start_trace
from longrun.learning.options.config import algorithm_name
from longrun.learning.options.config_options import differing
from longrun.learning.options.presets import DEFAULT
from longrun.learning.runs.run_description import describe_run
from longrun.learning.runs.run_folder import RunFolder
from longrun.learning.train import checkpoint
from longrun.learning.train.checkpoint import Checkpoint
from longrun.learning.train.job import Job, Seconds, Snapshot, TrainingEvent
from longrun.learning.train.loops import Loop
from longrun.learning.train.progress import (
    Callbacks,
    OnLog,
    OnLogs,
    Progress,
    ProgressBar,
    TensorBoard,
)
from longrun.learning.train.stop_signals import StopRequest, stop_signals

CHECKPOINT_SECONDS = 30.0
"""time between two checkpoints"""


def create_folder(path: Path, loop: Loop, job: Job, steps: int, **settings: Any) -> RunFolder:
    """A new run folder, whose config.json holds everything that defines the run."""
    description = describe_run(
        loop.name,
        job.configs,
        job.seeds,
        steps,
        begins=job.begins_steps,
        **settings,
        num_workers=job.num_workers,
        eval_every=job.eval_every * job.configs[0].steps_per_iteration,
        eval_steps=job.eval_steps,
        step_timeout=job.step_timeout,
        env_source=loop.source,
    )
    return RunFolder.create(path, description)


class Session:
    """Trains a job, writes every iteration to the run folder, and saves checkpoints."""

    def __init__(
        self,
        loop: Loop,
        job: Job,
        starts: Sequence[Snapshot],
        folder: RunFolder | None = None,
        on_log: OnLogs | None = None,
        preset: str = DEFAULT,
    ) -> None:
        self.loop = loop
        self.job = job
        length = job.iterations - job.begins
        self.snapshots = [
            start._replace(state=start_trace(config, start.state, length))
            for config, start in zip(job.configs, starts, strict=True)
        ]
        self.seconds = Seconds()
        self.digest: str | None = None
        """content hash of the checkpoint that was saved last"""
        self._displays: list[OnLog] = []
        self._stop = StopRequest()
        self._folder = folder
        self._preset = preset if folder is None else folder.read_config()["preset"]
        self._callbacks = Callbacks(on_log)
        self._saved_at = time.monotonic()
        self._rate = Rate(len(job.seeds))
        self._steps_per_iteration = job.configs[0].steps_per_iteration

    def run(
        self,
        progress_bar: bool | None = None,
        tensorboard: bool = False,
        end_at_once: Callable[[], None] | None = None,
    ) -> Self:
        """Train until the job is done or stopped; everything is saved in any case.

        Ctrl-C and SIGTERM stop it after the iteration, with KeyboardInterrupt or SystemExit; a
        second signal calls `end_at_once`.
        """
        done = sum(self.steps())
        title = f"{algorithm_name(self.job.configs[0]).upper()} on {self.loop.name}"
        total = self.job.iterations * len(self.job.seeds) * self._steps_per_iteration
        with (
            nullcontext() if self._folder is None else closing(self._folder),
            closing(self._callbacks),
            ProgressBar(title, len(self.job.seeds), done, total, progress_bar) as bar,
            TensorBoard(self._folder.path if self._folder and tensorboard else None) as board,
            stop_signals(end_at_once) as self._stop,
        ):
            self._displays = [bar.show, board.write]
            self.save()  # so that a run can be resumed from the start
            try:
                self.seconds = self.loop.train(self.job, self.snapshots, self._on_events)
            finally:
                # It refers to an agent that refers to this session: without the cycle, the
                # environments of an agent that nobody uses any more end at once.
                self._callbacks = Callbacks(None)
                self.save()
            self._stop.obey()
            if self._folder is not None:
                self._folder.write_summary(self._summary(self._folder))
        return self

    def _on_events(
        self, events: Sequence[TrainingEvent], snapshots: Mapping[int, Snapshot]
    ) -> bool:
        """Handle the events of a loop; False if `on_log` or a signal asks to stop."""
        self._rate.count({e.replica: e.iteration * self._steps_per_iteration for e in events})
        logged = [self._progress(event) for event in events]
        self._write(logged)
        # After the rows: an interrupt in between must not lose one. A row too many is dropped when
        # the run is resumed.
        for replica, snapshot in snapshots.items():
            self.snapshots[replica] = snapshot
        for progress in logged:
            for display in self._displays:
                display(progress)
        if time.monotonic() - self._saved_at > CHECKPOINT_SECONDS:
            self.save()
        answers = [self._callbacks(progress) for progress in logged]  # each gets all of them
        return all(answers) and not self._stop

    def _progress(self, event: TrainingEvent) -> Progress:
        return Progress(
            replica=event.replica,
            seed=self.job.seeds[event.replica],
            step=event.iteration * self._steps_per_iteration,
            total_steps=self.job.iterations * self._steps_per_iteration,
            steps_per_second=self._rate.per_second(),
            metrics=event.metrics,
            evaluation=event.evaluation,
        )

    def save(self) -> None:
        """Write a checkpoint of the last iteration that each replica finished."""
        if self._folder is not None:
            if not (self._folder.path / "config.json").exists():
                raise FolderError(f"'{self._folder.path}' was removed while it was trained")
            self.digest = checkpoint.save(self._folder.checkpoint, self.checkpoint())
        self._saved_at = time.monotonic()

    @property
    def log_dir(self) -> Path | None:
        """The run folder."""
        return None if self._folder is None else self._folder.path

    def add_callbacks(self, on_log: OnLogs) -> None:
        """Callbacks that could not be made before the session."""
        self._callbacks = Callbacks(on_log)

    def checkpoint(self) -> Checkpoint:
        """The last iteration that each replica finished."""
        return Checkpoint(
            self.loop.name,
            self.loop.spaces,
            list(self.job.configs),
            list(self.job.seeds),
            list(self.snapshots),
            interface=interface_of(self.loop),
            preset=self._preset,
        )

    def steps(self) -> list[int]:
        """Steps that each replica has done."""
        return [int(s.state.iteration) * self._steps_per_iteration for s in self.snapshots]

    def _summary(self, folder: RunFolder) -> dict[str, Any]:
        """The content of summary.json."""
        job, names = self.job, differing(self.job.configs)
        last = folder.last_evaluations(len(job.configs))
        final = [
            {"seed": seed}
            | {name: getattr(job.configs[i], name) for name in names}
            | last.get(i, {"average_reward": None, "episode_return": None})
            for i, seed in enumerate(job.seeds)
        ]
        return {
            "algorithm": algorithm_name(job.configs[0]),
            "env": self.loop.name,
            "steps": min(self.steps()),
            "replicas": len(job.seeds),
            "steps_per_second": round(self._rate.per_second(), 1),
            "collect_s": round(self.seconds.collect, 3),
            "update_s": round(self.seconds.update, 3),
            "evaluate_s": round(self.seconds.evaluate, 3),
            "final": final,
        }

    def _write(self, logged: Sequence[Progress]) -> None:
        """Append the rows of metrics and evaluations to the run folder."""
        if self._folder is None:
            return
        where = [{"replica": p.replica, "seed": p.seed, "step": p.step} for p in logged]
        self._folder.add_metrics(
            w | {"steps_per_second": p.steps_per_second} | p.metrics
            for w, p in zip(where, logged, strict=True)
        )
        self._folder.add_evaluations(
            (w, p.evaluation)
            for w, p in zip(where, logged, strict=True)
            if p.evaluation is not None
        )


class Rate:
    """Steps of all replicas per second, measured once each has finished its first iteration."""

    def __init__(self, replicas: int) -> None:
        self._replicas = replicas
        self._done: dict[int, int] = {}
        self._began = self._latest = time.perf_counter()
        self._before = 0

    def count(self, steps: Mapping[int, int]) -> None:
        """Record the steps that these replicas have done by now."""
        self._latest = time.perf_counter()
        waiting = len(self._done) < self._replicas
        self._done |= steps
        if waiting:
            self._began, self._before = self._latest, sum(self._done.values())

    def per_second(self) -> float:
        """The rate so far; 0 until every replica has finished its first iteration."""
        steps = sum(self._done.values()) - self._before
        return steps / (self._latest - self._began) if steps else 0.0
