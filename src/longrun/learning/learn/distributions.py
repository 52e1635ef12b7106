"""The two families of action distributions: sampling, log-probability, entropy, KL divergence.

A family is chosen by the action space and its functions take the policy's raw outputs
("logits" for categorical, "mean" for Gaussian) together with the free log standard deviation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import accumulate
from typing import NamedTuple

import jax
import jax.numpy as jnp

from longrun.learning.envs.spaces import Spaces

HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)


class Distribution(NamedTuple):
    """Functions of (outputs [..., K], log_std [L]); L is 0 for categorical policies."""

    log_prob: Callable[[jax.Array, jax.Array, jax.Array], jax.Array]
    """(outputs, log_std, action [..., A]) -> [...]"""
    entropy: Callable[[jax.Array, jax.Array], jax.Array]
    """(outputs, log_std) -> [...]"""
    kl: Callable[[jax.Array, jax.Array, jax.Array, jax.Array], jax.Array]
    """KL(p || q) from (outputs_p, log_std_p, outputs_q, log_std_q) -> [...]"""
    sample: Callable[[jax.Array, jax.Array, jax.Array], jax.Array]
    """(outputs, log_std, key) -> actions [..., A]"""
    mode: Callable[[jax.Array], jax.Array]
    """outputs -> the most likely actions [..., A]"""


def distribution_of(spaces: Spaces) -> Distribution:
    return categorical(spaces.categories) if spaces.categories else GAUSSIAN


def _gaussian_log_prob(mean: jax.Array, log_std: jax.Array, action: jax.Array) -> jax.Array:
    standardised = (action - mean) * jnp.exp(-log_std)
    return jnp.sum(-0.5 * standardised**2 - log_std - HALF_LOG_TAU, axis=-1)


def _gaussian_entropy(mean: jax.Array, log_std: jax.Array) -> jax.Array:
    entropy = jnp.sum(log_std + 0.5 + HALF_LOG_TAU)
    return jnp.broadcast_to(entropy, mean.shape[:-1])


def _gaussian_kl(
    mean_p: jax.Array, log_std_p: jax.Array, mean_q: jax.Array, log_std_q: jax.Array
) -> jax.Array:
    variance_ratio = jnp.exp(2 * (log_std_p - log_std_q))
    distance = ((mean_p - mean_q) * jnp.exp(-log_std_q)) ** 2
    return jnp.sum(0.5 * (variance_ratio + distance - 1) + log_std_q - log_std_p, axis=-1)


def _gaussian_sample(mean: jax.Array, log_std: jax.Array, key: jax.Array) -> jax.Array:
    return mean + jnp.exp(log_std) * jax.random.normal(key, mean.shape)


GAUSSIAN = Distribution(
    _gaussian_log_prob, _gaussian_entropy, _gaussian_kl, _gaussian_sample, lambda mean: mean
)


def components(sizes: tuple[int, ...], x: jax.Array) -> list[jax.Array]:
    """[..., sum(sizes)] -> [..., size] for each component of a categorical action."""
    return jnp.split(x, list(accumulate(sizes))[:-1], axis=-1)


def categorical(sizes: tuple[int, ...]) -> Distribution:
    """Independent categorical components; outputs [..., sum(sizes)], actions [..., len(sizes)]."""

    def log_probs(logits: jax.Array) -> list[jax.Array]:
        return [jax.nn.log_softmax(part) for part in components(sizes, logits)]

    def log_prob(logits: jax.Array, _: jax.Array, action: jax.Array) -> jax.Array:
        chosen = [
            jnp.take_along_axis(part, action[..., i, None].astype(jnp.int32), axis=-1)[..., 0]
            for i, part in enumerate(log_probs(logits))
        ]
        return jnp.sum(jnp.stack(chosen), axis=0)

    def entropy(logits: jax.Array, _: jax.Array) -> jax.Array:
        parts = [-jnp.sum(jnp.exp(part) * part, axis=-1) for part in log_probs(logits)]
        return jnp.sum(jnp.stack(parts), axis=0)

    def kl(p: jax.Array, _: jax.Array, q: jax.Array, __: jax.Array) -> jax.Array:
        parts = [
            jnp.sum(jnp.exp(lp) * (lp - lq), axis=-1)
            for lp, lq in zip(log_probs(p), log_probs(q), strict=True)
        ]
        return jnp.sum(jnp.stack(parts), axis=0)

    def sample(logits: jax.Array, _: jax.Array, key: jax.Array) -> jax.Array:
        # Gumbel-max trick: the argmax of logits with Gumbel noise is a sample.
        return mode(logits + jax.random.gumbel(key, logits.shape))

    def mode(logits: jax.Array) -> jax.Array:
        parts = components(sizes, logits)
        return jnp.stack([part.argmax(-1) for part in parts], -1).astype(jnp.int32)

    return Distribution(log_prob, entropy, kl, sample, mode)
