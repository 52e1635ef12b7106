"""The device loop: calls of the compiled program, and what is written down between them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from longrun.config import Config
from longrun.envs.native.batching import Chains
from longrun.envs.native.protocol import Environment
from longrun.envs.spaces import Array
from longrun.errors import InputError
from longrun.learn.types import TrainState
from longrun.train.device import program as device
from longrun.train.device.program import MOST_ITERATIONS, Replica, Span
from longrun.train.device.sharding import Layout, agreed
from longrun.train.evaluation import EvaluationReport, evaluation_shape, report
from longrun.train.job import Event, Job, Listen, Seconds, Snapshot
from longrun.train.training_checks import FLAGS, ConstantRewardWatch, require_healthy, without_flags

CALL_SECONDS = 1.0
"""What a call should take: short enough for a progress bar and Ctrl-C, long enough not to count."""
MOST_ROWS = 50_000
"""Rows of metrics in a run; with more iterations than that, some are not written down."""


def train(job: Job, env: Environment, starts: Sequence[Snapshot], listen: Listen) -> Seconds:
    """Train all replicas in one program; `listen` hears of them after each call."""
    layout = Layout(len(job.seeds), job.configs[0].num_envs)
    seeds = jax.device_put(np.array(job.seeds, np.uint32), layout.by_replica)
    configs = jax.device_put(stacked(job.configs), layout.by_replica)
    replicas = _placed(layout, env, job, seeds, starts)
    seconds, constant = Seconds(), ConstantRewardWatch(job.configs)
    iteration, calls = int(starts[0].state.iteration), Calls(job)
    shape = evaluation_shape(job.eval_steps) if job.eval_every else (1, 1)
    advance = device.compiled_advance(jax.default_backend())
    while iteration < job.iterations:
        steps = agreed(calls.iterations(iteration))
        evaluates = job.evaluates(iteration + steps)
        begin = time.perf_counter()
        span = Span(job.begins, job.iterations, steps, evaluates)
        replicas, log, evaluated = advance(env, configs, seeds, span, replicas, shape)
        log, evaluated, copy = layout.fetch((log, evaluated if evaluates else None, replicas))
        took = time.perf_counter() - begin
        calls.took(steps, took)
        seconds.update += took
        _require_healthy(job, iteration, steps, log)
        reports = [report(*facts) for facts in zip(*evaluated, strict=True)] if evaluates else None
        events = _events(job, iteration, steps, log, reports)
        iteration += steps
        for event in events:
            constant.look(event.metrics)
        if not listen(events, {i: _snapshot(copy, i) for i in range(len(job.seeds))}):
            break
    return seconds


class Calls:
    """How many iterations the next call takes: about a second's, never past an evaluation."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._most = 1
        self._compiling = True

    def iterations(self, done: int) -> int:
        to_evaluation = (
            self._job.eval_every - done % self._job.eval_every
            if self._job.eval_every
            else MOST_ITERATIONS
        )
        return min(self._most, to_evaluation, self._job.iterations - done)

    def took(self, iterations: int, seconds: float) -> None:
        """Learn from a call, but not from the first, which was compiled."""
        if not self._compiling:
            fitting = int(iterations * CALL_SECONDS / seconds)
            self._most = max(1, min(fitting, 4 * iterations, MOST_ITERATIONS))
        self._compiling = False


def measure(
    env: Environment, config: Config, state: TrainState, seed: int, steps: int
) -> EvaluationReport:
    """The deterministic policy's long-run reward rate."""
    shape = evaluation_shape(steps)
    return report(*jax.device_get(_evaluate(env, config, jnp.uint32(seed), state, shape)))


_evaluate = jax.jit(device.evaluate, static_argnums=(0, 4))


def stacked(trees: Sequence[Any]) -> Any:
    """Leaves [...] of R trees -> one tree of leaves [R, ...]; numbers as they are inside jit."""
    return jax.tree.map(
        lambda *xs: np.stack([np.asarray(x, jnp.asarray(x).dtype) for x in xs]), *trees
    )


def _placed(
    layout: Layout, env: Environment, job: Job, seeds: jax.Array, starts: Sequence[Snapshot]
) -> Replica:
    begin = partial(device.begin, env, job.configs[0].num_envs)
    if starts[0].environments:
        like = jax.eval_shape(begin, seeds)
        chains = stacked([_chains(like, start.environments) for start in starts])
    else:
        chains = jax.jit(begin, out_shardings=layout.by_env)(seeds)
    return layout.place(Replica(stacked([start.state for start in starts]), chains))


def _snapshot(replicas: Replica, index: int) -> Snapshot:
    one = jax.tree.map(lambda x: x[index], replicas)
    leaves = jax.tree_util.tree_leaves_with_path(one.chains)
    return Snapshot(one.learnt, {_name(path): leaf for path, leaf in leaves})


def _name(path: Any) -> str:
    return str(jax.tree_util.keystr(path)).removeprefix(".")


def _chains(like: Chains, named: Any) -> Chains:
    """One replica's environments from named arrays; `like` has the shapes [R, ...] of all."""

    def leaf(path: Any, expected: jax.ShapeDtypeStruct) -> Array:
        name = _name(path)
        found: Array | None = named.get(name)
        if found is None or found.shape != expected.shape[1:] or found.dtype != expected.dtype:
            raise InputError(f"the checkpoint's environments are of another kind: see {name}")
        return found

    chains: Chains = jax.tree_util.tree_map_with_path(leaf, like)
    return chains


def _require_healthy(job: Job, done: int, steps: int, log: dict[str, Array]) -> None:
    """The first row whose flags are down, if any, is what the error tells of."""
    sound = np.logical_and.reduce([log[flag][:steps] for flag in FLAGS])  # [K, R]
    for row, replica in np.argwhere(~sound)[:1]:
        metrics = {name: values[row, replica] for name, values in log.items()}
        require_healthy(metrics, int(replica), job.seeds[replica], done + int(row) + 1)


def _events(
    job: Job,
    done: int,
    steps: int,
    log: dict[str, Array],
    reports: Sequence[EvaluationReport] | None,
) -> list[Event]:
    """Events of a call's iterations, and the evaluations with the last."""
    replicas = len(job.seeds)
    every = max(1, (job.iterations - job.begins) * replicas // MOST_ROWS)
    events = []
    for row in range(steps):
        iteration = done + row + 1
        last = row == steps - 1 and (reports is not None or iteration == job.iterations)
        if iteration % every and not last:
            continue
        for i in range(replicas):
            metrics = without_flags({name: values[row, i] for name, values in log.items()})
            evaluation = reports[i] if last and reports is not None else None
            events.append(Event(i, iteration, metrics, evaluation))
    return events
