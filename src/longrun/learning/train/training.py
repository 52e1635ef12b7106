"""The front door of training: agents, the command line and sweeps all train by a `Training`.

A run is described by its `RunSpec`. What happens in it is one stream of events, which go to sinks:
the run folder, the progress bar, trackers, warnings and the user's callbacks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Self

from longrun.base.errors import FolderError
from longrun.learning.envs.spaces import interface_of
from longrun.learning.learn.trace import start_trace
from longrun.learning.options.config_options import differing
from longrun.learning.runs.run_folder import RunFolder
from longrun.learning.train import checkpoint
from longrun.learning.train.checkpoint import Checkpoint
from longrun.learning.train.events import Latest, Seconds, Snapshot, TrainingEvent
from longrun.learning.train.failing_training import FailureWatch
from longrun.learning.train.open_run import OpenRun
from longrun.learning.train.progress import Callbacks, OnLogs, Progress, ProgressBar
from longrun.learning.train.stop_signals import StopRequest, stop_signals

CHECKPOINT_SECONDS = 30.0
"""time between two checkpoints"""

Sink = Callable[[Sequence[Progress]], bool | None]
"""Takes in events of a run; False stops it."""


class Training:
    """Trains a run, passes on what happens, and saves checkpoints."""

    def __init__(
        self, run: OpenRun, on_log: OnLogs | None = None, keep_environments: bool = False
    ) -> None:
        """Open the folder. `keep_environments`: they stay alive for the next training."""
        self.spec, self.loop, self.digest = run.spec, run.loop, run.digest
        self._callbacks = Callbacks(on_log, self.spec.evaluation_interval > 0)
        self._folder = run.open_folder()
        self._keep_environments = keep_environments
        length = self.spec.iterations - self.spec.first_iteration
        self._snapshots = [
            start._replace(state=start_trace(config, start.state, length))
            for config, start in zip(self.spec.configs, run.snapshots, strict=True)
        ]
        self._latest: dict[int, Latest] = {}
        """snapshots that nobody has asked for yet"""
        self._seconds = Seconds()
        self._sinks: list[Sink] = []
        self._stop = StopRequest()
        self._saved_at = time.monotonic()
        self._rate = Rate(len(self.spec.seeds))

    def run(
        self,
        progress_bar: bool | None = None,
        end_at_once: Callable[[], None] | None = None,
    ) -> Self:
        """Train until the run is done or stopped; everything is saved in any case.

        Ctrl-C and SIGTERM stop it after the iteration, with KeyboardInterrupt or SystemExit; a
        second signal calls `end_at_once`.
        """
        with ExitStack() as stack:
            self._sinks = [FailureWatch(self.spec, self.loop.spaces)]
            if self._folder is not None:
                stack.enter_context(closing(self._folder))
            callbacks = stack.enter_context(closing(self._callbacks))
            title = f"{self.spec.algorithm.upper()} on {self.loop.name}"
            total = self.spec.iterations * self.spec.per_iteration
            bar = ProgressBar(title, self.steps(), total, progress_bar)
            self._sinks += [stack.enter_context(bar), self._save_if_due, callbacks]
            self._stop = stack.enter_context(stop_signals(end_at_once))
            self.save()  # so that a run can be resumed from the start
            try:
                self._seconds = self.loop.train(
                    self.spec, self.snapshots, self._on_events, self._keep_environments
                )
            finally:
                # Callbacks may refer to an agent that refers to this: without the cycle, the
                # environments of an agent that nobody uses any more end at once.
                self._sinks = []
                self.save()
            self._stop.obey()
            if self._folder is not None:
                self._folder.write_summary(self._summary(self._folder))
        return self

    def _on_events(
        self,
        events: Sequence[TrainingEvent],
        snapshots: Mapping[int, Latest],
    ) -> bool:
        """Pass events on to all sinks; False if one of them or a signal asks to stop."""
        each = self.spec.per_iteration
        self._rate.count({event.replica: event.iteration * each for event in events})
        progress = [self._progress(event) for event in events]
        if self._folder is not None:
            _write(self._folder, progress)
        # After the rows: an interrupt in between must not lose one. A row too many is dropped when
        # the run is resumed.
        self._latest |= snapshots
        answers = [sink(progress) for sink in self._sinks]
        return False not in answers and not self._stop

    def _progress(self, event: TrainingEvent) -> Progress:
        return Progress(
            replica=event.replica,
            seed=self.spec.seeds[event.replica],
            iteration=event.iteration,
            step=event.iteration * self.spec.per_iteration,
            total_steps=self.spec.iterations * self.spec.per_iteration,
            steps_per_second=self._rate.per_second(),
            metrics=event.metrics,
            evaluation=event.evaluation,
            run=self,
        )

    @property
    def snapshots(self) -> list[Snapshot]:
        """Where each replica is; on a device this copies its state to the host."""
        self._resolve()
        return self._snapshots

    def _resolve(self) -> None:
        while self._latest:
            replica, latest = self._latest.popitem()
            self._snapshots[replica] = latest()

    def _save_if_due(self, events: Sequence[Progress]) -> None:
        if time.monotonic() - self._saved_at > CHECKPOINT_SECONDS:
            self.save()

    def save(self) -> None:
        """Write a checkpoint of the last iteration that each replica finished."""
        self._resolve()
        if self._folder is not None:
            if not (self._folder.path / "config.json").exists():
                raise FolderError(f"'{self._folder.path}' was removed while it was trained")
            self.digest = checkpoint.save(self._folder.checkpoint, self.checkpoint())
        self._saved_at = time.monotonic()

    @property
    def log_dir(self) -> Path | None:
        """The run folder; None without one."""
        return None if self._folder is None else self._folder.path

    def checkpoint(self) -> Checkpoint:
        """The last iteration that each replica finished."""
        interface = interface_of(self.loop)
        return Checkpoint(self.spec, self.loop.spaces, list(self.snapshots), interface)

    def steps(self) -> list[int]:
        """Steps that each replica has done."""
        return [int(s.state.iteration) * self.spec.per_iteration for s in self.snapshots]

    def _summary(self, folder: RunFolder) -> dict[str, Any]:
        """The content of summary.json."""
        spec, names = self.spec, differing(self.spec.configs)
        last = folder.last_evaluations(len(spec.seeds))
        final = [
            {"seed": seed}
            | {name: getattr(spec.configs[i], name) for name in names}
            | last.get(i, {"average_reward": None, "episode_return": None})
            for i, seed in enumerate(spec.seeds)
        ]
        return {
            "algorithm": spec.algorithm,
            "env": self.loop.name,
            "steps": min(self.steps()),
            "replicas": len(spec.seeds),
            "steps_per_second": round(self._rate.per_second(), 1),
            "collect_s": round(self._seconds.collect, 3),
            "update_s": round(self._seconds.update, 3),
            "evaluate_s": round(self._seconds.evaluate, 3),
            "final": final,
        }


def _write(folder: RunFolder, events: Sequence[Progress]) -> None:
    """Append the rows of metrics and evaluations to the run folder."""
    places = [{"replica": p.replica, "seed": p.seed, "step": p.step} for p in events]
    rows = list(zip(places, events, strict=True))
    folder.add_metrics(w | {"steps_per_second": p.steps_per_second} | p.metrics for w, p in rows)
    folder.add_evaluations((w, p.evaluation) for w, p in rows if p.evaluation is not None)


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
