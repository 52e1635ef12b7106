"""Classical policies of queueing networks, and estimates of a policy's long-run cost.

A policy is a function from one environment's state to its action row. These never idle: each server
chooses among what the mask allows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from longrun.base.checks import whole_number
from longrun.base.errors import InputError
from longrun.base.student import student_reach
from longrun.exact.queueing.network import Activity, Network
from longrun.learning.envs.native.protocol import Environment
from longrun.learning.envs.queueing.environment import QueueingEnv

Policy = Callable[[Any], jax.Array]


def c_mu(env: QueueingEnv) -> Policy:
    """Serve the class with the largest holding cost times service rate."""
    costs = env.network.holding_costs
    return _static(env, lambda activity: costs[activity.queue] * activity.rate)


def fixed_priority(env: QueueingEnv, order: Sequence[int]) -> Policy:
    """Serve the class that comes first in `order`, which names every class once."""
    classes = env.network.num_classes
    if sorted(order) != list(range(classes)):
        raise InputError(f"order={list(order)} must name each of the classes 0 to {classes - 1}")
    return _static(env, lambda activity: -list(order).index(activity.queue))


def last_buffer_first(env: QueueingEnv) -> Policy:
    """Serve the class with the fewest steps left on its route; if equal, the later class.

    In the networks of Dai and Gluzman (2022) that is the class with the highest number, as there.
    """
    left = steps_left(env.network)
    return _static(env, lambda activity: -left[activity.queue] + 1e-3 * activity.queue)


def first_buffer_first(env: QueueingEnv) -> Policy:
    """Serve the class with the most steps left on its route; if equal, the earlier class."""
    left = steps_left(env.network)
    return _static(env, lambda activity: left[activity.queue] - 1e-3 * activity.queue)


def max_weight(env: QueueingEnv) -> Policy:
    """Serve where the service rate times the change of the weighted queues is largest.

    MaxWeight, or maximum pressure (Tassiulas and Ephremides, 1992; Dai and Lin, 2005), with queues
    weighted by their holding costs; servers work whenever they can.
    """
    costs = np.array(env.network.holding_costs, np.float32)
    pressure = np.eye(len(costs), dtype=np.float32) - env.network.routing_matrix()
    rates = np.array(_each(env, lambda activity: activity.rate), np.float32)
    weights = rates[:, None] * (env.outputs.queue @ pressure) * costs  # [O, classes]
    return lambda state: _highest(env, state, jnp.sum(weights * state, axis=1))


def steps_left(network: Network) -> list[int]:
    """[classes] most services until a customer leaves; an error if a class can be revisited."""
    ahead = network.routing_matrix() > 0
    left = np.zeros(network.num_classes, int)
    for _ in range(network.num_classes):
        left = 1 + (ahead * left).max(1)
    if (left != 1 + (ahead * left).max(1)).any():
        raise InputError(
            f"routing of '{network.name}' leads back to a class, so that its steps have no order;"
            " use fixed_priority"
        )
    return [int(steps) for steps in left]


def _static(env: QueueingEnv, score: Callable[[Activity], float]) -> Policy:
    scores = jnp.array(_each(env, score), jnp.float32)
    return lambda state: _highest(env, state, scores)


def _each(env: QueueingEnv, score: Callable[[Activity], float]) -> list[float]:
    """[O] the scores of all choices; 0 for idling, which `_highest` leaves aside."""
    choices = [activity for decision in env.decisions for activity in decision.choices]
    return [0.0 if activity is None else score(activity) for activity in choices]


def _highest(env: QueueingEnv, state: Any, scores: jax.Array) -> jax.Array:
    """[columns] for each decision the first allowed choice with the highest score [O].

    Idling is chosen only where the mask allows nothing else.
    """
    idles = env.outputs.least == 0
    allowed = jnp.where(env.mask(state), jnp.where(idles, -1e30, scores), -jnp.inf)
    ends = np.cumsum(env.spaces.categories)
    return jnp.stack([jnp.argmax(each) for each in jnp.split(allowed, ends[:-1])])


class Estimate(NamedTuple):
    """A mean over chains and the half-width of its 95 % interval."""

    mean: float
    half_width: float


def average_reward(
    env: Environment,
    policy: Policy,
    *,
    steps: int = 100_000,
    chains: int = 64,
    seed: int = 0,
    warmup: int | None = None,
) -> Estimate:
    """The long-run reward per step of a policy, from independent simulated chains.

    Each chain runs `warmup` steps that are not counted (default: a fifth of `steps`), then `steps`
    that are; both are rounded up to whole blocks of `BLOCK`. The interval is Student's.
    """
    steps, chains = whole_number("steps", steps, 1), whole_number("chains", chains, 2)
    warmup = steps // 5 if warmup is None else whole_number("warmup", warmup)
    if env.terminates:
        raise InputError(f"{env.name} terminates; average_reward is for environments that do not")
    block = min(steps, BLOCK)
    skipped, counted = math.ceil(warmup / block), math.ceil(steps / block)
    sums = _simulated(env, policy, chains, block, skipped + counted, jax.random.key(seed))
    means = np.asarray(sums, np.float64)[skipped:].mean(0) / block
    return Estimate(float(means.mean()), float(student_reach(means)))


def average_cost(env: Environment, policy: Policy, **options: Any) -> Estimate:
    """Minus the long-run reward per step; the options are those of `average_reward`."""
    reward = average_reward(env, policy, **options)
    return Estimate(-reward.mean, reward.half_width)


BLOCK = 1000
"""Steps whose rewards are summed in float32 before NumPy adds them up more precisely."""


@partial(jax.jit, static_argnums=(0, 1, 2, 3, 4))
def _simulated(
    env: Environment, policy: Policy, chains: int, block: int, blocks: int, key: jax.Array
) -> jax.Array:
    """[blocks, chains] sums of rewards."""

    def one_step(carry: Any, key: jax.Array) -> tuple[Any, None]:
        states, sums = carry
        keys = jax.random.split(key, chains)
        step = jax.vmap(env.step)(keys, states, jax.vmap(policy)(states))
        return (step.state, sums + step.reward), None

    def one_block(states: Any, key: jax.Array) -> tuple[Any, jax.Array]:
        start = (states, jnp.zeros(chains))
        (states, sums), _ = jax.lax.scan(one_step, start, jax.random.split(key, block))
        return states, sums

    first, rest = jax.random.split(key)
    states, _ = jax.vmap(env.reset)(jax.random.split(first, chains))
    _, sums = jax.lax.scan(one_block, states, jax.random.split(rest, blocks))
    return sums
