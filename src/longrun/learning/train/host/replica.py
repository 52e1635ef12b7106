"""The training of one replica on the host; `Replica.run` follows Algorithm 1 line by line.

Each replica runs in a thread of its own. Simulation happens in worker processes and the updates in
XLA, both without Python's global lock, so that replicas simulate and learn at the same time and
need no scheduling.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np

from longrun.learning.envs import seeding
from longrun.learning.envs.spaces import Array, Spaces
from longrun.learning.envs.worker_pool import Pool
from longrun.learning.learn import learner, preparation
from longrun.learning.learn.moments import inverse_std
from longrun.learning.learn.policy_steps import with_shorter_steps
from longrun.learning.learn.types import Metrics, Networks, Rollout, TrainState
from longrun.learning.options.config import Config
from longrun.learning.runs.evaluation_report import EvaluationReport
from longrun.learning.runs.spec import RunSpec
from longrun.learning.train.evaluation import Streams, report
from longrun.learning.train.events import Seconds, Snapshot, TrainingEvent
from longrun.learning.train.host import episodes
from longrun.learning.train.training_checks import require_healthy, without_flags


class Replica:
    """One seed and its numeric options, and what was learned with them so far."""

    def __init__(
        self, index: int, spec: RunSpec, spaces: Spaces, pool: Pool, start: Snapshot, live: bool
    ) -> None:
        """`live`: the pool's environments are where the snapshot says."""
        self.index, self.spec, self.spaces, self.pool = index, spec, spaces, pool
        self.seed, self.config = spec.seeds[index], spec.configs[index]
        self.seconds = Seconds()
        self.state = start.state
        self.snapshot = start
        """the snapshot after the last iteration that was done"""
        self._live = live
        self._episodes = episodes.read_episodes(start.environments, self.config.num_envs, spaces)

    def run(
        self,
        stopping: threading.Event,
        compute: ThreadPoolExecutor,
        emit: Callable[[TrainingEvent, Snapshot], None],
    ) -> None:
        """Iterate until the run is done or `stopping` is set; each iteration emits an event."""
        if not self._live:
            self._episodes = episodes.restored(self._episodes, self.pool, self.index)
        self._publish()
        iteration = int(self.state.iteration)
        collected = self._start_rollout(iteration)
        while iteration < self.spec.iterations and not stopping.is_set():
            with _clock(self.seconds, "collect"):
                shuffles = self._shuffles(iteration)
                collected()
            with _clock(self.seconds, "update"):
                progress = self.spec.progress(iteration)
                fitting, metrics = self._improve_policy(shuffles, progress, compute)
            iteration += 1
            # Acting needs only the policy, so the workers collect while the value is being fitted.
            self._publish()
            with _clock(self.seconds, "evaluate"):
                evaluated = self._start_evaluation(iteration)
            with _clock(self.seconds, "collect"):
                collected = self._start_rollout(iteration)
            with _clock(self.seconds, "update"):
                metrics |= self._finish_value(fitting)
            with _clock(self.seconds, "evaluate"):
                evaluation = evaluated()
            self.snapshot = Snapshot(self.state, self._episodes._asdict())
            emit(TrainingEvent(self.index, iteration, metrics, evaluation), self.snapshot)

    def warm_up(self) -> None:
        """Compile the update by running it on whatever is in the shared arrays."""
        config, spaces, state = self.config, self.spaces, self.state
        rollout, shuffles = self._rollout(), self._shuffles(0)
        if not learner.training_of(config).is_apart:
            _done(learner.update(config, spaces, state, rollout, shuffles, 0.0))
            return
        batch, state, _ = preparation.prepare(config, spaces, state, rollout)
        _done(learner.improve_policy(config, spaces, state, batch, shuffles.policy, 0.0))
        _done(learner.fit_value(config, state, batch, shuffles.value, 0.0))

    def _start_rollout(self, iteration: int) -> Callable[[], None]:
        """Start collecting, unless the run is done; the returned function waits for the end."""
        if iteration < self.spec.iterations:
            return self.pool.start("rollout", self.index, iteration)
        return lambda: None

    def _start_evaluation(self, iteration: int) -> Callable[[], EvaluationReport | None]:
        """Start an evaluation if it is due; the returned function waits for its report."""
        if not self.spec.evaluates(iteration):
            return lambda: None
        evaluated = self.pool.start("evaluate", self.index, iteration)

        def wait_for_report() -> EvaluationReport:
            evaluated()
            drawn = self.config.draws_evaluated_actions
            return report(streams_of(self.pool, self.index, self.config), deterministic=not drawn)

        return wait_for_report

    def _improve_policy(
        self, shuffles: Networks, progress: float, compute: ThreadPoolExecutor
    ) -> tuple[Future[Any] | None, dict[str, float]]:
        """Lines 5 to 9 of Algorithm 1; the future of line 10, and the metrics.

        Where both networks are trained as one, line 10 is done as well, and there is no future.
        """
        rollout, config, spaces, fitting = self._rollout(), self.config, self.spaces, None
        if learner.training_of(config).is_apart:
            config = with_shorter_steps(config, progress)
            batch, state, metrics = _done(preparation.prepare(config, spaces, self.state, rollout))
            numbers = self._checked(metrics, state)
            fitting = compute.submit(
                lambda: _done(learner.fit_value(config, state, batch, shuffles.value, progress))
            )
            policy, opt_state, metrics = _done(
                learner.improve_policy(config, spaces, state, batch, shuffles.policy, progress)
            )
            numbers |= self._checked(metrics, state)
            self.state = state._replace(
                params=state.params._replace(policy=policy),
                opt_state=state.opt_state._replace(policy=opt_state),
            )
        else:
            both, metrics = _done(
                learner.update(config, spaces, self.state, rollout, shuffles, progress)
            )
            numbers = self._checked(metrics, both)
            self.state = both
        # Where the environments are now, before the workers go on and overwrite it.
        states, sizes = (self._array(name) for name in ("env_state", "env_state_size"))
        self._episodes = episodes.after(self._episodes, rollout, states, sizes)
        return fitting, numbers

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

    def _rollout(self) -> Rollout:
        """Views of the shared arrays; the update reads them before the workers write again."""
        facts = {name: self._array(name) for name in Rollout._fields if name in self.pool.arrays}
        obs = facts.pop("obs")
        if not self.config.recorded:  # the program has no place for an empty array
            facts["costs"] = None
        return Rollout(obs=obs[:-1], resume_obs=obs[-1], **facts)

    def _array(self, name: str) -> Any:
        """The replica's part of a shared array."""
        return self.pool.arrays[name][self.index]

    def _shuffles(self, iteration: int) -> Networks:
        """[epochs, T * N] orders for each network. NumPy: XLA's sort on a CPU takes 10x as long."""
        size, epochs = self.config.steps_per_iteration, self.config.epochs

        def orders(network: int) -> Array:
            rng = seeding.generator(self.seed, seeding.SHUFFLE, network, iteration)
            return np.stack([rng.permutation(size).astype(np.int32) for _ in range(epochs)])

        return Networks(orders(0), orders(1))

    def _publish(self) -> None:
        """Copy the policy's weights to the shared memory that the workers act with."""
        self.pool.arrays["weights"][self.index] = flat_weights(self.state)

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


@contextmanager
def _clock(seconds: Seconds, name: str) -> Iterator[None]:
    """Add the time spent in a with-block to one field of `Seconds`."""
    begin = time.perf_counter()
    yield
    setattr(seconds, name, getattr(seconds, name) + time.perf_counter() - begin)
