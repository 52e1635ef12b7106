"""The device loop's program: collection, update and evaluation of all replicas, compiled as one.

Every function but `advance` and `begin` is of one replica. All randomness comes from (seed,
purpose, iteration), so that a run does not depend on how many iterations a call takes, and a
resumed one goes on to the bit.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from longrun.config import Config
from longrun.envs.native import batching as native
from longrun.envs.native.batching import Chains
from longrun.envs.native.protocol import Environment
from longrun.learn import learner
from longrun.learn.acting import act
from longrun.learn.shuffling import random_orders
from longrun.learn.types import Metrics, Networks, Rollout, TrainState

BEGINNING, ITERATION, EVALUATION = range(10, 13)
"""purposes; not 0 and 1, which would be the keys that the networks are made from"""
MOST_ITERATIONS = 64
"""of one call: the length of the arrays that its metrics come back in"""
BLOCK = 200
"""steps of an evaluation before environments with costly resets get new start states"""


class ReplicaState(NamedTuple):
    """All that changes in training; in the program every leaf has a leading axis [R]."""

    learnt: TrainState
    chains: Chains


class Span(NamedTuple):
    """Where the run is: scalars, so that nothing is compiled anew."""

    begins: jax.Array | int
    """iterations that were done when the run began, and at its end: the learning rate's range"""
    ends: jax.Array | int
    steps: jax.Array | int
    """iterations of this call"""
    evaluate: jax.Array | bool
    """whether an evaluation follows them"""


class Evaluated(NamedTuple):
    """Facts of an evaluation: S steps of E environments."""

    reward: jax.Array
    """[S, E]"""
    ended: jax.Array
    """[S, E]"""


def key_of(seed: jax.Array, purpose: int, iteration: jax.Array | int = 0) -> jax.Array:
    return jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), purpose), iteration)


def begin(env: Environment, num_envs: int, seeds: jax.Array) -> Chains:
    """The environments of all replicas [R] at their start."""

    def one(seed: jax.Array) -> Chains:
        return native.start(env, key_of(seed, BEGINNING), num_envs)

    return jax.vmap(one)(seeds)


def collect(
    env: Environment,
    config: Config,
    learnt: TrainState,
    chains: Chains,
    key: jax.Array,
    steps: int,
    explore: bool = True,
) -> tuple[Rollout, Chains]:
    """`steps` steps of every environment under the current policy (line 4 of Algorithm 1)."""
    steps_key, spare_key = jax.random.split(key)
    spares = native.spare_starts(env, spare_key, chains.obs.shape[0])

    def one_step(chains: Chains, key: jax.Array) -> tuple[Chains, tuple[jax.Array, ...]]:
        act_key, env_key = jax.random.split(key)
        action = act(config, env.spaces, learnt, chains.obs, act_key if explore else None)
        after, facts = native.step(env, env_key, chains, action, spares, config.action_bounds)
        return after, (chains.obs, action, *facts)

    chains, rows = jax.lax.scan(one_step, chains, jax.random.split(steps_key, steps))
    obs, action, reward, next_obs, terminated, truncated = rows
    rollout = Rollout(obs, action, reward, next_obs, terminated, truncated, chains.obs)
    return rollout, chains


def iterate(
    env: Environment, config: Config, seed: jax.Array, span: Span, replica: ReplicaState
) -> tuple[ReplicaState, Metrics]:
    """One iteration of Algorithm 1."""
    learnt = replica.learnt
    key = key_of(seed, ITERATION, learnt.iteration)
    rollout_key, order_key = jax.random.split(key)
    rollout, chains = collect(
        env, config, learnt, replica.chains, rollout_key, config.rollout_steps
    )
    size, epochs = config.steps_per_iteration, config.epochs
    orders = random_orders(order_key, 2 * epochs, size, config.minibatch_size)
    shuffles = Networks(orders[:epochs], orders[epochs:])
    progress = (learnt.iteration - span.begins) / (span.ends - span.begins)
    learnt, metrics = learner.update(config, env.spaces, learnt, rollout, shuffles, progress)
    return ReplicaState(learnt, chains), metrics


def evaluate(
    env: Environment,
    config: Config,
    seed: jax.Array,
    learnt: TrainState,
    shape: tuple[int, int],
) -> Evaluated:
    """(E, S): S steps of the deterministic policy in each of E environments, from a reset each."""
    envs, steps = shape
    start_key, key = jax.random.split(key_of(seed, EVALUATION, learnt.iteration))
    block = min(steps, BLOCK)

    def one_block(chains: Chains, key: jax.Array) -> tuple[Chains, Evaluated]:
        rollout, chains = collect(env, config, learnt, chains, key, block, explore=False)
        return chains, Evaluated(rollout.reward, rollout.terminated | rollout.truncated)

    keys = jax.random.split(key, -(-steps // block))
    _, facts = jax.lax.scan(one_block, native.start(env, start_key, envs), keys)
    return Evaluated(*(x.reshape(-1, envs)[:steps] for x in facts))


def advance(
    env: Environment,
    configs: Config,
    seeds: jax.Array,
    span: Span,
    replicas: ReplicaState,
    eval_shape: tuple[int, int],
) -> tuple[ReplicaState, Metrics, Evaluated]:
    """`span.steps` iterations of all replicas, then an evaluation if it is wanted.

    Metrics come back as [MOST_ITERATIONS, R]; rows beyond those done are zeros.
    """
    every = jax.vmap(partial(iterate, env), in_axes=(0, 0, None, 0))
    blank = jax.tree.map(
        lambda x: jnp.zeros((MOST_ITERATIONS, *x.shape), x.dtype),
        jax.eval_shape(every, configs, seeds, span, replicas)[1],
    )

    def body(i: jax.Array, carry: tuple[ReplicaState, Metrics]) -> tuple[ReplicaState, Metrics]:
        replicas, log = carry
        replicas, metrics = every(configs, seeds, span, replicas)
        return replicas, jax.tree.map(lambda rows, row: rows.at[i].set(row), log, metrics)

    replicas, log = jax.lax.fori_loop(0, span.steps, body, (replicas, blank))

    def run(learnt: TrainState) -> Evaluated:
        return jax.vmap(partial(evaluate, env, shape=eval_shape))(configs, seeds, learnt)

    def skip(learnt: TrainState) -> Evaluated:
        shape = (seeds.shape[0], eval_shape[1], eval_shape[0])
        return Evaluated(jnp.zeros(shape), jnp.zeros(shape, bool))

    return replicas, log, jax.lax.cond(span.evaluate, run, skip, replicas.learnt)


COMPILER_OPTIONS: dict[str, dict[str, Any]] = {
    # The small kernels of both networks side by side: up to 1.8x (docs/design.md).
    "gpu": {"xla_gpu_command_buffer_scheduling_mode": "CONCURRENT"},
}


@cache
def compiled_advance(backend: str) -> Any:
    """`advance` for 'cpu', 'gpu' or 'tpu'; the replicas that it is given are used up."""
    return jax.jit(
        advance,
        static_argnames=("env", "eval_shape"),
        donate_argnames="replicas",
        compiler_options=COMPILER_OPTIONS.get(backend),
    )
