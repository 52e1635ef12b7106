"""The two networks of an agent: multilayer perceptrons, or pairs of functions of the user.

A user's pair is `init(key, inputs, outputs) -> params` and `apply(params, x) -> y`, where x is
[n, inputs] and y [n, outputs]. The parameters are any pytree of float32 arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from longrun.base.errors import InputError
from longrun.learning.envs.numpy_policy import LAYER_NORM_EPSILON
from longrun.learning.envs.spaces import Spaces
from longrun.learning.learn.types import Networks
from longrun.learning.options.acting import MLP, Acting
from longrun.learning.options.config import Config
from longrun.learning.options.config_options import function_name


def init_networks(config: Config, spaces: Spaces, key: jax.Array) -> Networks:
    """Parameters of both networks, without the policy's standard deviations."""
    policy_key, value_key = split_keys(key, 2)
    return Networks(
        _init(config.policy_network, policy_key, policy_sizes(config, spaces), 0.01),
        _init(config.value_network, value_key, value_sizes(config, spaces), 1.0),
    )


def _init(network: Any, key: jax.Array, sizes: Sequence[int], output_gain: float) -> Any:
    if network != MLP:
        return _own_params(network, key, sizes[0], sizes[-1])
    return init_mlp(key, sizes, output_gain)


def policy_sizes(config: Config, spaces: Spaces) -> tuple[int, ...]:
    """Layers of the policy's perceptron, inputs first."""
    return (spaces.feature_size, *config.hidden_sizes, spaces.policy_outputs)


def value_sizes(config: Config, spaces: Spaces) -> tuple[int, ...]:
    """Layers of the value's perceptron, inputs first."""
    hidden = config.value_hidden_sizes or config.hidden_sizes
    return (spaces.feature_size, *hidden, 1 + len(config.headed_limits))


def apply_network(network: Any, acting: Acting, params: Any, features: jax.Array) -> jax.Array:
    """[..., F] -> the outputs of one of the two networks, [..., K].

    The policy's are means or logits; the value's are those of the reward and of limited costs.
    A user's function is given one batch axis, however many there are.
    """
    if network == MLP:
        return apply_mlp(acting, params, features)
    rows = features.reshape(-1, features.shape[-1])
    outputs: jax.Array = network[1](params, rows)
    return outputs.reshape(*features.shape[:-1], outputs.shape[-1])


@partial(jax.jit, static_argnums=(0, 2, 3))
def _own_params(network: Any, key: jax.Array, inputs: int, outputs: int) -> Any:
    """The user's parameters. Raises InputError unless they and the outputs have valid shapes."""
    init, apply = network
    params = init(key, inputs, outputs)
    leaves = jax.tree.leaves(params)
    if not leaves or any(jnp.result_type(leaf) != jnp.float32 for leaf in leaves):
        kinds = sorted({str(jnp.result_type(leaf)) for leaf in leaves})
        raise InputError(
            f"{function_name(init)} makes parameters of {', '.join(kinds) or 'no arrays'}; it must"
            " make float32 arrays"
        )
    rows = jax.ShapeDtypeStruct((2, inputs), jnp.float32)
    found = jax.eval_shape(apply, params, rows)
    if getattr(found, "shape", None) != (2, outputs):
        shape = getattr(found, "shape", type(found).__name__)
        raise InputError(
            f"{function_name(apply)} maps [2, {inputs}] to {shape}; it must map [n, inputs] to"
            f" [n, outputs], here [2, {outputs}]"
        )
    return jax.tree.map(jnp.asarray, params)


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
