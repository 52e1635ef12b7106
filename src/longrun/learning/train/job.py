"""The data that both training loops, host and device, are given and report."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import jax

from longrun.base.checks import MOST_STEPS, whole_number
from longrun.base.errors import InputError
from longrun.base.memory import require_memory
from longrun.learning.envs.flat_spaces import require_bounds
from longrun.learning.envs.spaces import Array, Spaces
from longrun.learning.envs.watchdog import STEP_TIMEOUT, checked_timeout
from longrun.learning.learn import learner
from longrun.learning.learn.compilation import use_compilation_cache
from longrun.learning.learn.types import TrainState
from longrun.learning.options.acting import MLP
from longrun.learning.options.config import Config
from longrun.learning.runs.evaluation_report import EvaluationReport


@dataclass(frozen=True)
class Job:
    """The training of one run: replicas that differ in seed and numeric options only."""

    configs: Sequence[Config]
    """one for each replica"""
    seeds: Sequence[int]
    """one for each replica"""
    begins: int
    """iterations that every replica had done when the run started"""
    iterations: int
    """iterations that every replica has done when the run ends, `begins` included"""
    num_workers: int
    eval_every: int = 0
    """iterations between evaluations; 0 for none"""
    eval_steps: int = 10_000
    """steps of an evaluation, shared by up to 10 environments"""
    step_timeout: float = STEP_TIMEOUT
    """seconds that a worker's request may go without an environment step; 0 for no limit"""
    keep_environments: bool = False
    """whether Gymnasium environments stay alive for the next job of the same loop"""

    @property
    def begins_steps(self) -> int:
        """`begins` in environment steps."""
        return self.begins * self.configs[0].steps_per_iteration

    def evaluates(self, iteration: int) -> bool:
        """Whether an evaluation follows once `iteration` iterations are done."""
        return self.eval_every > 0 and (
            iteration % self.eval_every == 0 or iteration == self.iterations
        )

    def progress(self, iteration: int) -> float:
        """The fraction of the run that is done before this iteration, for the learning rate."""
        return (iteration - self.begins) / (self.iterations - self.begins)


class Snapshot(NamedTuple):
    """All that is needed to resume a replica."""

    state: TrainState
    environments: Mapping[str, Array]
    """named arrays that restore the environments; on a device empty before the first step"""


class TrainingEvent(NamedTuple):
    """What a replica reports after an iteration."""

    replica: int
    iteration: int
    metrics: dict[str, float]
    evaluation: EvaluationReport | None


OnEvents = Callable[[Sequence[TrainingEvent], Mapping[int, Snapshot]], bool]
"""Called with events in order and the replicas' snapshots after them; False stops the run. While
there is none for long, a loop may call it without events, to hear whether to stop."""


@dataclass
class Seconds:
    """Time spent in each part of a run, mean over replicas; collecting overlaps value fitting.

    On a device everything is one program, whose time is `update`.
    """

    collect: float = 0.0
    update: float = 0.0
    evaluate: float = 0.0


MOST_ITERATIONS = 2**31 - 1
"""Most iterations of a run: they are counted in 32 bits."""


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def make_job(
    configs: Sequence[Config],
    seeds: Sequence[int],
    steps: int,
    *,
    done: int = 0,
    num_workers: int | None = None,
    eval_every: int | None = None,
    eval_steps: int = 10_000,
    step_timeout: float = STEP_TIMEOUT,
    keep_environments: bool = False,
) -> Job:
    """A job of `steps` steps after `done` iterations, with steps rounded up to iterations.

    `eval_every` is in steps; None stands for up to 20 evaluations, 0 for none.
    """
    steps = whole_number("steps", steps, 1, MOST_STEPS)
    eval_steps = whole_number("eval_steps", eval_steps, 1)
    eval_every = None if eval_every is None else whole_number("eval_every", eval_every)
    num_workers = None if num_workers is None else whole_number("num_workers", num_workers)
    per_iteration = configs[0].steps_per_iteration
    iterations = -(-steps // per_iteration)
    if done + iterations > MOST_ITERATIONS:
        raise InputError(
            f"steps={steps} are {iterations:,} iterations of {per_iteration} steps; give at most"
            f" {(MOST_ITERATIONS - done) * per_iteration} steps, or more in an iteration"
        )
    rare = max(-(-iterations // 20), 3 * eval_steps // per_iteration)  # 1/4 of all steps at most
    every = rare if eval_every is None else -(-eval_every // per_iteration)
    workers = available_cores() if num_workers is None else num_workers
    timeout = checked_timeout(step_timeout)
    end = done + iterations
    return Job(configs, seeds, done, end, workers, every, eval_steps, timeout, keep_environments)


def _require_room(config: Config, spaces: Spaces) -> None:
    """Raise InputError if a network, with the two moments of Adam, is larger than the memory."""
    value = "value_hidden_sizes" if config.value_hidden_sizes else "hidden_sizes"
    for name, outputs, network in (
        ("hidden_sizes", spaces.policy_outputs, config.policy_network),
        (value, 1, config.value_network),
    ):
        if network != MLP:
            continue
        hidden = getattr(config, name)
        sizes = [spaces.feature_size, *hidden, outputs]
        weights = sum(m * n for m, n in pairwise(sizes))
        require_memory(3 * 4 * weights, f"{name}={hidden}: weights and optimiser")


def fresh_state(config: Config, spaces: Spaces, seed: int) -> TrainState:
    """The learner's state before the first iteration."""
    require_bounds(config.bounded_mean, spaces)
    _require_room(config, spaces)
    use_compilation_cache()
    state: TrainState = learner.init(config, spaces, jax.random.key(seed))
    return state
