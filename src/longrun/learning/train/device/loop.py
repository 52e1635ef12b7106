"""The device loop: calls of the compiled program, and the events reported between them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Self

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from longrun.learning.envs.costs import READY, check_costs, unknown_cost
from longrun.learning.envs.env_source import env_source
from longrun.learning.envs.native.protocol import Environment, require_sound
from longrun.learning.envs.native.to_gymnasium import action_space, observation_space
from longrun.learning.envs.spaces import Array, Spaces
from longrun.learning.learn.types import TrainState
from longrun.learning.options.config import Config
from longrun.learning.runs.evaluation_report import EvaluationReport
from longrun.learning.runs.spec import RunSpec
from longrun.learning.train.device import program as device
from longrun.learning.train.device.program import MOST_ITERATIONS, Evaluated, ReplicaState, Span
from longrun.learning.train.device.sharding import Layout, agreed, placed, snapshot_of, stacked
from longrun.learning.train.evaluation import Streams, evaluation_shape, report
from longrun.learning.train.events import OnEvents, Seconds, Snapshot, TrainingEvent
from longrun.learning.train.new_policy import fresh_state
from longrun.learning.train.training_checks import (
    FLAGS,
    require_finite_rewards,
    require_healthy,
    without_flags,
)

CALL_SECONDS = 1.0
"""Target time of a call: short enough for a progress bar and Ctrl-C, long enough that the cost of
a call does not matter."""
MOST_ROWS = 50_000
"""Rows of metrics in a run; with more iterations than that, only every k-th is reported."""


@dataclass(frozen=True, eq=False)
class DeviceLoop:
    """Trains on JAX-native environments, all replicas in one program."""

    env: Environment
    name: str
    """what run folders and checkpoints call it"""
    spaces: Spaces
    observation_space: gymnasium.Space[Any]
    action_space: gymnasium.Space[Any]
    source: dict[str, Any]
    """what made it, see `env_source`"""
    costs: tuple[str, ...] = ()
    """names of the costs that a step gives"""
    vector_size: int = 0

    @classmethod
    def open(cls, env: Environment, given_name: str | None = None) -> Self:
        """Raises an error if the environment does not follow the protocol."""
        costs, spaces = require_sound(env), env.spaces
        observations, actions = observation_space(spaces), action_space(spaces)
        name = given_name or env.name
        return cls(env, name, spaces, observations, actions, env_source(env, env), costs)

    def fresh_snapshot(self, config: Config, seed: int) -> Snapshot:
        self._require_costs(config)
        return Snapshot(fresh_state(config, self.spaces, seed), {})

    def train(
        self,
        spec: RunSpec,
        starts: Sequence[Snapshot],
        on_events: OnEvents,
        keep_environments: bool = False,
    ) -> Seconds:
        """Train all replicas in one program; events are reported after each call of it."""
        self._require_costs(spec.configs[0])
        layout = Layout(len(spec.seeds), spec.configs[0].num_envs)
        seeds = jax.device_put(np.array(spec.seeds, np.uint32), layout.by_replica)
        configs = jax.device_put(stacked(spec.configs), layout.by_replica)
        replicas = placed(layout, self.env, spec.configs[0].num_envs, seeds, starts)
        seconds = Seconds()
        iteration, calls = int(starts[0].state.iteration), Calls(spec)
        shape = self.evaluation_shape(spec.eval_steps)
        advance = device.compiled_advance(jax.default_backend())
        while iteration < spec.iterations:
            steps = agreed(calls.iterations(iteration))
            begin = time.perf_counter()
            span = Span(spec.first_iteration, spec.iterations, steps)
            replicas, log = advance(self.env, configs, seeds, span, replicas)
            log = layout.fetch(log)
            calls.took(steps, time.perf_counter() - begin)
            evaluated = None
            if spec.evaluates(iteration + steps):
                found = device.evaluate_all(self.env, configs, seeds, replicas.learned, shape)
                evaluated = layout.fetch(found)
            seconds.update += time.perf_counter() - begin
            _require_healthy(spec, iteration, steps, log)
            reports = _reports(spec, iteration + steps, evaluated) if evaluated else []
            events = _events(spec, iteration, steps, log, reports)
            iteration += steps
            snapshot = copies(layout, _copied(replicas))
            latest = {i: partial(snapshot, i) for i in range(len(spec.seeds))}
            if not on_events(events, latest):
                break
        return seconds

    def evaluation_shape(self, steps: int) -> tuple[int, int]:
        return evaluation_shape(steps, self.env.time_limit)

    def simulate(
        self,
        config: Config,
        state: TrainState,
        seed: int,
        shape: tuple[int, int],
        explore: bool,
        step_timeout: float = 0.0,
    ) -> Streams:
        """The policy, simulated in a program of its own, with random keys that no training has."""
        self._require_costs(config)
        how = shape, explore, device.MEASUREMENT
        found = jax.device_get(_evaluate(self.env, config, jnp.uint32(seed), state, *how))
        require_finite_rewards(found.reward, f"seed {seed}", int(state.iteration))
        return Streams(found.reward, found.ended, found.costs, config.recorded)

    def _require_costs(self, config: Config) -> None:
        """Raise InputError for a cost that there is not; a loaded agent may have any names."""
        check_costs(config.recorded, self.spaces)
        for name in config.recorded:
            if name not in (*READY, *self.costs):
                raise unknown_cost(name, self.costs)

    def close(self) -> None:
        """There is nothing to close: a snapshot holds all of the environments."""


_copied = jax.jit(lambda replicas: jax.tree.map(jnp.copy, replicas))
"""A copy on the device: the next call of the program uses the memory of what it is given."""


def copies(layout: Layout, replicas: ReplicaState) -> Callable[[int], Snapshot]:
    """Gives a replica's snapshot, from one copy of all on the host, made when it is needed."""
    fetched = cache(lambda: layout.fetch(replicas))
    if jax.process_count() > 1:  # several hosts copy together, or not at all
        fetched()
    return lambda index: snapshot_of(fetched(), index)


_evaluate = jax.jit(device.evaluate, static_argnums=(0, 4, 5, 6))


class Calls:
    """Number of iterations of the next call: about a second's worth, never past an evaluation."""

    def __init__(self, spec: RunSpec) -> None:
        self._spec, self._every = spec, spec.evaluation_interval
        self._most = 1
        self._compiling = True

    def iterations(self, done: int) -> int:
        to_evaluation = self._every - done % self._every if self._every else MOST_ITERATIONS
        return min(self._most, to_evaluation, self._spec.iterations - done)

    def took(self, iterations: int, seconds: float) -> None:
        """Adapt to the time that a call took, except for the first, which was compiled."""
        if not self._compiling:
            fitting = int(iterations * CALL_SECONDS / seconds)
            self._most = max(1, min(fitting, 4 * iterations, MOST_ITERATIONS))
        self._compiling = False


def _require_healthy(spec: RunSpec, done: int, steps: int, log: dict[str, Array]) -> None:
    """Raise an error for the first row [K, R] whose flags are not all set, if there is one."""
    sound = np.logical_and.reduce([log[flag][:steps] for flag in FLAGS])  # [K, R]
    for row, replica in np.argwhere(~sound)[:1]:
        metrics = {name: values[row, replica] for name, values in log.items()}
        require_healthy(metrics, int(replica), spec.seeds[replica], done + int(row) + 1)


def _reports(spec: RunSpec, iteration: int, evaluated: Evaluated) -> list[EvaluationReport]:
    """One report for each replica from facts [R, S, E]."""
    for i, (seed, reward) in enumerate(zip(spec.seeds, evaluated.reward, strict=True)):
        require_finite_rewards(reward, f"replica {i} (seed {seed})", iteration)
    names = spec.configs[0].recorded
    costs: Any = evaluated.costs if names else [None] * len(spec.seeds)
    facts = zip(evaluated.reward, evaluated.ended, costs, strict=True)
    drawn = spec.configs[0].draws_evaluated_actions
    return [report(Streams(*each, names), deterministic=not drawn) for each in facts]


def _events(
    spec: RunSpec,
    done: int,
    steps: int,
    log: dict[str, Array],
    reports: Sequence[EvaluationReport],
) -> list[TrainingEvent]:
    """Events of a call's iterations; the last ones have the evaluations, if there are any."""
    replicas = len(spec.seeds)
    every = max(1, (spec.iterations - spec.first_iteration) * replicas // MOST_ROWS)
    events = []
    for row in range(steps):
        iteration = done + row + 1
        last = row == steps - 1 and (bool(reports) or iteration == spec.iterations)
        if iteration % every and not last:
            continue
        for i in range(replicas):
            metrics = without_flags({name: values[row, i] for name, values in log.items()})
            evaluation = reports[i] if last and reports else None
            events.append(TrainingEvent(i, iteration, metrics, evaluation))
    return events
