"""The host loop: replicas train in threads, and their environments run in worker processes."""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Self

import gymnasium
import jax
import numpy as np

from longrun.config import Config
from longrun.envs.factories import EnvLike, env_factory, env_name
from longrun.envs.shard import Plan
from longrun.envs.spaces import Spaces, describe
from longrun.envs.worker_pool import Pool, open_pool
from longrun.learn import learner
from longrun.learn.types import Networks, Rollout, TrainState
from longrun.train.evaluation import EvaluationReport, evaluation_shape, report
from longrun.train.host.episodes import no_episodes
from longrun.train.host.replica import Replica, flat_weights
from longrun.train.job import (
    Job,
    OnEvents,
    Seconds,
    Snapshot,
    TrainingEvent,
    available_cores,
    fresh_state,
)
from longrun.train.training_checks import ConstantRewardWatch

POLL_SECONDS = 0.2
"""How often a loop without events asks whether to stop."""


@dataclass(frozen=True, eq=False)
class HostLoop:
    """The `Loop` of Gymnasium environments."""

    env: EnvLike
    spaces: Spaces
    observation_space: gymnasium.Space[Any]
    action_space: gymnasium.Space[Any]

    @classmethod
    def open(cls, env: EnvLike, made: gymnasium.Env[Any, Any]) -> Self:
        """`made` is one environment that `env` makes; only its spaces are read."""
        return cls(env, describe(made), made.observation_space, made.action_space)

    @property
    def name(self) -> str:
        return env_name(self.env)

    @property
    def is_named(self) -> bool:
        return isinstance(self.env, str)

    def fresh_snapshot(self, config: Config, seed: int) -> Snapshot:
        state = fresh_state(config, self.spaces, seed)
        return Snapshot(state, no_episodes(config.num_envs, self.spaces)._asdict())

    def train(self, job: Job, starts: Sequence[Snapshot], on_events: OnEvents) -> Seconds:
        """Train all replicas; whatever happens (an error, Ctrl-C), the worker processes end."""
        config = job.configs[0]
        eval_envs, eval_steps = evaluation_shape(job.eval_steps) if job.eval_every else (0, 0)
        plan = self._plan(
            config,
            seeds=tuple(job.seeds),
            num_envs=config.num_envs,
            rollout_steps=config.rollout_steps,
            eval_envs=eval_envs,
            eval_steps=eval_steps,
        )
        num_workers = min(job.num_workers, len(job.seeds) * config.num_envs)
        pool = open_pool(plan, num_workers, job.step_timeout)
        try:
            replicas = [
                Replica(index, seed, config, self.spaces, start)
                for index, (seed, config, start) in enumerate(
                    zip(job.seeds, job.configs, starts, strict=True)
                )
            ]
            warm_up(config, self.spaces, replicas[0].state)  # compile while the workers start
            return _run_all(job, replicas, pool, on_events)
        finally:
            pool.close()

    def measure(self, config: Config, state: TrainState, seed: int, steps: int) -> EvaluationReport:
        """Evaluate the deterministic policy, simulated in this process."""
        envs, steps_each = evaluation_shape(steps)
        plan = self._plan(
            config,
            seeds=(seed,),
            num_envs=0,
            rollout_steps=0,
            eval_envs=envs,
            eval_steps=steps_each,
        )
        pool = open_pool(plan, num_workers=0)
        try:
            pool.arrays["weights"][0] = flat_weights(state)
            pool.start("evaluate", 0, int(state.iteration))()
            return report(pool.arrays["eval_reward"][0], pool.arrays["eval_ended"][0])
        finally:
            pool.close()

    def _plan(self, config: Config, **shape: Any) -> Plan:
        """What workers need to know of the configuration, and the sizes of all arrays."""
        return Plan(
            factory=env_factory(self.env),
            spaces=self.spaces,
            hidden_sizes=config.hidden_sizes,
            normalize_observations=config.normalize_observations,
            action_bounds=config.action_bounds,
            bounded_mean=config.bounded_mean,
            **shape,
        )


def _run_all(job: Job, replicas: list[Replica], pool: Pool, on_events: OnEvents) -> Seconds:
    """Run each replica in a thread; this thread handles their events until all are done."""
    # An event with its snapshot, the error that ended a replica, or None for one that is done.
    queued: queue.Queue[tuple[TrainingEvent, Snapshot] | BaseException | None] = queue.Queue()
    stopping = threading.Event()
    constant = ConstantRewardWatch(job.configs)
    with ThreadPoolExecutor(available_cores()) as compute:

        def run(replica: Replica) -> None:
            try:
                replica.run(pool, job, stopping, compute, lambda *item: queued.put(item))
                queued.put(None)
            except BaseException as error:
                queued.put(error)

        threads = [threading.Thread(target=run, args=(r,), daemon=True) for r in replicas]
        for thread in threads:
            thread.start()
        try:
            running = len(threads)
            while running:
                try:
                    item = queued.get(timeout=POLL_SECONDS)
                except queue.Empty:
                    pool.look()
                    if not on_events([], {}):
                        break
                    continue
                if item is None:
                    running -= 1
                elif isinstance(item, BaseException):
                    raise item
                else:
                    event, snapshot = item
                    constant.check(event.metrics)
                    if not on_events([event], {event.replica: snapshot}):
                        break
        finally:
            stopping.set()
            pool.close()  # calls that still wait for a worker fail now, and their threads end
            for thread in threads:
                thread.join()
    return _mean([replica.seconds for replica in replicas])


def _mean(seconds: Sequence[Seconds]) -> Seconds:
    return Seconds(
        collect=sum(s.collect for s in seconds) / len(seconds),
        update=sum(s.update for s in seconds) / len(seconds),
        evaluate=sum(s.evaluate for s in seconds) / len(seconds),
    )


def warm_up(config: Config, spaces: Spaces, state: TrainState) -> None:
    """Compile the update by running it on zeros."""
    t, n, d = config.rollout_steps, config.num_envs, spaces.observation_size
    facts = Rollout(
        obs=np.zeros((t, n, d), np.float32),
        action=np.zeros((t, n, spaces.action_size), spaces.action_dtype),
        reward=np.zeros((t, n), np.float32),
        next_obs=np.zeros((t, n, d), np.float32),
        terminated=np.zeros((t, n), bool),
        truncated=np.zeros((t, n), bool),
        resume_obs=np.zeros((n, d), np.float32),
    )
    order = np.tile(np.arange(t * n, dtype=np.int32), (config.epochs, 1))
    if learner.is_one_program(config):
        jax.block_until_ready(
            learner.update(config, spaces, state, facts, Networks(order, order), 0.0)
        )
        return
    batch, state, _ = learner.prepare(config, spaces, state, facts)
    jax.block_until_ready(
        (
            learner.improve_policy(config, spaces, state, batch, order, 0.0),
            learner.fit_value(config, state, batch, order, 0.0),
        )
    )
