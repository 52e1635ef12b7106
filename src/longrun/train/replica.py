"""One replica's training, read from top to bottom like Algorithm 1.

Each replica runs in a thread of its own. Simulation happens in worker processes and the updates in
XLA, both outside Python's lock, so that replicas simulate and learn at the same time without one
line of scheduling.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import numpy as np

from longrun.config import Config
from longrun.envs import seeding
from longrun.envs.spaces import Array, Spaces
from longrun.envs.workers import Pool
from longrun.learn import learner
from longrun.learn.compilation import use_compilation_cache
from longrun.learn.moments import inverse_std
from longrun.learn.types import Metrics, Networks, Rollout, TrainState
from longrun.train.evaluation import EvaluationReport, report
from longrun.train.history import EpisodeHistory, Episodes, no_episodes


class NonFiniteError(RuntimeError):
    """Training went astray: parameters are no longer numbers."""


class Snapshot(NamedTuple):
    """All that a replica needs to go on."""

    state: TrainState
    episodes: Episodes


def fresh_snapshot(config: Config, spaces: Spaces, seed: int) -> Snapshot:
    """Before the first step."""
    use_compilation_cache()
    state = learner.init(config, spaces, jax.random.key(seed))
    return Snapshot(state, no_episodes(config.num_envs, spaces))


@dataclass
class Seconds:
    """Where a replica's time went; collecting overlaps with fitting the value."""

    collect: float = 0.0
    update: float = 0.0
    evaluate: float = 0.0


class Event(NamedTuple):
    """What a replica reports after each iteration."""

    replica: int
    iteration: int
    metrics: dict[str, float]
    evaluation: EvaluationReport | None
    snapshot: Snapshot


@dataclass
class Schedule:
    """When a replica stops and when it is evaluated, in iterations."""

    first: int
    last: int
    eval_every: int
    stopping: threading.Event = field(default_factory=threading.Event)

    def evaluates(self, iteration: int) -> bool:
        """After `iteration` iterations are done?"""
        return self.eval_every > 0 and (iteration % self.eval_every == 0 or iteration == self.last)

    def progress(self, iteration: int) -> float:
        """The part of the run that is over before this iteration, for the learning rate."""
        return (iteration - self.first) / (self.last - self.first)


class Replica:
    """One independent training run: its seed, its numeric options, what it has learnt."""

    def __init__(
        self, index: int, seed: int, config: Config, spaces: Spaces, start: Snapshot
    ) -> None:
        self.index = index
        self.seed = seed
        self.config = config
        self.spaces = spaces
        self.seconds = Seconds()
        self.state = start.state
        self.history = EpisodeHistory(start.episodes)

    def run(
        self,
        pool: Pool,
        schedule: Schedule,
        compute: ThreadPoolExecutor,
        emit: Callable[[Event], None],
    ) -> None:
        """Iterate until the schedule says stop; every iteration ends with an event."""
        self.history.restore(pool, self.index)
        self._publish(pool)
        iteration = int(self.state.iteration)
        collected = self._start_rollout(pool, schedule, iteration)
        while iteration < schedule.last and not schedule.stopping.is_set():
            with _clock(self.seconds, "collect"):
                shuffles = self._shuffles(iteration)
                collected()
            with _clock(self.seconds, "update"):
                progress = schedule.progress(iteration)
                fitting, metrics = self._improve_policy(pool, shuffles, progress, compute)
            iteration += 1
            # Acting needs the policy alone, so the workers go on while the value is being fitted.
            self._publish(pool)
            with _clock(self.seconds, "evaluate"):
                evaluated = self._start_evaluation(pool, schedule, iteration)
            with _clock(self.seconds, "collect"):
                collected = self._start_rollout(pool, schedule, iteration)
            with _clock(self.seconds, "update"):
                metrics |= self._finish_value(fitting)
            with _clock(self.seconds, "evaluate"):
                evaluation = evaluated()
            snapshot = Snapshot(self.state, self.history.snapshot())
            emit(Event(self.index, iteration, _numbers(metrics), evaluation, snapshot))

    def _start_rollout(self, pool: Pool, schedule: Schedule, iteration: int) -> Callable[[], None]:
        if iteration < schedule.last:
            return pool.start("rollout", self.index, iteration)
        return lambda: None

    def _start_evaluation(
        self, pool: Pool, schedule: Schedule, iteration: int
    ) -> Callable[[], EvaluationReport | None]:
        if not schedule.evaluates(iteration):
            return lambda: None
        evaluated = pool.start("evaluate", self.index, iteration)

        def wait_for_report() -> EvaluationReport:
            evaluated()
            facts = (pool.arrays[name][self.index] for name in ("eval_reward", "eval_ended"))
            return report(*facts)

        return wait_for_report

    def _improve_policy(
        self, pool: Pool, shuffles: Networks, progress: float, compute: ThreadPoolExecutor
    ) -> tuple[Future[Any], Metrics]:
        """Lines 5 to 9 of Algorithm 1; line 10 has been started when this returns."""
        rollout = self._rollout(pool)
        batch, state, metrics = _done(learner.prepare(self.config, self.state, rollout))
        self._require_finite("criterion", state, metrics)
        fitting = compute.submit(
            _run, learner.fit_value, self.config, state, batch, shuffles.value, progress
        )
        policy, opt_state, policy_metrics = _done(
            learner.improve_policy(
                self.config, self.spaces, state, batch, shuffles.policy, progress
            )
        )
        self._require_finite("policy", state, policy_metrics)
        self.state = state._replace(
            params=state.params._replace(policy=policy),
            opt_state=state.opt_state._replace(policy=opt_state),
        )
        self.history.extend(rollout.action, rollout.terminated | rollout.truncated)
        return fitting, metrics | policy_metrics

    def _finish_value(self, fitting: Future[Any]) -> Metrics:
        """Line 10 of Algorithm 1, which ran in another thread."""
        value, opt_state, metrics = fitting.result()
        self._require_finite("value", self.state, metrics)
        self.state = self.state._replace(
            params=self.state.params._replace(value=value),
            opt_state=self.state.opt_state._replace(value=opt_state),
        )
        return dict(metrics)

    def _rollout(self, pool: Pool) -> Rollout:
        """Views of the shared arrays; the update has read them before the workers write again."""
        facts = {n: pool.arrays[n][self.index] for n in Rollout._fields if n in pool.arrays}
        obs = facts.pop("obs")
        return Rollout(obs=obs[:-1], resume_obs=obs[-1], **facts)

    def _shuffles(self, iteration: int) -> Networks:
        """[epochs, T * N] orders for each network. NumPy: XLA's sort on a CPU takes 10x as long."""
        size = self.config.steps_per_iteration
        orders = (
            np.stack([rng.permutation(size).astype(np.int32) for _ in range(self.config.epochs)])
            for rng in (
                seeding.generator(self.seed, seeding.SHUFFLE, network, iteration)
                for network in (0, 1)
            )
        )
        return Networks(*orders)

    def _publish(self, pool: Pool) -> None:
        pool.arrays["weights"][self.index] = flat_weights(self.state)

    def _require_finite(self, what: str, state: TrainState, metrics: Metrics) -> None:
        if not metrics.pop(f"{what}_finite"):
            who, when = f"replica {self.index} (seed {self.seed})", int(state.iteration)
            raise NonFiniteError(
                f"the {what} of {who} became non-finite in iteration {when}"
                f"{_trace(_numbers(metrics))}; try a lower learning_rate or scale_rewards=True"
            )


def flat_weights(state: TrainState) -> Array:
    """What acting needs, in the order of `longrun.envs.acting.weight_shapes`."""
    policy, moments = state.params.policy, state.obs_moments
    layers = [x for layer in policy.layers for x in layer]
    parts = (moments.mean, inverse_std(moments), policy.log_std, *layers)
    return np.concatenate([np.asarray(part).reshape(-1) for part in parts])


def _trace(metrics: dict[str, float]) -> str:
    """The metrics that went astray with it."""
    odd = [f"{name} {value}" for name, value in metrics.items() if not np.isfinite(value)]
    return f" ({', '.join(odd)})" if odd else ""


def _numbers(metrics: dict[str, jax.Array]) -> dict[str, float]:
    return {name: float(value) for name, value in jax.device_get(metrics).items()}


def _done(result: Any) -> Any:
    return jax.block_until_ready(result)


def _run(program: Callable[..., Any], *arguments: Any) -> Any:
    return _done(program(*arguments))


class _clock:
    """Adds the time spent in a with-block to one field of `Seconds`."""

    def __init__(self, seconds: Seconds, name: str) -> None:
        self._seconds, self._name = seconds, name

    def __enter__(self) -> None:
        self._begin = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        spent = time.perf_counter() - self._begin
        setattr(self._seconds, self._name, getattr(self._seconds, self._name) + spent)
