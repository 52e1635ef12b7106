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


def init_mlp_as_torch(key: jax.Array, sizes: Sequence[int]) -> Layers:
    """Weights and biases as PyTorch's Linear draws them: uniform within 1 / sqrt(inputs)."""

    def layer(key: jax.Array, n_in: int, n_out: int) -> tuple[jax.Array, jax.Array]:
        weights_key, bias_key = jax.random.split(key)
        reach = n_in**-0.5
        return (
            jax.random.uniform(weights_key, (n_in, n_out), jnp.float32, -reach, reach),
            jax.random.uniform(bias_key, (n_out,), jnp.float32, -reach, reach),
        )

    keys = jax.random.split(key, len(sizes) - 1)
    return tuple(layer(*each) for each in zip(keys, sizes[:-1], sizes[1:], strict=True))


def apply_mlp(layers: Layers, x: jax.Array) -> jax.Array:
    """[..., in] -> [..., out], tanh between the layers and none after the last."""
    *hidden, (weights, bias) = layers
    for hidden_weights, hidden_bias in hidden:
        x = jnp.tanh(x @ hidden_weights + hidden_bias)
    return x @ weights + bias
