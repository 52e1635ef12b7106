"""The policy steps: how advantages change the policy (line 9 of Algorithm 1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from longrun.learning.envs.spaces import Spaces
from longrun.learning.learn.acting import policy_outputs
from longrun.learning.learn.config_pytree import with_values
from longrun.learning.learn.distributions import distribution_of
from longrun.learning.learn.limited_step import limited_step
from longrun.learning.learn.limits import multiplier_metrics
from longrun.learning.learn.minibatches import Samples, Task
from longrun.learning.learn.trust_region import NaturalStep, natural_step
from longrun.learning.learn.types import Batch, Metrics, Policy
from longrun.learning.options.config import Clipped, Config, TrustRegion


class PolicyStep(NamedTuple):
    """How a policy is improved, in one of two forms; the other is None."""

    minibatch_task: Callable[[Any, Spaces, Policy, Any, Batch, jax.Array], Task] | None = None
    """what epochs of minibatches train, besides the value network"""
    whole_batch: Callable[[Any, Spaces, Policy, Batch], tuple[Policy, Metrics]] | None = None
    """a single step on the whole batch"""


def clipped_surrogate(
    ratio: jax.Array, advantage: jax.Array, clip_range: jax.Array | float
) -> jax.Array:
    """min(w A, clip(w, 1 - eps, 1 + eps) A), elementwise (equ:J_pi)."""
    clipped = jnp.clip(ratio, 1 - clip_range, 1 + clip_range)
    return jnp.minimum(ratio * advantage, clipped * advantage)


def clipped_task(
    config: Clipped,
    spaces: Spaces,
    policy: Policy,
    opt_state: Any,
    batch: Batch,
    shuffles: jax.Array,
) -> Task:
    """M epochs of minibatch ascent on the clipped surrogate and the entropy bonus."""

    def loss(policy: Policy, samples: Samples) -> tuple[jax.Array, Metrics]:
        terms = clipped_terms(config, spaces, policy, samples)
        return clipped_loss(config, {name: term.mean() for name, term in terms.items()})

    return Task(loss, policy, opt_state, clipped_samples(config, spaces, policy, batch), shuffles)


def clipped_samples(config: Clipped, spaces: Spaces, policy: Policy, batch: Batch) -> Samples:
    """What `clipped_terms` needs of a batch; policy: the one that acted."""
    outputs = policy_outputs(config.acting, spaces, policy, batch.features, batch.mask)
    old_log_prob = distribution_of(spaces).log_prob(outputs, policy.log_std, batch.action)
    return batch.features, batch.mask, batch.action, old_log_prob, batch.advantage


def clipped_terms(
    config: Clipped, spaces: Spaces, policy: Policy, samples: Samples
) -> dict[str, jax.Array]:
    """Each [n]: surrogate and entropy of samples, and how far the policy has moved there."""
    features, mask, action, old_log_prob, advantage = samples
    distribution = distribution_of(spaces)
    outputs = policy_outputs(config.acting, spaces, policy, features, mask)
    log_ratio = distribution.log_prob(outputs, policy.log_std, action) - old_log_prob
    ratio = jnp.exp(log_ratio)
    return {
        "surrogate": clipped_surrogate(ratio, advantage, config.clip_range),
        "entropy": distribution.entropy(outputs, policy.log_std),
        "kl": ratio - 1 - log_ratio,
        "clip_fraction": jnp.abs(ratio - 1) > config.clip_range,
    }


def clipped_loss(config: Clipped, means: Metrics) -> tuple[jax.Array, Metrics]:
    """The loss and its metrics, from the means of `clipped_terms`."""
    surrogate = means.pop("surrogate")
    loss = -surrogate - config.entropy_coefficient * means["entropy"]
    return loss, {"policy_loss": -surrogate} | means


def trust_region_step(
    config: TrustRegion, spaces: Spaces, policy: Policy, batch: Batch
) -> tuple[Policy, Metrics]:
    """One natural-gradient step on the whole batch, limited by the KL divergence and the costs."""
    distribution = distribution_of(spaces)

    def outputs_of(new: Policy) -> jax.Array:
        return policy_outputs(config.acting, spaces, new, batch.features, batch.mask)

    old_outputs = outputs_of(policy)
    old_log_prob = distribution.log_prob(old_outputs, policy.log_std, batch.action)

    def ratio(new: Policy) -> jax.Array:
        log_prob = distribution.log_prob(outputs_of(new), new.log_std, batch.action)
        return jnp.exp(log_prob - old_log_prob)

    def surrogate_of(new: Policy) -> jax.Array:
        return (ratio(new) * batch.advantage).mean()

    def mean_kl(new: Policy) -> jax.Array:
        return distribution.kl(old_outputs, policy.log_std, outputs_of(new), new.log_std).mean()

    if batch.costs is None:
        new, step = natural_step(surrogate_of, mean_kl, policy, kl_limit=config.kl_limit)
        surrogate, limited = step.surrogate, Metrics()
    else:
        new, step, limited = _step_under_limits(config, policy, batch, ratio, mean_kl)
        surrogate = step.surrogate[0]
    metrics = {
        "policy_loss": -surrogate,
        "entropy": distribution.entropy(outputs_of(new), new.log_std).mean(),
        "kl": step.kl,
        "step_fraction": step.fraction,
    }
    return new, metrics | limited


def _step_under_limits(
    config: TrustRegion,
    policy: Policy,
    batch: Batch,
    ratio: Callable[[Policy], jax.Array],
    mean_kl: Callable[[Policy], jax.Array],
) -> tuple[Policy, NaturalStep, Metrics]:
    """The step that keeps the limits, its surrogates [1 + K], and metrics of the limits."""
    costs = batch.costs
    assert costs is not None
    columns = jnp.concatenate([batch.advantage[:, None], costs.advantage], axis=1)

    def surrogates(new: Policy) -> jax.Array:
        return (ratio(new)[:, None] * columns).mean(0)

    new, found = limited_step(
        surrogates,
        mean_kl,
        policy,
        costs.excess,
        approach=config.limit_step_size,
        kl_limit=config.kl_limit,
    )
    metrics = multiplier_metrics(config, found.price * costs.reward_unit)
    metrics["recovering"] = found.recovering.astype(jnp.float32)
    return new, found.taken, metrics


POLICY_STEPS: dict[type[Config], PolicyStep] = {
    Clipped: PolicyStep(minibatch_task=clipped_task),
    TrustRegion: PolicyStep(whole_batch=trust_region_step),
}
"""The policy step of each family of configurations; a new policy step is a new entry."""


def with_shorter_steps(config: Config, progress: jax.Array | float) -> Config:
    """The configuration after a fraction `progress` of the run, where `learning_rate_decay` is set.

    A trust-region step is as long as its limit allows, however small the gradient is: without a
    decay, policies and costs keep moving with the noise of each batch. A divergence is quadratic in
    the length of a step.
    """
    if not (isinstance(config, TrustRegion) and config.learning_rate_decay):
        return config
    remaining = 1 - progress
    return with_values(
        config,
        kl_limit=config.kl_limit * remaining**2,
        limit_step_size=config.limit_step_size * remaining,
    )
