"""How the networks read an observation row, and how a policy acts inside a compiled program."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from longrun.learning.envs.flat_spaces import mean_within
from longrun.learning.envs.numpy_policy import FORBIDDEN, OBSERVATION_LIMIT
from longrun.learning.envs.spaces import Spaces
from longrun.learning.learn.distributions import distribution_of
from longrun.learning.learn.moments import Moments, inverse_std
from longrun.learning.learn.networks import apply_network
from longrun.learning.learn.types import Policy, TrainState
from longrun.learning.options.acting import Acting


class Seen(NamedTuple):
    """What the networks see of an observation row [..., D]."""

    features: jax.Array
    """[..., F], standardised if `normalize_observations` is set"""
    mask: jax.Array
    """[..., K], above 0 where a choice is allowed; [..., 0] without masks"""


def read(acting: Acting, spaces: Spaces, moments: Moments, obs: jax.Array) -> Seen:
    """Split a row [..., D] into features and mask."""
    mask, features = jnp.split(obs, [spaces.mask_size], axis=-1)
    if acting.normalize_observations:
        scaled = (features - moments.mean) * inverse_std(moments)
        features = jnp.clip(scaled, -OBSERVATION_LIMIT, OBSERVATION_LIMIT)
    return Seen(features, mask)


def policy_outputs(
    acting: Acting, spaces: Spaces, policy: Policy, features: jax.Array, mask: jax.Array
) -> jax.Array:
    """Means or logits [..., K]; forbidden choices get a logit whose probability is 0."""
    outputs = apply_network(acting.policy_network, acting, policy.layers, features)
    if acting.bounded_mean and not spaces.categories:
        within: jax.Array = mean_within(jnp, spaces, outputs)
        return within
    return jnp.where(mask > 0, outputs, FORBIDDEN) if spaces.masked else outputs


def act(
    acting: Acting, spaces: Spaces, state: TrainState, obs: jax.Array, key: jax.Array | None
) -> jax.Array:
    """Actions [..., A] for observations [..., D]; without a key, the most likely ones."""
    seen = read(acting, spaces, state.obs_moments, obs)
    policy = state.params.policy
    outputs = policy_outputs(acting, spaces, policy, seen.features, seen.mask)
    distribution = distribution_of(spaces)
    if key is None:
        return distribution.mode(outputs)
    return distribution.sample(outputs, policy.log_std, key)
