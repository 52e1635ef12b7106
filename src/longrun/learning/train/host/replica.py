"""The training of one replica on the host; `Replica.run` follows Algorithm 1 line by line.

Each replica runs in a thread of its own. Simulation happens in worker processes and the updates in
XLA, both without Python's global lock, so that replicas simulate and learn at the same time and
need no scheduling.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import jax
import numpy as np

from longrun.learning.envs import seeding
from longrun.learning.envs.spaces import Array, Spaces
from longrun.learning.envs.worker_pool import Pool
from longrun.learning.learn import learner, preparation
from longrun.learning.learn.learning_rate import with_shorter_steps
from longrun.learning.learn.moments import inverse_std
from longrun.learning.learn.types import Metrics, Networks, Rollout, TrainState
from longrun.learning.options.config import Config
from longrun.learning.runs.evaluation_report import EvaluationReport
from longrun.learning.runs.spec import RunSpec
from longrun.learning.train.evaluation import Streams, report
from longrun.learning.train.events import Seconds, TrainingEvent
from longrun.learning.train.host import episodes
from longrun.learning.train.snapshot import Snapshot
from longrun.learning.train.training_checks import require_healthy, without_flags


class Replica:
    """One seed and its numeric options, and what was learned with them so far."""

    def __init__(
        self,
        index: int,
        seed: int,
        config: Config,
        spaces: Spaces,
        start: Snapshot,
        live: bool = False,
    ) -> None:
        """`live`: the pool's environments are where the snapshot says."""
        self.index = index
        self.seed = seed
        self.config = config
        self.spaces = spaces
        self.seconds = Seconds()
        self.state = start.state
        self.snapshot = start
        """the snapshot after the last iteration that was done"""
        self._live = live
        self._episodes = episodes.read_episodes(start.environments, config.num_envs, spaces)

    def run(
        self,
        pool: Pool,
        spec: RunSpec,
        stopping: threading.Event,
        compute: ThreadPoolExecutor,
        emit: Callable[[TrainingEvent, Snapshot], None],
    ) -> None:
        """Iterate until the run is done or `stopping` is set; each iteration emits an event."""
        if not self._live:
            self._episodes = episodes.restored(self._episodes, pool, self.index)
        self._publish(pool)
        iteration = int(self.state.iteration)
        collected = self._start_rollout(pool, spec, iteration)
        while iteration < spec.iterations and not stopping.is_set():
            with _clock(self.seconds, "collect"):
                shuffles = self._shuffles(iteration)
                collected()
            with _clock(self.seconds, "update"):
                progress = spec.progress(iteration)
                fitting, metrics = self._improve_policy(pool, shuffles, progress, compute)
            iteration += 1
            # Acting needs only the policy, so the workers collect while the value is being fitted.
            self._publish(pool)
            with _clock(self.seconds, "evaluate"):
                evaluated = self._start_evaluation(pool, spec, iteration)
            with _clock(self.seconds, "collect"):
                collected = self._start_rollout(pool, spec, iteration)
            with _clock(self.seconds, "update"):
                metrics |= self._finish_value(fitting)
            with _clock(self.seconds, "evaluate"):
                evaluation = evaluated()
            self.snapshot = Snapshot(self.state, self._episodes._asdict())
            emit(TrainingEvent(self.index, iteration, metrics, evaluation), self.snapshot)

    def _start_rollout(self, pool: Pool, spec: RunSpec, iteration: int) -> Callable[[], None]:
        """Start collecting, unless the run is done; the returned function waits for the end."""
        if iteration < spec.iterations:
            return pool.start("rollout", self.index, iteration)
        return lambda: None

    def _start_evaluation(
        self, pool: Pool, spec: RunSpec, iteration: int
    ) -> Callable[[], EvaluationReport | None]:
        """Start an evaluation if it is due; the returned function waits for its report."""
        if not spec.evaluates(iteration):
            return lambda: None
        evaluated = pool.start("evaluate", self.index, iteration)

        def wait_for_report() -> EvaluationReport:
            evaluated()
            drawn = self.config.draws_evaluated_actions
            return report(streams_of(pool, self.index, self.config), deterministic=not drawn)

        return wait_for_report

    def _improve_policy(
        self, pool: Pool, shuffles: Networks, progress: float, compute: ThreadPoolExecutor
    ) -> tuple[Future[Any] | None, dict[str, float]]:
        """Lines 5 to 9 of Algorithm 1; line 10 has been started or done when this returns.

        Returns the future of line 10, None if it is done, and the metrics.
        """
        rollout = self._rollout(pool)
        if not learner.training_of(self.config).is_apart:
            return None, self._improve_both(pool, rollout, shuffles, progress)
        config = with_shorter_steps(self.config, progress)
        batch, state, metrics = _done(preparation.prepare(config, self.spaces, self.state, rollout))
        numbers = self._checked(metrics, state)
        fitting = compute.submit(
            _run, learner.fit_value, config, state, batch, shuffles.value, progress
        )
        policy, opt_state, policy_metrics = _done(
            learner.improve_policy(config, self.spaces, state, batch, shuffles.policy, progress)
        )
        numbers |= self._checked(policy_metrics, state)
        self.state = state._replace(
            params=state.params._replace(policy=policy),
            opt_state=state.opt_state._replace(policy=opt_state),
        )
        self._record(pool, rollout)
        return fitting, numbers

    def _improve_both(
        self, pool: Pool, rollout: Rollout, shuffles: Networks, progress: float
    ) -> dict[str, float]:
        """Lines 5 to 10 in one program, where both networks are trained as one."""
        state, metrics = _done(
            learner.update(self.config, self.spaces, self.state, rollout, shuffles, progress)
        )
        numbers = self._checked(metrics, state)
        self.state = state
        self._record(pool, rollout)
        return numbers

    def _record(self, pool: Pool, rollout: Rollout) -> None:
        """Where the environments are now, before the workers go on and overwrite it."""
        states, sizes = (pool.arrays[name][self.index] for name in ("env_state", "env_state_size"))
        self._episodes = episodes.after(self._episodes, rollout, states, sizes)

    def _finish_value(self, fitting: Future[Any] | None) -> dict[str, float]:
        """Wait for line 10 of Algorithm 1, which runs in another thread; its metrics."""
        if fitting is None:
            return {}
        value, opt_state, metrics = fitting.result()
        numbers = self._checked(metrics, self.state)
        self.state = self.state._replace(
            params=self.state.params._replace(value=value),
            opt_state=self.state.opt_state._replace(value=opt_state),
        )
        return numbers

    def _rollout(self, pool: Pool) -> Rollout:
        """Views of the shared arrays; the update reads them before the workers write again."""
        facts = {n: pool.arrays[n][self.index] for n in Rollout._fields if n in pool.arrays}
        obs = facts.pop("obs")
        if not self.config.recorded:  # the program has no place for an empty array
            facts["costs"] = None
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
        """Copy the policy's weights to the shared memory that the workers act with."""
        pool.arrays["weights"][self.index] = flat_weights(self.state)

    def _checked(self, metrics: Metrics, state: TrainState) -> dict[str, float]:
        """The metrics as numbers; an error if a flag among them is not set."""
        numbers = {name: float(value) for name, value in jax.device_get(metrics).items()}
        require_healthy(numbers, self.index, self.seed, int(state.iteration))
        return without_flags(numbers)


def streams_of(pool: Pool, replica: int, config: Config) -> Streams:
    """What the workers have written in a replica's evaluation."""
    names = ("eval_reward", "eval_ended", "eval_costs")
    reward, ended, costs = (pool.arrays[name][replica] for name in names)
    return Streams(reward, ended, costs, config.recorded)


def flat_weights(state: TrainState) -> Array:
    """The parameters for acting, in the order of `numpy_policy.weight_shapes`."""
    policy, moments = state.params.policy, state.obs_moments
    layers = jax.tree.leaves(policy.layers)
    parts = (moments.mean, inverse_std(moments), policy.log_std, *layers)
    return np.concatenate([np.asarray(part).reshape(-1) for part in parts])


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
