"""The policy steps: how advantages change the policy (line 9 of Algorithm 1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from longrun.learning.envs.spaces import Spaces
from longrun.learning.learn import trust_region
from longrun.learning.learn.acting import policy_outputs
from longrun.learning.learn.distributions import distribution_of
from longrun.learning.learn.limited_step import limited_step
from longrun.learning.learn.limits import multiplier_metrics
from longrun.learning.learn.minibatches import Task
from longrun.learning.learn.types import Batch, Metrics, Policy
from longrun.learning.learn.weights import weighted_mean
from longrun.learning.options.config import Clipped, Config, TrustRegion


class PolicyStep(NamedTuple):
    """How a policy is improved, in one of two forms; the other is None."""

    minibatch_task: Callable[[Any, Spaces, Policy, Any, Batch, jax.Array], Task] | None = None
    """what epochs of minibatches train, besides the value network"""
    whole_batch: Callable[[Any, Spaces, Policy, Batch], tuple[Policy, Metrics]] | None = None
    """a single step on the whole batch"""


def policy_step_of(config: Config) -> PolicyStep:
    """The entry of `POLICY_STEPS` for the configuration's kind."""
    return next(step for kind, step in POLICY_STEPS.items() if isinstance(config, kind))


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
    distribution = distribution_of(spaces)

    def loss(policy: Policy, samples: tuple[jax.Array, ...]) -> tuple[jax.Array, Metrics]:
        features, mask, weight, action, old_log_prob, advantage = samples
        outputs = policy_outputs(config.acting, spaces, policy, features, mask)
        log_ratio = distribution.log_prob(outputs, policy.log_std, action) - old_log_prob
        ratio = jnp.exp(log_ratio)
        surrogates = clipped_surrogate(ratio, advantage, config.clip_range)
        surrogate = weighted_mean(surrogates, weight)
        entropy = weighted_mean(distribution.entropy(outputs, policy.log_std), weight)
        metrics = {
            "policy_loss": -surrogate,
            "entropy": entropy,
            "kl": weighted_mean(ratio - 1 - log_ratio, weight),
            "clip_fraction": weighted_mean(jnp.abs(ratio - 1) > config.clip_range, weight),
        }
        return -surrogate - config.entropy_coefficient * entropy, metrics

    outputs = policy_outputs(config.acting, spaces, policy, batch.features, batch.mask)
    old_log_prob = distribution.log_prob(outputs, policy.log_std, batch.action)
    facts = (batch.features, batch.mask, batch.weight, batch.action, old_log_prob)
    return Task(loss, policy, opt_state, (*facts, batch.advantage), shuffles)


def trust_region_step(
    config: TrustRegion, spaces: Spaces, policy: Policy, batch: Batch
) -> tuple[Policy, Metrics]:
    """One natural-gradient step on the whole batch, limited by the KL divergence and the costs."""
    distribution = distribution_of(spaces)
    old_outputs = policy_outputs(config.acting, spaces, policy, batch.features, batch.mask)
    old_log_prob = distribution.log_prob(old_outputs, policy.log_std, batch.action)

    def ratio(new: Policy) -> jax.Array:
        outputs = policy_outputs(config.acting, spaces, new, batch.features, batch.mask)
        return jnp.exp(distribution.log_prob(outputs, new.log_std, batch.action) - old_log_prob)

    def mean_kl(new: Policy) -> jax.Array:
        outputs = policy_outputs(config.acting, spaces, new, batch.features, batch.mask)
        kl = distribution.kl(old_outputs, policy.log_std, outputs, new.log_std)
        return weighted_mean(kl, batch.weight)

    if batch.costs is None:
        new, step = trust_region.natural_step(
            lambda new: weighted_mean(ratio(new) * batch.advantage, batch.weight),
            mean_kl,
            policy,
            **_search(config),
        )
        surrogate, limited = step.surrogate, Metrics()
    else:
        new, step, limited = _step_under_limits(config, policy, batch, ratio, mean_kl)
        surrogate = step.surrogate[0]
    outputs = policy_outputs(config.acting, spaces, new, batch.features, batch.mask)
    metrics = {
        "policy_loss": -surrogate,
        "entropy": weighted_mean(distribution.entropy(outputs, new.log_std), batch.weight),
        "kl": step.kl,
        "step_fraction": step.fraction,
    }
    return new, metrics | limited


def _search(config: TrustRegion) -> dict[str, Any]:
    """Options of the step and its line search."""
    return {
        "kl_limit": config.kl_limit,
        "damping": config.cg_damping,
        "cg_iterations": config.cg_iterations,
        "line_search_steps": config.line_search_steps,
    }


def _step_under_limits(
    config: TrustRegion,
    policy: Policy,
    batch: Batch,
    ratio: Callable[[Policy], jax.Array],
    mean_kl: Callable[[Policy], jax.Array],
) -> tuple[Policy, trust_region.NaturalStep, Metrics]:
    """The step that keeps the limits, its surrogates [1 + K], and metrics of the limits."""
    costs = batch.costs
    assert costs is not None
    columns = jnp.concatenate([batch.advantage[:, None], costs.advantage], axis=1)

    def surrogates(new: Policy) -> jax.Array:
        weighted = ratio(new)[:, None] * columns
        return jax.vmap(weighted_mean, in_axes=(1, None))(weighted, batch.weight)

    new, found = limited_step(
        surrogates,
        mean_kl,
        policy,
        costs.excess,
        approach=config.limit_approach,
        **_search(config),
    )
    metrics = multiplier_metrics(config, found.price * costs.reward_unit)
    metrics["recovering"] = found.recovering.astype(jnp.float32)
    return new, found.taken, metrics


POLICY_STEPS: dict[type[Config], PolicyStep] = {
    Clipped: PolicyStep(minibatch_task=clipped_task),
    TrustRegion: PolicyStep(whole_batch=trust_region_step),
}
"""The policy step of each family of configurations; a new policy step is a new entry."""
