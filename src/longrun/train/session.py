"""A training session: one of the two loops with its run folder, checkpoints and listeners."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Self

import numpy as np

from longrun.config import algorithm_name, differing
from longrun.envs.native.protocol import Environment
from longrun.envs.spaces import Spaces
from longrun.train import checkpoint
from longrun.train.checkpoint import Checkpoint
from longrun.train.device import loop as device_loop
from longrun.train.host import loop as host
from longrun.train.job import Event, Job, Seconds, Snapshot, name_of
from longrun.train.progress import OnLog, Progress, ProgressBar, TensorBoard
from longrun.train.run_folder import RunFolder, describe_run

CHECKPOINT_SECONDS = 30.0


def create_folder(path: Path, job: Job, steps: int, **settings: Any) -> RunFolder:
    """A new run folder, with everything in it that makes the run."""
    description = describe_run(
        name_of(job.env),
        job.configs,
        job.seeds,
        steps,
        **settings,
        num_workers=job.num_workers,
        eval_every=job.eval_every * job.configs[0].steps_per_iteration,
        eval_steps=job.eval_steps,
    )
    return RunFolder.create(path, description)


class Session:
    """Hears of every iteration, writes it down, and keeps what would be lost."""

    def __init__(
        self,
        job: Job,
        spaces: Spaces,
        starts: Sequence[Snapshot],
        folder: RunFolder | None = None,
        on_log: OnLog | None = None,
    ) -> None:
        self.job = job
        self.spaces = spaces
        self.snapshots = list(starts)
        self.seconds = Seconds()
        self._watchers: list[OnLog] = []
        self._folder = folder
        self._on_log = on_log
        self._saved_at = time.monotonic()
        self._rate = Rate(len(job.seeds))
        self._steps_per_iteration = job.configs[0].steps_per_iteration

    def run(self, progress_bar: bool | None = None, tensorboard: bool = False) -> Self:
        """Train until the job is done or stopped; on the way out everything is saved."""
        done = sum(int(s.state.iteration) for s in self.snapshots) * self._steps_per_iteration
        title = f"{algorithm_name(self.job.configs[0]).upper()} on {name_of(self.job.env)}"
        total = self.job.iterations * len(self.job.seeds) * self._steps_per_iteration
        with (
            nullcontext() if self._folder is None else self._folder.locked(),
            ProgressBar(title, len(self.job.seeds), done, total, progress_bar) as bar,
            TensorBoard(self._folder.path if self._folder and tensorboard else None) as board,
        ):
            self._watchers = [bar.show, board.write]
            self.save()  # from the first moment on there is something to resume
            try:
                self.seconds = self._train()
            finally:
                self.save()
        if self._folder is not None:
            self._folder.write_summary(self._summary(self._folder))
        return self

    def _train(self) -> Seconds:
        if isinstance(self.job.env, Environment):
            return device_loop.train(self.job, self.job.env, self.snapshots, self._hear)
        return host.train(self.job, self.spaces, self.snapshots, self._hear)

    def _hear(self, events: Sequence[Event], snapshots: Mapping[int, Snapshot]) -> bool:
        self._rate.count({e.replica: e.iteration * self._steps_per_iteration for e in events})
        news = [self._progress(event) for event in events]
        self._write(news)
        # Only now: an interrupt in between must not lose a row, and one too many is forgotten.
        for replica, snapshot in snapshots.items():
            self.snapshots[replica] = snapshot
        for progress in news:
            for watch in self._watchers:
                watch(progress)
        if time.monotonic() - self._saved_at > CHECKPOINT_SECONDS:
            self.save()
        return all(self._goes_on(progress) for progress in news)

    def _goes_on(self, progress: Progress) -> bool:
        answer = None if self._on_log is None else self._on_log(progress)
        return not isinstance(answer, bool | np.bool_) or bool(answer)

    def _progress(self, event: Event) -> Progress:
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
        """Write the checkpoint, of the last iteration that each replica finished."""
        if self._folder is not None:
            job = self.job
            state = Checkpoint(
                name_of(job.env), self.spaces, list(job.configs), list(job.seeds), self.snapshots
            )
            checkpoint.save(self._folder.checkpoint, state)
        self._saved_at = time.monotonic()

    def _summary(self, folder: RunFolder) -> dict[str, Any]:
        """What the run came to."""
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
            "env": name_of(job.env),
            "steps": min(int(s.state.iteration) for s in self.snapshots)
            * self._steps_per_iteration,
            "replicas": len(job.seeds),
            "steps_per_second": round(self._rate.per_second(), 1),
            "collect_s": round(self.seconds.collect, 3),
            "update_s": round(self.seconds.update, 3),
            "evaluate_s": round(self.seconds.evaluate, 3),
            "final": final,
        }

    def _write(self, news: Sequence[Progress]) -> None:
        if self._folder is None:
            return
        where = [{"replica": p.replica, "seed": p.seed, "step": p.step} for p in news]
        self._folder.add_metrics(
            w | {"steps_per_second": p.steps_per_second} | p.metrics
            for w, p in zip(where, news, strict=True)
        )
        self._folder.add_evaluations(
            (w, p.evaluation) for w, p in zip(where, news, strict=True) if p.evaluation is not None
        )


class Rate:
    """Steps of all replicas per second, once each has got through its first iteration."""

    def __init__(self, replicas: int) -> None:
        self._replicas = replicas
        self._done: dict[int, int] = {}
        self._began = self._latest = time.perf_counter()
        self._before = 0

    def count(self, steps: Mapping[int, int]) -> None:
        """These replicas are now at so many steps."""
        self._latest = time.perf_counter()
        waiting = len(self._done) < self._replicas
        self._done |= steps
        if waiting:
            self._began, self._before = self._latest, sum(self._done.values())

    def per_second(self) -> float:
        steps = sum(self._done.values()) - self._before
        return steps / (self._latest - self._began) if steps else 0.0
