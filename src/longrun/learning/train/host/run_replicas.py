"""All replicas of a run: each runs in a thread, and one thread handles their events."""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import jax
import numpy as np

from longrun.base.memory import available_cores
from longrun.learning.envs.spaces import Spaces
from longrun.learning.envs.worker_pool import Pool
from longrun.learning.learn import learner, preparation
from longrun.learning.learn.types import Networks, Rollout, TrainState
from longrun.learning.options.config import Config
from longrun.learning.runs.spec import RunSpec
from longrun.learning.train.events import OnEvents, Seconds, TrainingEvent
from longrun.learning.train.host.replica import Replica
from longrun.learning.train.snapshot import Snapshot

POLL_SECONDS = 0.2
"""How often a loop without events asks whether to stop."""


def run_replicas(
    spec: RunSpec, replicas: list[Replica], pool: Pool, on_events: OnEvents
) -> tuple[Seconds, bool]:
    """Run each replica in a thread; this thread handles their events until all are done.

    Whether all are done is returned as well; if not, the pool is closed.
    """
    done = False
    # An event with its snapshot, the error that ended a replica, or None for one that is done.
    queued: queue.Queue[tuple[TrainingEvent, Snapshot] | BaseException | None] = queue.Queue()
    stopping = threading.Event()
    with ThreadPoolExecutor(available_cores()) as compute:

        def run(replica: Replica) -> None:
            try:
                replica.run(pool, spec, stopping, compute, lambda *item: queued.put(item))
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
                    if not on_events([event], {event.replica: partial(_same, snapshot)}):
                        break
            done = not running
        finally:
            stopping.set()
            if not done:
                pool.close()  # calls that still wait for a worker fail now, and their threads end
            for thread in threads:
                thread.join()
    return _mean([replica.seconds for replica in replicas]), done


def _same(snapshot: Snapshot) -> Snapshot:
    return snapshot


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
        costs=np.zeros((t, n, len(config.recorded)), np.float32) if config.recorded else None,
    )
    order = np.tile(np.arange(t * n, dtype=np.int32), (config.epochs, 1))
    if not learner.training_of(config).is_apart:
        jax.block_until_ready(
            learner.update(config, spaces, state, facts, Networks(order, order), 0.0)
        )
        return
    batch, state, _ = preparation.prepare(config, spaces, state, facts)
    jax.block_until_ready(
        (
            learner.improve_policy(config, spaces, state, batch, order, 0.0),
            learner.fit_value(config, state, batch, order, 0.0),
        )
    )
