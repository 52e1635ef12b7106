"""What is trained on a batch besides the policy: the value network, or both networks as one."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from longrun.config import Clipped
from longrun.envs.spaces import Spaces
from longrun.learn.minibatches import Samples, Task
from longrun.learn.mlp import Layers, apply_mlp
from longrun.learn.policy_steps import clipped_task
from longrun.learn.types import Batch, Metrics, Networks
from longrun.learn.weights import weighted_mean


def value_task(layers: Layers, opt_state: Any, batch: Batch, shuffles: jax.Array) -> Task:
    """M epochs on the half squared error to the targets (equ:J_V)."""

    def loss(layers: Layers, samples: Samples) -> tuple[jax.Array, Metrics]:
        features, weight, target = samples
        errors = (target - apply_mlp(layers, features)[..., 0]) ** 2
        error = 0.5 * weighted_mean(errors, weight)
        return error, {"value_loss": error}

    samples = (batch.features, batch.weight, batch.value_target)
    return Task(loss, layers, opt_state, samples, shuffles)


def joint_task(
    config: Clipped,
    spaces: Spaces,
    networks: Networks,
    opt_state: Any,
    batch: Batch,
    shuffles: jax.Array,
) -> Task:
    """Both networks by the sum of their losses, on the same minibatches.

    Adam treats each weight on its own, so what this changes is the norm that gradients are clipped
    by, which is that of both together, and the order of the value's samples, the policy's.
    """
    policy = clipped_task(config, spaces, networks.policy, (), batch, shuffles)
    value = value_task(networks.value, (), batch, shuffles)
    count = len(policy.samples) - 1

    def loss(networks: Networks, samples: Samples) -> tuple[jax.Array, Metrics]:
        *facts, words = samples
        policy_loss, metrics = policy.loss(networks.policy, (*facts[:count], words[..., 0]))
        value_loss, more = value.loss(networks.value, (*facts[count:], words[..., 1]))
        return policy_loss + value_loss, metrics | more

    facts = (*policy.samples[:-1], *value.samples[:-1])
    return Task(loss, networks, opt_state, (*facts, joint_words(batch)), shuffles)


def joint_words(judged: Any) -> jax.Array:
    """[n, 2]: the criterion's word for both networks, from anything that has both."""
    return jnp.stack([judged.advantage, judged.value_target], axis=-1)
