"""Lambda, which may adapt: how far back a TD error is credited.

With exact values the expected TD error of every later step is 0, whatever the action was, so that
every lambda has the same expected policy gradient, and a longer trace only adds noise. Where values
are wrong, a longer trace corrects them. The two can be told apart without knowing the values: take
the gradient for a trace, minus that for one of half its length, from two halves of a batch. Noise
differs between the halves; an error of the values is the same in both.

At the start values are certainly wrong, so that lambda starts with a trace of a whole rollout. It
falls, quickly where longer traces do not matter, and slowly, while the values are learned, where
they do. In a short run there is no time for that: it starts with the shortest trace.
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

SLOW, FAST = 150, 20
"""Iterations in which lambda falls from the longest trace to the shortest: while longer traces
matter, and while they do not."""
AGREEMENT = 0.2
"""Of the halves, as a fraction of their squared gradients, above which longer traces matter."""
MEMORY = 0.1
"""Step size of the running means that the agreement is computed from."""


def init_trace(config: Config) -> TraceState | None:
    """The longest trace; None where lambda is fixed."""
    if not config.adapts_lambda:
        return None
    longest = jnp.maximum(1 - 1 / config.rollout_steps, config.gae_lambda)
    return TraceState(jnp.asarray(longest, jnp.float32), jnp.zeros(()), jnp.zeros(()))


def shortest_trace(config: Config) -> TraceState:
    """The trace of `gae_lambda`, without any agreement yet."""
    return TraceState(jnp.asarray(config.gae_lambda, jnp.float32), jnp.zeros(()), jnp.zeros(()))


def start_trace(config: Config, state: TrainState, iterations: int) -> TrainState:
    """The state for a run of so many iterations: a short run starts with the shortest trace."""
    if state.trace is None or config.starts_with_long_trace(iterations) or state.iteration > 0:
        return state
    return state._replace(trace=shortest_trace(config))


def with_current_lambda(config: Config, trace: TraceState | None) -> Config:
    """The configuration with the lambda that was adapted, if it adapts."""
    if not config.adapts_lambda:
        return config
    assert trace is not None
    return with_values(config, gae_lambda=trace.gae_lambda)


def adapt_trace(
    config: Config, spaces: Spaces, state: TrainState, rollout: Rollout, values: Values
) -> TraceState:
    """Shorten the trace, slowly while both halves of a batch agree that the shortest is too short.

    The shortest trace, that of `gae_lambda`, is compared with one of twice its length: where longer
    ones are compared, noise hides what they add. Only the reward counts; costs with a limit have
    the same lambda. The scale of rewards does not change with it.
    `state` has the criterion after this batch, and the policy and the moments that acted.
    """
    trace = state.trace
    assert trace is not None
    usual = _advantages(config, state, rollout, values, config.gae_lambda)
    longer = _advantages(config, state, rollout, values, (1 + config.gae_lambda) / 2)
    change = (longer - usual) / (usual.std() + 1e-8)
    first, second = _gradients_of_halves(config, spaces, state, rollout, change)
    own = (tree_vdot(first, first) + tree_vdot(second, second)) / 2
    shared = moving_average(trace.shared, tree_vdot(first, second), MEMORY)
    own = moving_average(trace.own, own, MEMORY)
    matters = shared > AGREEMENT * own
    # 1 - lambda grows by the same factor in each iteration.
    shortest = 1 - config.gae_lambda
    factor = (shortest * len(rollout.reward)) ** (1 / jnp.where(matters, SLOW, FAST))
    gae_lambda = 1 - jnp.maximum(factor, 1.0) * (1 - trace.gae_lambda)
    return TraceState(jnp.maximum(gae_lambda, config.gae_lambda), shared, own)


def _advantages(
    config: Config,
    state: TrainState,
    rollout: Rollout,
    values: Values,
    gae_lambda: jax.Array | float,
) -> jax.Array:
    """[T, N] with another lambda."""
    chosen = with_values(config, gae_lambda=gae_lambda)
    targets = criterion_of(config).targets(chosen, state.criterion, rollout, values)
    return targets.advantage


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
