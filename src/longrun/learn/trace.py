"""Lambda, which may adapt: how far back a TD error is credited.

With exact values the expected TD error of every later step is 0, whatever the action was, so that
every lambda has the same expected policy gradient, and a longer trace only adds noise. Where values
are wrong, a longer trace corrects them. The two can be told apart without knowing the values: take
the gradient for a trace, minus that for one of half its length, from two halves of a batch. Noise
differs between the halves; an error of the values is the same in both.

At the start values are certainly wrong, so that lambda starts long, and falls as they become right.
In a short run there is no time for that: it starts short, and may rise.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from optax.tree_utils import tree_vdot

from longrun.config import Config
from longrun.envs.spaces import Spaces
from longrun.learn.acting import policy_outputs, read
from longrun.learn.advantages import moving_average
from longrun.learn.config_pytree import with_values
from longrun.learn.criteria import Values, criterion_of
from longrun.learn.distributions import distribution_of
from longrun.learn.types import Rollout, TraceState, TrainState
from longrun.learn.weights import sample_weights, weighted_mean

STEP_SIZE = 0.3
"""Of log(1 / (1 - lambda)), the logarithm of a trace's length in steps. (A discount shortens it
further, to 1 / (1 - discount * lambda).)"""
NOISE = 0.1
"""Agreement of the halves, as a fraction of their squared gradients, that is taken for noise."""
MEMORY = 0.1
"""Step size of the running means that the agreement is computed from."""
LONGEST = 0.1
"""Length of the longest trace, as a fraction of a rollout: one that is cut off by its end is not
as long as its lambda says."""


def init_trace(config: Config) -> TraceState | None:
    """The longest trace; None where lambda is fixed."""
    if not config.adapts_lambda:
        return None
    _, longest = _log_lengths(config, config.rollout_steps)
    return TraceState(1 - jnp.exp(-longest), jnp.zeros(()), jnp.zeros(()))


def shortest_trace(config: Config) -> TraceState:
    """The trace of `gae_lambda`, without any agreement yet."""
    return TraceState(jnp.asarray(config.gae_lambda, jnp.float32), jnp.zeros(()), jnp.zeros(()))


def start_trace(config: Config, state: TrainState, iterations: int) -> TrainState:
    """The state for a run of so many iterations: a short run starts with the shortest trace."""
    if state.trace is None or config.starts_with_long_trace(iterations) or state.iteration > 0:
        return state
    return state._replace(trace=shortest_trace(config))


def _log_lengths(config: Config, rollout_steps: int) -> tuple[jax.Array, jax.Array]:
    """Logarithms of the shortest and of the longest trace, in steps."""
    shortest = -jnp.log(1 - jnp.asarray(config.gae_lambda, jnp.float32))
    return shortest, jnp.maximum(jnp.log(LONGEST * rollout_steps), shortest)


def with_current_lambda(config: Config, trace: TraceState | None) -> Config:
    """The configuration with the lambda that was adapted, if it adapts."""
    if not config.adapts_lambda:
        return config
    assert trace is not None
    return with_values(config, gae_lambda=trace.gae_lambda)


def adapt_trace(
    config: Config, spaces: Spaces, state: TrainState, rollout: Rollout, values: Values
) -> TraceState:
    """Lengthen the trace while both halves of a batch agree on what its second half adds.

    While they do not, it becomes shorter, down to that of `gae_lambda`. This shortest trace is
    compared with one of twice its length. Only the reward counts; costs with a limit have the same
    lambda. The scale of rewards does not change with it.
    `state` has the criterion after this batch, and the policy and the moments that acted.
    """
    trace = state.trace
    assert trace is not None
    shorter = jnp.maximum(1 - 2 * (1 - trace.gae_lambda), config.gae_lambda)
    longer = 1 - (1 - shorter) / 2

    def advantages(gae_lambda: jax.Array) -> jax.Array:
        chosen = with_values(config, gae_lambda=gae_lambda)
        targets = criterion_of(config).targets(chosen, state.criterion, rollout, values)
        return targets.advantage

    usual = advantages(shorter)
    change = (advantages(longer) - usual) / (usual.std() + 1e-8)
    first, second = _gradients_of_halves(config, spaces, state, rollout, change)
    shared = moving_average(trace.shared, tree_vdot(first, second), MEMORY)
    own = (tree_vdot(first, first) + tree_vdot(second, second)) / 2
    # Only the squares start at those of the first batch: a few batches show no agreement yet.
    own = jnp.where(trace.own > 0, moving_average(trace.own, own, MEMORY), own)
    agreement = shared / jnp.maximum(own, 1e-12)
    length = -jnp.log(1 - trace.gae_lambda) + STEP_SIZE * (agreement - NOISE)
    length = jnp.clip(length, *_log_lengths(config, len(rollout.reward)))
    return TraceState(1 - jnp.exp(-length), shared, own)


def _gradients_of_halves(
    config: Config, spaces: Spaces, state: TrainState, rollout: Rollout, advantage: jax.Array
) -> tuple[Any, Any]:
    """Policy gradients of two halves of a rollout with these advantages [T, N].

    A half has the earlier steps of every other environment, and the later steps of the others: with
    an even number of environments neither half is later.
    """
    seen = read(config, spaces, state.obs_moments, rollout.obs)
    distribution = distribution_of(spaces)

    def log_prob(policy: Any) -> jax.Array:
        outputs = policy_outputs(config, spaces, policy, seen.features, seen.mask)
        return distribution.log_prob(outputs, policy.log_std, rollout.action)

    _, gradient = jax.vjp(log_prob, state.params.policy)
    steps, envs = advantage.shape
    half = (2 * jnp.arange(steps)[:, None] // steps + jnp.arange(envs)) % 2
    weights = sample_weights(config, rollout)
    counted = advantage - weighted_mean(advantage, weights)
    if weights.shape[-1]:
        counted *= weights[..., 0]
    [first], [second] = (gradient(counted * (half == k)) for k in (0, 1))
    return first, second
