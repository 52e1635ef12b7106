"""A training session: the host loop with its run folder, checkpoints and listeners."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, Self

import numpy as np

from longrun.config import Config, algorithm_name, differing, whole_number
from longrun.envs.make import EnvLike, env_name
from longrun.envs.spaces import Spaces
from longrun.train import checkpoint
from longrun.train.checkpoint import Checkpoint
from longrun.train.host import Job, available_cores, train
from longrun.train.replica import Event, Seconds, Snapshot
from longrun.train.run_folder import RunFolder
from longrun.train.watchers import OnLog, Progress, ProgressBar, TensorBoard

CHECKPOINT_SECONDS = 30.0


def make_job(
    env: EnvLike,
    configs: Sequence[Config],
    seeds: Sequence[int],
    steps: int,
    *,
    done: int = 0,
    num_workers: int | None = None,
    eval_every: int | None = None,
    eval_steps: int = 10_000,
) -> Job:
    """A job in iterations from one in steps, both rounded up; `done` iterations come before it.

    `eval_every` None stands for up to 20 evaluations, 0 for none.
    """
    steps = whole_number("steps", steps, 1)
    eval_steps = whole_number("eval_steps", eval_steps, 1)
    eval_every = None if eval_every is None else whole_number("eval_every", eval_every)
    num_workers = None if num_workers is None else whole_number("num_workers", num_workers)
    per_iteration = configs[0].steps_per_iteration
    iterations = -(-steps // per_iteration)
    rare = max(-(-iterations // 20), 3 * eval_steps // per_iteration)  # 1/4 of all steps at most
    every = rare if eval_every is None else -(-eval_every // per_iteration)
    workers = available_cores() if num_workers is None else num_workers
    return Job(env, configs, seeds, done, done + iterations, workers, every, eval_steps)


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
        self.seconds: list[Seconds] = []
        self._watchers: list[OnLog] = []
        self._folder = folder
        self._on_log = on_log
        self._saved_at = time.monotonic()
        self._rate = Rate(len(job.seeds))
        self._steps_per_iteration = job.configs[0].steps_per_iteration

    def run(self, progress_bar: bool | None = None, tensorboard: bool = False) -> Self:
        """Train until the job is done or stopped; on the way out everything is saved."""
        done = sum(int(s.state.iteration) for s in self.snapshots)
        title = f"{algorithm_name(self.job.configs[0]).upper()} on {env_name(self.job.env)}"
        total = self.job.iterations * len(self.job.seeds)
        with (
            nullcontext() if self._folder is None else self._folder.locked(),
            ProgressBar(title, len(self.job.seeds), done, total, progress_bar) as bar,
            TensorBoard(self._folder.path if self._folder and tensorboard else None) as board,
        ):
            self._watchers = [bar.show, board.write]
            self.save()  # from the first moment on there is something to resume
            try:
                self.seconds = train(self.job, self.spaces, self.snapshots, self._hear)
            finally:
                self.save()
        if self._folder is not None:
            self._folder.write_summary(self._summary(self._folder))
        return self

    def _hear(self, event: Event) -> bool:
        self._rate.count(event.replica, self._steps_per_iteration)
        progress = Progress(
            replica=event.replica,
            seed=self.job.seeds[event.replica],
            step=event.iteration * self._steps_per_iteration,
            total_steps=self.job.iterations * self._steps_per_iteration,
            steps_per_second=self._rate.per_second(),
            metrics=event.metrics,
            evaluation=event.evaluation,
        )
        self._write(progress)
        # Only now: an interrupt in between must not lose a row, and one too many is forgotten.
        self.snapshots[event.replica] = event.snapshot
        for watch in self._watchers:
            watch(progress)
        if time.monotonic() - self._saved_at > CHECKPOINT_SECONDS:
            self.save()
        answer = None if self._on_log is None else self._on_log(progress)
        return not isinstance(answer, bool | np.bool_) or bool(answer)

    def save(self) -> None:
        """Write the checkpoint, of the last iteration that each replica finished."""
        if self._folder is not None:
            job = self.job
            state = Checkpoint(
                env_name(job.env), self.spaces, list(job.configs), list(job.seeds), self.snapshots
            )
            checkpoint.save(self._folder.checkpoint, state)
        self._saved_at = time.monotonic()

    def _summary(self, folder: RunFolder) -> dict[str, Any]:
        """What the run came to."""
        job, names, last = self.job, differing(self.job.configs), folder.last_evaluations()
        final = [
            {"seed": seed}
            | {name: getattr(job.configs[i], name) for name in names}
            | last.get(i, {"average_reward": None, "episode_return": None})
            for i, seed in enumerate(job.seeds)
        ]
        count = max(len(self.seconds), 1)
        return {
            "algorithm": algorithm_name(job.configs[0]),
            "env": env_name(job.env),
            "steps": min(int(s.state.iteration) for s in self.snapshots)
            * self._steps_per_iteration,
            "replicas": len(job.seeds),
            "steps_per_second": round(self._rate.per_second(), 1),
            "collect_s": round(sum(s.collect for s in self.seconds) / count, 3),
            "update_s": round(sum(s.update for s in self.seconds) / count, 3),
            "evaluate_s": round(sum(s.evaluate for s in self.seconds) / count, 3),
            "final": final,
        }

    def _write(self, progress: Progress) -> None:
        if self._folder is None:
            return
        where = {"replica": progress.replica, "seed": progress.seed, "step": progress.step}
        rate = {"steps_per_second": progress.steps_per_second}
        self._folder.add_metrics(where | rate | progress.metrics)
        if progress.evaluation is not None:
            self._folder.add_evaluation(where, progress.evaluation)


class Rate:
    """Steps of all replicas per second, once each has got through its first iteration."""

    def __init__(self, replicas: int) -> None:
        self._waiting_for = set(range(replicas))
        self._began = time.perf_counter()
        self._latest = self._began
        self._steps = 0

    def count(self, replica: int, steps: int) -> None:
        self._latest = time.perf_counter()
        if self._waiting_for:
            self._waiting_for.discard(replica)
            self._began = self._latest
        else:
            self._steps += steps

    def per_second(self) -> float:
        return self._steps / (self._latest - self._began) if self._steps else 0.0
