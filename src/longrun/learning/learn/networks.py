"""The two networks of an agent: multilayer perceptrons, or pairs of functions of the user.

A user's pair is `init(key, inputs, outputs) -> params` and `apply(params, x) -> y`, where x is
[n, inputs] and y [n, outputs]. The parameters are any pytree of float32 arrays.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from longrun.base.errors import InputError
from longrun.learning.envs.spaces import Spaces
from longrun.learning.learn.mlp import apply_mlp, init_mlp
from longrun.learning.options.acting import MLP, Acting
from longrun.learning.options.config import Config
from longrun.learning.options.config_options import function_name


def init_policy_network(config: Config, spaces: Spaces, key: jax.Array) -> Any:
    """Parameters of a network from features [F] to means or logits [K]."""
    if config.policy_network != MLP:
        inputs, outputs = spaces.feature_size, spaces.policy_outputs
        return _own_params(config.policy_network, key, inputs, outputs)
    return init_mlp(key, policy_sizes(config, spaces), output_gain=0.01)


def init_value_network(config: Config, spaces: Spaces, key: jax.Array) -> Any:
    """Parameters of a network from features [F] to one value, and one for each limited cost."""
    if config.value_network != MLP:
        outputs = 1 + len(config.headed_limits)
        return _own_params(config.value_network, key, spaces.feature_size, outputs)
    return init_mlp(key, value_sizes(config, spaces), output_gain=1.0)


def policy_sizes(config: Config, spaces: Spaces) -> tuple[int, ...]:
    """Layers of the policy's perceptron, inputs first."""
    return (spaces.feature_size, *config.hidden_sizes, spaces.policy_outputs)


def value_sizes(config: Config, spaces: Spaces) -> tuple[int, ...]:
    """Layers of the value's perceptron, inputs first."""
    hidden = config.value_hidden_sizes or config.hidden_sizes
    return (spaces.feature_size, *hidden, 1 + len(config.headed_limits))


def policy_network(acting: Acting, params: Any, features: jax.Array) -> jax.Array:
    """[..., F] -> means or logits [..., K]."""
    if acting.policy_network != MLP:
        return apply_own(acting.policy_network, params, features)
    return apply_mlp(acting, params, features)


def value_network(config: Config, params: Any, features: jax.Array) -> jax.Array:
    """[..., F] -> values [..., 1 + K] of the reward and of K limited costs."""
    if config.value_network != MLP:
        return apply_own(config.value_network, params, features)
    return apply_mlp(config.acting, params, features)


def apply_own(network: Any, params: Any, features: jax.Array) -> jax.Array:
    """A user's function, which is given one batch axis however many there are: [..., F]."""
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
