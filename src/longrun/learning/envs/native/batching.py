"""Batching, time limits and resets, the same for all environments.

A step returns the true successor, also where the chain continues from a reset.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from longrun.learning.envs.costs import READY, ready_cost, unknown_cost
from longrun.learning.envs.flat_spaces import as_given
from longrun.learning.envs.native.protocol import Environment, Step
from longrun.learning.options.acting import ActionBounds


class Chains(NamedTuple):
    """N environments and their current states."""

    state: Any
    """[N, ...] in every leaf"""
    obs: jax.Array
    """[N, D], what the policy acts on next"""
    age: jax.Array
    """[N] steps since the last reset; stays 0 without a time limit"""


class Facts(NamedTuple):
    """The results of a step of N environments."""

    reward: jax.Array
    """[N]"""
    next_obs: jax.Array
    """[N, D], the true successor"""
    terminated: jax.Array
    """[N]"""
    truncated: jax.Array
    """[N]"""
    costs: jax.Array | None
    """[N, K] of the costs that were asked for; None if none were"""


def start(env: Environment, key: jax.Array, count: int) -> Chains:
    """`count` environments, each from a reset of its own."""
    state, obs = jax.vmap(env.reset)(jax.random.split(key, count))
    return Chains(state, obs.astype(jnp.float32), jnp.zeros(count, jnp.int32))


def spare_starts(env: Environment, key: jax.Array, count: int) -> Chains | None:
    """Start states for one rollout's resets, where making one at every step would cost too much."""
    return start(env, key, count) if ends(env) and env.costly_reset else None


def ends(env: Environment) -> bool:
    """Whether the environment has episodes that end."""
    return env.terminates or env.time_limit > 0


def step(
    env: Environment,
    key: jax.Array,
    chains: Chains,
    action: jax.Array,
    spares: Chains | None,
    action_bounds: ActionBounds = "clip",
    costs: tuple[str, ...] = (),
) -> tuple[Chains, Facts]:
    """One step of every environment with its action [N, A]; ended ones start a new episode.

    costs: K names of what to record besides the reward.
    """
    sampled, action = action, as_given(jnp, env.spaces, action_bounds, action)
    count = chains.obs.shape[0]
    step_key, reset_key = jax.random.split(key) if ends(env) and spares is None else (key, key)
    after = jax.vmap(env.step)(jax.random.split(step_key, count), chains.state, action)
    next_obs = after.obs.astype(jnp.float32)
    terminated = jnp.broadcast_to(jnp.asarray(after.terminated, bool), (count,))
    age = chains.age + 1 if env.time_limit else chains.age
    truncated = (age >= env.time_limit) & ~terminated if env.time_limit else terminated & False
    paid = [
        ready_cost(jnp, name, env.spaces, sampled, action, terminated)
        if name in READY
        else _given_cost(after, name)
        for name in costs
    ]
    recorded = jnp.stack(paid, axis=-1).astype(jnp.float32) if paid else None
    facts = Facts(after.reward.astype(jnp.float32), next_obs, terminated, truncated, recorded)
    continued = Chains(after.state, next_obs, age)
    if not ends(env):
        return continued, facts
    fresh = start(env, reset_key, count) if spares is None else spares
    return _where(terminated | truncated, fresh, continued), facts


def _given_cost(after: Step, name: str) -> jax.Array:
    given = dict(after.costs)
    if name not in given:
        raise unknown_cost(name, list(given))
    return given[name]


def _where(chosen: jax.Array, yes: Chains, no: Chains) -> Chains:
    """Row by row: [N] decides for every leaf [N, ...]."""

    def pick(a: jax.Array, b: jax.Array) -> jax.Array:
        return jnp.where(chosen.reshape(-1, *[1] * (a.ndim - 1)), a, b)

    picked: Chains = jax.tree.map(pick, yes, no)
    return picked
