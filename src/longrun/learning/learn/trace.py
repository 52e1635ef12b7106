"""Lambda, which may adapt: how far back a TD error is credited.

With exact values the expected TD error of every later step is 0, whatever the action was, so that
every lambda has the same expected policy gradient, and a longer trace only adds noise. Where values
are wrong, a longer trace corrects them. The two can be told apart without knowing the values: take
the gradient for a trace of twice the length, minus that for the usual one, from two halves of a
batch. Noise differs between the halves; an error of the values is the same in both.

A run starts with a few iterations in which only the values are learned. Where the halves still
agree then, lambda starts with a trace of a whole rollout and falls to `gae_lambda` while the values
are learned; elsewhere it is `gae_lambda` from the start, as in a short run, which has no time for
long traces.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from optax.tree_utils import tree_vdot

from longrun.learning.envs.spaces import Spaces
from longrun.learning.learn.acting import policy_outputs, read
from longrun.learning.learn.config_pytree import with_values
from longrun.learning.learn.criteria import Values, criterion_of
from longrun.learning.learn.distributions import distribution_of
from longrun.learning.learn.types import Rollout, TraceState, TrainState
from longrun.learning.options.config import Config

FIRST, COMPARED = 5, 10
"""Iterations before halves are compared, and in which they are. Only the values are learned in all
of these but the last, which trains the policy with the lambda that was chosen."""
AGREEMENT = 0.2
"""Longer traces matter if the halves agree more than this, as a fraction of squared gradients."""
FALL = 150
"""Iterations in which lambda falls from the longest trace to that of `gae_lambda`."""


def init_trace(config: Config) -> TraceState | None:
    """Nothing has been compared yet; None where lambda is fixed."""
    if not config.adapts_lambda:
        return None
    return shortest_trace(config)._replace(undecided=jnp.asarray(FIRST + COMPARED, jnp.int32))


def shortest_trace(config: Config) -> TraceState:
    """The trace of `gae_lambda`, which remains."""
    gae_lambda = jnp.asarray(config.gae_lambda, jnp.float32)
    return TraceState(gae_lambda, jnp.zeros(()), jnp.zeros(()), jnp.zeros((), jnp.int32))


def start_trace(config: Config, state: TrainState, iterations: int) -> TrainState:
    """The state for a run of so many iterations: in a short run lambda is `gae_lambda`."""
    if state.trace is None or config.has_time_to_adapt(iterations) or state.iteration > 0:
        return state
    return state._replace(trace=shortest_trace(config))


def policy_learns(state: TrainState) -> jax.Array | bool:
    """Whether a prepared batch trains the policy: not while lambda is undecided."""
    return state.trace is None or state.trace.undecided == 0


def with_current_lambda(config: Config, trace: TraceState | None) -> Config:
    """The configuration with the lambda that was adapted, if it adapts."""
    return config if trace is None else with_values(config, gae_lambda=trace.gae_lambda)


def adapt_trace(
    config: Config, spaces: Spaces, state: TrainState, rollout: Rollout, values: Values
) -> TraceState:
    """Compare halves of the first batches, choose lambda in the last of these, then lower it.

    Only the reward counts; costs with a limit have the same lambda. The scale of rewards does not
    change with it.
    `state` has the criterion after this batch, and the policy and the moments that acted.
    """
    trace = state.trace
    assert trace is not None
    shared, own = jax.lax.cond(
        (trace.undecided > 0) & (trace.undecided <= COMPARED),
        lambda: _compared_halves(config, spaces, state, rollout, values),
        lambda: (jnp.zeros(()), jnp.zeros(())),
    )
    shared, own = trace.shared + shared, trace.own + own
    steps = len(rollout.reward)
    longest = jnp.maximum(1 - 1 / steps, config.gae_lambda)
    chosen = jnp.where(shared > AGREEMENT * own, longest, config.gae_lambda)
    # 1 - lambda grows by the same factor in each iteration.
    factor = jnp.maximum(steps * (1 - config.gae_lambda), 1.0) ** (1 / FALL)
    lowered = jnp.maximum(1 - factor * (1 - trace.gae_lambda), config.gae_lambda)
    return TraceState(
        gae_lambda=jnp.where(trace.undecided == 1, chosen, lowered),
        shared=shared,
        own=own,
        undecided=jnp.maximum(trace.undecided - 1, 0),
    )


def _compared_halves(
    config: Config, spaces: Spaces, state: TrainState, rollout: Rollout, values: Values
) -> tuple[jax.Array, jax.Array]:
    """How a trace of twice the length changes the policy gradient of each half of a batch.

    Returns the product of both changes, and the mean of their squares. The shortest trace, that of
    `gae_lambda`, is compared: for longer ones noise hides what twice the length adds.
    """

    def advantages(gae_lambda: jax.Array | float) -> jax.Array:
        other = with_values(config, gae_lambda=gae_lambda)
        targets = criterion_of(config).targets(other, state.criterion, rollout, values)
        return targets.advantage

    usual, longer = advantages(config.gae_lambda), advantages((1 + config.gae_lambda) / 2)
    change = (longer - usual) / (usual.std() + 1e-8)
    first, second = _gradients_of_halves(config, spaces, state, rollout, change)
    own = (tree_vdot(first, first) + tree_vdot(second, second)) / 2
    return tree_vdot(first, second), own


def _gradients_of_halves(
    config: Config, spaces: Spaces, state: TrainState, rollout: Rollout, advantage: jax.Array
) -> tuple[Any, Any]:
    """Policy gradients of two halves of a rollout with these advantages [T, N].

    A half has the earlier steps of every other environment, and the later steps of the others: with
    an even number of environments neither half is later.
    """
    seen = read(config.acting, spaces, state.obs_moments, rollout.obs)
    distribution = distribution_of(spaces)

    def log_prob(policy: Any) -> jax.Array:
        outputs = policy_outputs(config.acting, spaces, policy, seen.features, seen.mask)
        return distribution.log_prob(outputs, policy.log_std, rollout.action)

    _, gradient = jax.vjp(log_prob, state.params.policy)
    steps, envs = advantage.shape
    half = (2 * jnp.arange(steps)[:, None] // steps + jnp.arange(envs)) % 2
    counted = advantage - advantage.mean()
    [first], [second] = (gradient(counted * (half == k)) for k in (0, 1))
    return first, second
