"""Multilayer perceptrons as plain pytrees: a tuple of (weights [in, out], bias [out]) layers."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp

Layers = tuple[tuple[jax.Array, jax.Array], ...]


def init_mlp(
    key: jax.Array, sizes: Sequence[int], output_gain: float, hidden_gain: float = 2**0.5
) -> Layers:
    """Orthogonal weights and zero biases for layers of the given `sizes`, inputs first."""
    gains = [hidden_gain] * (len(sizes) - 2) + [output_gain]
    keys = jax.random.split(key, len(gains))
    return tuple(
        (jax.nn.initializers.orthogonal(gain)(k, (n_in, n_out), jnp.float32), jnp.zeros(n_out))
        for k, gain, n_in, n_out in zip(keys, gains, sizes[:-1], sizes[1:], strict=True)
    )


def apply_mlp(layers: Layers, x: jax.Array) -> jax.Array:
    """[..., in] -> [..., out], tanh between the layers and none after the last."""
    *hidden, (weights, bias) = layers
    for hidden_weights, hidden_bias in hidden:
        x = jnp.tanh(x @ hidden_weights + hidden_bias)
    return x @ weights + bias
