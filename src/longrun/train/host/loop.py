"""The host loop: replicas in threads, environments in worker processes, one ear for all news."""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import numpy as np

from longrun.config import Config
from longrun.envs.factories import EnvLike, env_factory
from longrun.envs.native.protocol import Environment
from longrun.envs.shard import Plan
from longrun.envs.spaces import Spaces
from longrun.envs.worker_pool import Pool, open_pool
from longrun.learn import learner
from longrun.learn.types import Networks, Rollout, TrainState
from longrun.train.evaluation import EvaluationReport, evaluation_shape, report
from longrun.train.host.replica import Replica, flat_weights
from longrun.train.job import Event, Job, Listen, Seconds, Snapshot, available_cores
from longrun.train.training_checks import ConstantRewardWatch


def train(
    job: Job,
    spaces: Spaces,
    starts: Sequence[Snapshot],
    listen: Listen,
) -> Seconds:
    """Train all replicas; `listen` hears of every iteration and may return False to stop the run.

    Whatever happens (an error, Ctrl-C), the worker processes are gone when this returns.
    """
    config = job.configs[0]
    assert not isinstance(job.env, Environment)
    eval_envs, eval_steps = evaluation_shape(job.eval_steps) if job.eval_every else (0, 0)
    plan = _plan(
        job.env,
        config,
        spaces,
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


def _plan(env: EnvLike, config: Config, spaces: Spaces, **shape: Any) -> Plan:
    """What workers need of a configuration, and how many of everything."""
    return Plan(
        factory=env_factory(env),
        spaces=spaces,
        hidden_sizes=config.hidden_sizes,
        normalize_observations=config.normalize_observations,
        action_bounds=config.action_bounds,
        bounded_mean=config.bounded_mean,
        **shape,
    )


def _run_all(job: Job, replicas: list[Replica], pool: Pool, listen: Listen) -> Seconds:
    news: queue.Queue[tuple[Event, Snapshot] | BaseException | None] = queue.Queue()
    stopping = threading.Event()
    constant = ConstantRewardWatch(job.configs)
    with ThreadPoolExecutor(available_cores()) as compute:

        def run(replica: Replica) -> None:
            try:
                replica.run(pool, job, stopping, compute, lambda *what: news.put(what))
                news.put(None)
            except BaseException as error:
                news.put(error)

        threads = [threading.Thread(target=run, args=(r,), daemon=True) for r in replicas]
        for thread in threads:
            thread.start()
        try:
            running = len(threads)
            while running:
                heard = news.get()
                if heard is None:
                    running -= 1
                elif isinstance(heard, BaseException):
                    raise heard
                else:
                    event, snapshot = heard
                    constant.look(event.metrics)
                    if not listen([event], {event.replica: snapshot}):
                        break
        finally:
            stopping.set()
            pool.close()  # what still waits for a worker fails now, and its thread ends
            for thread in threads:
                thread.join()
    count = len(replicas)
    return Seconds(
        collect=sum(r.seconds.collect for r in replicas) / count,
        update=sum(r.seconds.update for r in replicas) / count,
        evaluate=sum(r.seconds.evaluate for r in replicas) / count,
    )


def measure(
    env: EnvLike, config: Config, spaces: Spaces, state: TrainState, seed: int, steps: int
) -> EvaluationReport:
    """The deterministic policy's long-run reward rate, simulated in this process."""
    envs, steps_each = evaluation_shape(steps)
    plan = _plan(
        env,
        config,
        spaces,
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
    if learner.judges_each_pass(config):
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
