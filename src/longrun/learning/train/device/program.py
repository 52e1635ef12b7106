"""The device loop's programs: collection and update of all replicas in one, and their evaluation.

Every function but `advance`, `begin` and `evaluate_all` is for one replica. All randomness comes
from (seed, purpose, iteration), so that a run does not depend on the number of iterations in each
call, and a resumed run is bit-identical.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from longrun.learning.envs.native import batching as native
from longrun.learning.envs.native.batching import Chains
from longrun.learning.envs.native.protocol import Environment
from longrun.learning.learn import learner
from longrun.learning.learn.acting import act
from longrun.learning.learn.minibatches import random_orders
from longrun.learning.learn.types import Metrics, Networks, Rollout, TrainState
from longrun.learning.options.config import Config

BEGINNING, ITERATION, EVALUATION, MEASUREMENT = range(10, 14)
"""purposes of keys; 0 and 1 are the keys that the networks are initialised from"""
MOST_ITERATIONS = 64
"""most iterations of one call: the length of the arrays that return its metrics"""
BLOCK = 200
"""steps of an evaluation before environments with costly resets get new start states"""


class ReplicaState(NamedTuple):
    """Everything that training changes; for all replicas every leaf has a leading axis [R]."""

    learned: TrainState
    chains: Chains


class Span(NamedTuple):
    """The position in the run: scalar arguments, so that one compilation serves all calls."""

    begins: jax.Array | int
    """iterations that were done when the run started; with `ends`, the learning rate's range"""
    ends: jax.Array | int
    """iterations that are done when the run ends"""
    steps: jax.Array | int
    """iterations of this call"""


class Evaluated(NamedTuple):
    """Rewards and episode ends of an evaluation: S steps of E environments."""

    reward: jax.Array
    """[S, E]"""
    ended: jax.Array
    """[S, E]"""
    costs: jax.Array | None
    """[S, E, K]; None where no cost is recorded"""


def key_of(seed: jax.Array, purpose: int, iteration: jax.Array | int = 0) -> jax.Array:
    """The random key for one purpose in one iteration."""
    return jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), purpose), iteration)


def begin(env: Environment, num_envs: int, seeds: jax.Array) -> Chains:
    """The environments of all replicas after their first reset; leaves [R, N, ...]."""

    def one(seed: jax.Array) -> Chains:
        return native.start(env, key_of(seed, BEGINNING), num_envs)

    return jax.vmap(one)(seeds)


def collect(
    env: Environment,
    config: Config,
    learned: TrainState,
    chains: Chains,
    key: jax.Array,
    steps: int,
    explore: bool = True,
) -> tuple[Rollout, Chains]:
    """`steps` steps of every environment under the current policy (line 4 of Algorithm 1)."""
    steps_key, spare_key = jax.random.split(key)
    spares = native.spare_starts(env, spare_key, chains.obs.shape[0])

    def one_step(chains: Chains, key: jax.Array) -> tuple[Chains, tuple[Any, ...]]:
        act_key, env_key = jax.random.split(key)
        action = act(config.acting, env.spaces, learned, chains.obs, act_key if explore else None)
        after, facts = native.step(
            env, env_key, chains, action, spares, config.action_bounds, config.recorded
        )
        return after, (chains.obs, action, *facts)

    chains, rows = jax.lax.scan(one_step, chains, jax.random.split(steps_key, steps))
    obs, action, reward, next_obs, terminated, truncated, costs = rows
    rollout = Rollout(obs, action, reward, next_obs, terminated, truncated, chains.obs, costs)
    return rollout, chains


def iterate(
    env: Environment, config: Config, seed: jax.Array, span: Span, replica: ReplicaState
) -> tuple[ReplicaState, Metrics]:
    """One iteration of Algorithm 1."""
    learned = replica.learned
    key = key_of(seed, ITERATION, learned.iteration)
    rollout_key, order_key = jax.random.split(key)
    rollout, chains = collect(
        env, config, learned, replica.chains, rollout_key, config.rollout_steps
    )
    size, epochs = config.steps_per_iteration, config.epochs
    orders = random_orders(order_key, 2 * epochs, size, config.minibatch_size)
    shuffles = Networks(orders[:epochs], orders[epochs:])
    progress = (learned.iteration - span.begins) / (span.ends - span.begins)
    learned, metrics = learner.update(config, env.spaces, learned, rollout, shuffles, progress)
    return ReplicaState(learned, chains), metrics


def evaluate(
    env: Environment,
    config: Config,
    seed: jax.Array,
    learned: TrainState,
    shape: tuple[int, int],
    explore: bool,
    purpose: int = EVALUATION,
) -> Evaluated:
    """(E, S): S steps of the policy in each of E environments, from a reset each."""
    envs, steps = shape
    start_key, key = jax.random.split(key_of(seed, purpose, learned.iteration))
    block = min(steps, BLOCK)

    def one_block(chains: Chains, key: jax.Array) -> tuple[Chains, Evaluated]:
        rollout, chains = collect(env, config, learned, chains, key, block, explore)
        ended = rollout.terminated | rollout.truncated
        return chains, Evaluated(rollout.reward, ended, rollout.costs)

    keys = jax.random.split(key, -(-steps // block))
    _, facts = jax.lax.scan(one_block, native.start(env, start_key, envs), keys)
    whole: Evaluated = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[:steps], facts)
    return whole


def advance(
    env: Environment,
    configs: Config,
    seeds: jax.Array,
    span: Span,
    replicas: ReplicaState,
) -> tuple[ReplicaState, Metrics]:
    """`span.steps` iterations of all replicas.

    Metrics are [MOST_ITERATIONS, R]; rows after the last iteration are zeros.
    """
    # Compiled as a part of the whole; by itself, so that the loop below does not trace it again.
    every = jax.jit(jax.vmap(partial(iterate, env), in_axes=(0, 0, None, 0)))
    blank = jax.tree.map(
        lambda x: jnp.zeros((MOST_ITERATIONS, *x.shape), x.dtype),
        jax.eval_shape(every, configs, seeds, span, replicas)[1],
    )

    def body(i: jax.Array, carry: tuple[ReplicaState, Metrics]) -> tuple[ReplicaState, Metrics]:
        replicas, log = carry
        replicas, metrics = every(configs, seeds, span, replicas)
        return replicas, jax.tree.map(lambda rows, row: rows.at[i].set(row), log, metrics)

    after: tuple[ReplicaState, Metrics] = jax.lax.fori_loop(0, span.steps, body, (replicas, blank))
    return after


@partial(jax.jit, static_argnames=("env", "shape"))
def evaluate_all(
    env: Environment,
    configs: Config,
    seeds: jax.Array,
    learned: TrainState,
    shape: tuple[int, int],
) -> Evaluated:
    """`evaluate` for all replicas: [R, S, E].

    A program of its own, so that `advance` is the same for every evaluation and without any.
    """
    one = partial(evaluate, env, shape=shape, explore=configs.draws_evaluated_actions)
    return jax.vmap(one)(configs, seeds, learned)


COMPILER_OPTIONS: dict[str, dict[str, Any]] = {
    # The small kernels of both networks side by side: up to 1.8x (docs/decisions/023).
    "gpu": {"xla_gpu_command_buffer_scheduling_mode": "CONCURRENT"},
}


@cache
def compiled_advance(backend: str) -> Any:
    """`advance` compiled for 'cpu', 'gpu' or 'tpu'; its argument `replicas` is donated."""
    return jax.jit(
        advance,
        static_argnames="env",
        donate_argnames="replicas",
        compiler_options=COMPILER_OPTIONS.get(backend),
    )
