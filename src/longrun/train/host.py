"""The host loop: replicas in threads, environments in worker processes, one ear for all news."""

from __future__ import annotations

import os
import queue
import threading
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import jax
import numpy as np

from longrun.config import Average, Config
from longrun.envs.make import EnvLike, env_factory
from longrun.envs.shard import Plan
from longrun.envs.spaces import Spaces
from longrun.envs.workers import Pool, open_pool
from longrun.learn import learner
from longrun.learn.types import Networks, Rollout, TrainState
from longrun.train.evaluation import evaluation_shape
from longrun.train.replica import Event, Replica, Schedule, Seconds, Snapshot


@dataclass(frozen=True)
class Job:
    """A run: replicas that differ in seed and numeric options only."""

    env: EnvLike
    configs: Sequence[Config]
    """one for each replica"""
    seeds: Sequence[int]
    """one for each replica"""
    begins: int
    """iterations that every replica had behind it when the run began"""
    iterations: int
    """where every replica ends, counted from its very beginning"""
    num_workers: int
    eval_every: int = 0
    """iterations between evaluations; 0 for none"""
    eval_steps: int = 10_000
    """steps of an evaluation, shared by up to 10 environments"""


def available_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def train(
    job: Job,
    spaces: Spaces,
    starts: Sequence[Snapshot],
    listen: Callable[[Event], bool],
) -> list[Seconds]:
    """Train all replicas; `listen` hears of every iteration and may return False to stop the run.

    Whatever happens (an error, Ctrl-C), the worker processes are gone when this returns.
    """
    config = job.configs[0]
    eval_envs, eval_steps = evaluation_shape(job.eval_steps) if job.eval_every else (0, 0)
    plan = Plan(
        factory=env_factory(job.env),
        spaces=spaces,
        hidden_sizes=config.hidden_sizes,
        normalize_observations=config.normalize_observations,
        seeds=tuple(job.seeds),
        num_envs=config.num_envs,
        rollout_steps=config.rollout_steps,
        eval_envs=eval_envs,
        eval_steps=eval_steps,
    )
    pool = open_pool(plan, min(job.num_workers, len(job.seeds) * config.num_envs))
    try:
        replicas = [
            Replica(index, seed, config, spaces, start)
            for index, (seed, config, start) in enumerate(
                zip(job.seeds, job.configs, starts, strict=True)
            )
        ]
        warm_up(config, spaces, replicas[0].state)  # compile while the workers start
        return _run_all(job, replicas, pool, listen)
    finally:
        pool.close()


def _run_all(
    job: Job, replicas: list[Replica], pool: Pool, listen: Callable[[Event], bool]
) -> list[Seconds]:
    news: queue.Queue[Event | BaseException | None] = queue.Queue()
    stopping = threading.Event()
    constant = ConstantRewardWatch(job.configs)
    with ThreadPoolExecutor(available_cores()) as compute:

        def run(replica: Replica) -> None:
            schedule = Schedule(job.begins, job.iterations, job.eval_every, stopping)
            try:
                replica.run(pool, schedule, compute, news.put)
                news.put(None)
            except BaseException as error:
                news.put(error)

        threads = [threading.Thread(target=run, args=(r,), daemon=True) for r in replicas]
        for thread in threads:
            thread.start()
        try:
            running = len(threads)
            while running:
                event = news.get()
                if event is None:
                    running -= 1
                elif isinstance(event, BaseException):
                    raise event
                else:
                    constant.look(event)
                    if not listen(event):
                        break
        finally:
            stopping.set()
            pool.close()  # what still waits for a worker fails now, and its thread ends
            for thread in threads:
                thread.join()
    return [replica.seconds for replica in replicas]


class ConstantRewardWatch:
    """Warns once where the average criterion cannot tell policies apart."""

    def __init__(self, configs: Sequence[Config]) -> None:
        self._rewards: set[float] = set()
        self._watching = any(
            isinstance(config, Average) and not (config.reset_cost or config.reset_cost_step_size)
            for config in configs
        )

    def look(self, event: Event) -> None:
        if not self._watching:
            return
        low, high = event.metrics["reward_min"], event.metrics["reward_max"]
        self._rewards |= {low, high}
        self._watching = len(self._rewards) == 1
        if self._watching and event.metrics["terminations"]:
            self._watching = False
            warnings.warn(
                f"every reward so far was {low:g}: all policies have the same reward rate, so the"
                " average criterion cannot rank them unless resets cost something; set"
                " termination='reset' and reset_cost (or reset_cost_step_size)",
                UserWarning,
                stacklevel=2,
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
    jax.block_until_ready(learner.update(config, spaces, state, facts, Networks(order, order), 0.0))
