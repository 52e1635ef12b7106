"""The host loop: replicas train in threads, and their environments run in worker processes."""

from __future__ import annotations

import math
import queue
import threading
import weakref
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass, replace
from functools import partial
from typing import Any, Self

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv

from longrun.base.checks import STEP_TIMEOUT
from longrun.base.errors import InputError
from longrun.base.memory import available_cores, require_memory
from longrun.learning.envs import seeding
from longrun.learning.envs.costs import check_costs
from longrun.learning.envs.env_source import env_source
from longrun.learning.envs.factories import EnvLike, env_factory, env_name, is_a, time_limit
from longrun.learning.envs.plan import Plan
from longrun.learning.envs.spaces import Spaces, describe, own_spaces, require_no_image
from longrun.learning.envs.stepper import state_room
from longrun.learning.envs.vector_shard import autoreset_mode
from longrun.learning.envs.watchdog import interrupted_if
from longrun.learning.envs.worker_pool import LocalPool, Pool, open_pool
from longrun.learning.learn.types import TrainState
from longrun.learning.options.acting import MLP
from longrun.learning.options.config import Config
from longrun.learning.runs.spec import RunSpec
from longrun.learning.train.evaluation import STEPS_EACH, Streams, evaluation_shape
from longrun.learning.train.events import OnEvents, Seconds, Snapshot, TrainingEvent
from longrun.learning.train.host import kept_pools
from longrun.learning.train.host.episodes import no_episodes
from longrun.learning.train.host.replica import Replica, flat_weights, streams_of
from longrun.learning.train.new_policy import fresh_state

POLL_SECONDS = 0.2
"""How often a loop without events asks whether to stop."""


@dataclass(frozen=True, eq=False)
class HostLoop:
    """Trains on Gymnasium environments, which worker processes simulate."""

    env: EnvLike
    spaces: Spaces
    observation_space: gymnasium.Space[Any]
    action_space: gymnasium.Space[Any]
    name: str
    """what run folders and checkpoints call it"""
    source: dict[str, Any]
    """what made it, see `env_source`"""
    state_bytes: int = 0
    """room for the saved state of one environment, 0 if it cannot save it"""
    vector_size: int = 0
    """environments in a VectorEnv, 0 if it is none"""
    time_limit: int = 0
    """steps after which an episode is cut off, as far as its wrappers tell; 0 if never"""

    def __post_init__(self) -> None:
        weakref.finalize(self, kept_pools.forget, id(self))

    @classmethod
    def open(cls, env: EnvLike, made: Any) -> Self:
        """`made` is what `env` makes, maybe a VectorEnv; it is neither reset nor stepped."""
        spaces = describe(made)
        is_mdp = is_a(env, "longrun.exact.tabular.mdp_environment", "MDPEnv")
        name: str = env.name if is_mdp else env_name(env)  # type: ignore[union-attr]
        if name == "<lambda>":
            name = type(made.unwrapped).__name__
        is_function = isinstance(env, str) and made.spec is None  # 'module:function'
        source = env_source(env_factory(env) if is_function else env, made)
        observation, action = own_spaces(made)
        if isinstance(made, VectorEnv):
            autoreset_mode(made)  # which it must have
            return cls(env, spaces, observation, action, name, source, 0, made.num_envs)
        room, limit = state_room(made), time_limit(made)
        return cls(env, spaces, observation, action, name, source, room, time_limit=limit)

    def fresh_snapshot(self, config: Config, seed: int) -> Snapshot:
        check_costs(config.recorded, self.spaces, self.vector_size > 0)
        self._require_size(config)
        if MLP in (config.policy_network, config.value_network):
            require_no_image(self.observation_space)
        state = fresh_state(config, self.spaces, seed)
        return Snapshot(state, no_episodes(config.num_envs, self.spaces)._asdict())

    def train(
        self,
        spec: RunSpec,
        starts: Sequence[Snapshot],
        on_events: OnEvents,
        keep_environments: bool = False,
    ) -> Seconds:
        """Train all replicas; after an error, Ctrl-C or an early stop the worker processes end.

        With `keep_environments` they stay for the next call, if the run was done.
        """
        config = spec.configs[0]
        self._require_size(config)
        evaluates = spec.evaluation_interval > 0
        eval_envs, eval_steps = self.evaluation_shape(spec.eval_steps) if evaluates else (0, 0)
        plan = self._plan(
            config,
            seeds=spec.seeds,
            num_envs=config.num_envs,
            rollout_steps=config.rollout_steps,
            eval_envs=eval_envs,
            eval_steps=eval_steps,
            eval_noise=config.draws_evaluated_actions,
        )
        most = 1 if self.vector_size else len(spec.seeds) * config.num_envs
        wanted = available_cores() if spec.num_workers is None else spec.num_workers
        num_workers = min(wanted, most)
        # All but the factory, of which a loop has one.
        key = num_workers, spec.step_timeout, replace(plan, factory=None)  # type: ignore[arg-type]
        kept = kept_pools.take(self, key, [start.environments for start in starts])
        _require_room(config, plan)
        pool = kept or open_pool(plan, num_workers, spec.step_timeout)
        done = False
        try:
            replicas = [
                Replica(index, spec, self.spaces, pool, start, live=kept is not None)
                for index, start in enumerate(starts)
            ]
            if kept is None:
                replicas[0].warm_up()  # compile while the workers start
            done = run_replicas(replicas, pool, on_events)
        finally:
            if not (done and keep_environments):
                pool.close()
        if keep_environments and done:
            kept_pools.keep(self, key, [r.snapshot.environments for r in replicas], pool)
        return Seconds(*np.mean([astuple(replica.seconds) for replica in replicas], axis=0))

    def _require_size(self, config: Config) -> None:
        if self.vector_size and config.num_envs != self.vector_size:
            raise InputError(
                f"num_envs={config.num_envs} must be {self.vector_size}, the size of the VectorEnv"
            )

    def evaluation_shape(self, steps: int) -> tuple[int, int]:
        """(environments, steps of each) of an evaluation; a VectorEnv has its own number."""
        if not self.vector_size:
            return evaluation_shape(steps, self.time_limit)
        return self.vector_size, max(-(-steps // self.vector_size), min(steps, STEPS_EACH))

    def close(self) -> None:
        """Close the environments that were kept."""
        kept_pools.close(id(self))

    def simulate(
        self,
        config: Config,
        state: TrainState,
        seed: int,
        shape: tuple[int, int],
        explore: bool,
        step_timeout: float = STEP_TIMEOUT,
    ) -> Streams:
        """The policy, simulated in this process, with random streams that no training has."""
        envs, steps = shape
        plan = self._plan(
            config,
            seeds=(seed,),
            num_envs=0,
            rollout_steps=0,
            eval_envs=envs,
            eval_steps=steps,
            eval_noise=explore,
            eval_purposes=seeding.AFTERWARDS,
        )
        pool = LocalPool(plan, step_timeout)
        try:
            pool.arrays["weights"][0] = flat_weights(state)
            with interrupted_if(pool.stalled):
                pool.start("evaluate", 0, int(state.iteration))()
            return streams_of(pool, 0, config)
        finally:
            pool.close()

    def _plan(self, config: Config, **shape: Any) -> Plan:
        """What workers need to know of the configuration, and the sizes of all arrays.

        Costs are checked again: a loaded agent may have others than `fresh_snapshot` was given, and
        an agent may be evaluated in another environment.
        """
        check_costs(config.recorded, self.spaces, self.vector_size > 0)
        return Plan(
            factory=env_factory(self.env),
            spaces=self.spaces,
            acting=config.acting,
            costs=config.recorded,
            is_vector=self.vector_size > 0,
            state_bytes=self.state_bytes if shape["num_envs"] else 0,
            **shape,
        )


def run_replicas(replicas: Sequence[Replica], pool: Pool, on_events: OnEvents) -> bool:
    """Run each replica in a thread; this thread handles their events until all are done.

    Whether all are done; if not, the pool is closed.
    """
    done = False
    # An event with its snapshot, the error that ended a replica, or None for one that is done.
    queued: queue.Queue[tuple[TrainingEvent, Snapshot] | BaseException | None] = queue.Queue()
    stopping = threading.Event()
    with ThreadPoolExecutor(available_cores()) as compute:

        def run(replica: Replica) -> None:
            try:
                replica.run(stopping, compute, lambda *item: queued.put(item))
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
    return done


def _same(snapshot: Snapshot) -> Snapshot:
    return snapshot


def _require_room(config: Config, plan: Plan) -> None:
    """Raise InputError if the shared arrays are larger than the memory."""
    # States are left out: only what is used of their room takes memory.
    used = {name: entry for name, entry in plan.memory().items() if name != "env_state"}
    size = sum(math.prod(shape) * np.dtype(kind).itemsize for shape, kind in used.values())
    what = f"num_envs={config.num_envs} x rollout_steps={config.rollout_steps}"
    require_memory(size, f"{what} samples of each of {len(plan.seeds)} replicas")
