"""Tasks trained on a batch besides the policy: the value network, or both networks as one."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from longrun.learning.learn.minibatches import Samples, Task
from longrun.learning.learn.networks import value_network
from longrun.learning.learn.types import Batch, Metrics, Networks
from longrun.learning.learn.weights import weighted_mean
from longrun.learning.options.config import Config


def value_task(
    config: Config, layers: Any, opt_state: Any, batch: Batch, shuffles: jax.Array
) -> Task:
    """M epochs on the half squared error to the targets (equ:J_V)."""

    def loss(layers: Any, samples: Samples) -> tuple[jax.Array, Metrics]:
        features, weight, target = samples
        values = value_network(config, layers, features)
        if config.limits:
            errors = ((target - values) ** 2).sum(-1)
        else:
            errors = (target - values[..., 0]) ** 2
        error = 0.5 * weighted_mean(errors, weight)
        return error, {"value_loss": error}

    samples = (batch.features, batch.weight, batch.value_target)
    return Task(loss, layers, opt_state, samples, shuffles)


def joint_task(policy: Task, value: Task, opt_state: Any) -> Task:
    """Both networks by the sum of their losses, on the minibatches of the policy.

    Adam treats each weight separately, so this changes only the norm by which gradients are
    clipped, which is that of both networks together, and the order of the value's samples.
    """
    count = len(policy.samples) - 1

    def loss(networks: Networks, samples: Samples) -> tuple[jax.Array, Metrics]:
        *facts, targets = samples
        policy_loss, metrics = policy.loss(networks.policy, (*facts[:count], targets[..., 0]))
        value_loss, more = value.loss(networks.value, (*facts[count:], targets[..., 1]))
        return policy_loss + value_loss, metrics | more

    facts = (*policy.samples[:-1], *value.samples[:-1])
    samples = (*facts, joint_targets(policy.samples[-1], value.samples[-1]))
    return Task(loss, Networks(policy.params, value.params), opt_state, samples, policy.shuffles)


def joint_targets(advantage: jax.Array, value_target: jax.Array) -> jax.Array:
    """[n] each -> [n, 2]: the targets of both networks."""
    return jnp.stack([advantage, value_target], axis=-1)
