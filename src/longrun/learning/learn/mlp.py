"""Multilayer perceptrons as plain pytrees: a tuple of (weights [in, out], bias [out]) layers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp

from longrun.learning.envs.numpy_policy import LAYER_NORM_EPSILON
from longrun.learning.options.acting import Acting

Layers = tuple[tuple[jax.Array, jax.Array], ...]


@partial(jax.jit, static_argnums=1)
def split_keys(key: jax.Array, number: int) -> tuple[jax.Array, ...]:
    return tuple(jax.random.split(key, number))


HIDDEN_GAIN = 2**0.5
"""Gain of the orthogonal weights of layers before the last."""


def init_mlp(key: jax.Array, sizes: Sequence[int], output_gain: float) -> Layers:
    """Orthogonal weights and zero biases for layers of the given `sizes`, inputs first."""
    gains = [HIDDEN_GAIN] * (len(sizes) - 2) + [output_gain]
    keys = split_keys(key, len(gains))
    return tuple(map(_orthogonal, keys, gains, sizes[:-1], sizes[1:]))


# A program for each layer: networks share those of layers that have the same size.
@partial(jax.jit, static_argnums=(2, 3))
def _orthogonal(key: jax.Array, gain: float, n_in: int, n_out: int) -> tuple[jax.Array, jax.Array]:
    weights = jax.nn.initializers.orthogonal(gain)(key, (n_in, n_out), jnp.float32)
    return weights, jnp.zeros(n_out)


ACTIVATIONS = {"tanh": jnp.tanh, "relu": jax.nn.relu, "silu": jax.nn.silu}


def apply_mlp(acting: Acting, layers: Layers, x: jax.Array) -> jax.Array:
    """[..., in] -> [..., out], with the activation between the layers and none after the last."""
    *hidden, (weights, bias) = layers
    for hidden_weights, hidden_bias in hidden:
        x = x @ hidden_weights
        if acting.layer_norm:
            x = standardised(x)
        x = ACTIVATIONS[acting.activation](x + hidden_bias)
    return x @ weights + bias


def standardised(x: jax.Array) -> jax.Array:
    """Layer normalisation [..., n]. The layer's bias, added later, is its learned offset; a learned
    scale would add little beside the weights of the next layer."""
    centred = x - x.mean(-1, keepdims=True)
    variance = (centred**2).mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt(variance + LAYER_NORM_EPSILON)
