"""Acting with NumPy: on a few rows the policy network is tens of times faster than a jitted call.

Weights are one flat float32 vector, of which `NumpyPolicy` holds views. A row's action does not
depend on which other rows are computed with it, bit for bit: each row is a matrix-vector product.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from longrun.learning.envs.flat_spaces import Array, Spaces, mean_within
from longrun.learning.options.acting import Acting

OBSERVATION_LIMIT = 10.0
"""Standardised observations are clipped to +- this, in acting and in learning."""
LAYER_NORM_EPSILON = 1e-5
"""Added to a variance by which hidden layers are standardised."""
FORBIDDEN = -1e9
"""The logit of a choice that the mask forbids: its probability is exactly 0."""


def weight_shapes(acting: Acting, spaces: Spaces) -> list[tuple[int, ...]]:
    """Shapes in the flat vector: observation mean and inverse std, log std, then the network's."""
    features, stds = (spaces.feature_size,), (0 if spaces.categories else spaces.action_size,)
    shapes = [features, features, stds]
    if not acting.is_mlp:
        from longrun.learning.envs.own_policy import own_shapes

        return shapes + own_shapes(acting.policy_network, spaces)
    sizes = (spaces.feature_size, *acting.hidden_sizes, spaces.policy_outputs)
    return shapes + [shape for n, m in pairwise(sizes) for shape in ((n, m), (m,))]


def count_weights(acting: Acting, spaces: Spaces) -> int:
    """W, the length of the flat vector."""
    return sum(math.prod(shape) for shape in weight_shapes(acting, spaces))


def split_weights(shapes: Sequence[tuple[int, ...]], flat: Array) -> list[Array]:
    """Views of these shapes, one after the other in the flat vector."""
    parts = np.split(flat, np.cumsum([math.prod(shape) for shape in shapes])[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


class NumpyPolicy:
    """A policy with its weights in `flat` [W], which may be shared memory.

    A network of the user needs JAX to act.
    """

    def __init__(self, acting: Acting, spaces: Spaces, flat: Array) -> None:
        self._normalize = acting.normalize_observations
        self._bounded_mean = acting.bounded_mean and not spaces.categories
        self._spaces = spaces
        self._mask_size = spaces.mask_size
        self._ends = np.cumsum(spaces.categories)
        parts = split_weights(weight_shapes(acting, spaces), flat)
        self._mean, self._inverse_std, self._log_std, *params = parts
        self._network = _network(acting, spaces, params)

    def outputs(self, obs: Array) -> Array:
        """[n, D] -> [n, K]: means of a Gaussian policy, logits of a categorical one."""
        width = self._mask_size
        mask, x = obs[:, :width], obs[:, width:]
        if self._normalize:
            x = (x - self._mean) * self._inverse_std
            # As np.clip, which takes three times as long on a row.
            x = np.minimum(np.maximum(x, -OBSERVATION_LIMIT), OBSERVATION_LIMIT)
        outputs = self._network(x)
        if self._spaces.masked:
            outputs = np.where(mask > 0, outputs, np.float32(FORBIDDEN))
        if self._bounded_mean:
            outputs = mean_within(np, self._spaces, outputs)
        return outputs

    def act(self, obs: Array, noise: Array | None) -> Array:
        """Actions [n, A] from observations [n, D] and noise [n, A]; without noise, the mode.

        Noise is standard normal for Gaussian policies and uniform in (0, 1) for categorical ones.
        """
        outputs = self.outputs(obs)
        if not self._spaces.categories:
            if noise is not None:
                outputs += np.exp(self._log_std) * noise
            return outputs
        parts = np.split(outputs, self._ends[:-1], axis=1)
        if noise is None:
            columns = [part.argmax(1) for part in parts]
        else:
            columns = [_draw(part, noise[:, i]) for i, part in enumerate(parts)]
        actions: Array = np.stack(columns, axis=1)
        return actions


def _network(acting: Acting, spaces: Spaces, params: list[Array]) -> Callable[[Array], Array]:
    """A function [n, F] -> [n, K], whose result is a new array."""
    if not acting.is_mlp:
        from longrun.learning.envs.own_policy import own_network

        return own_network(acting.policy_network, spaces, params)
    layers = list(zip(params[::2], params[1::2], strict=True))
    last, activate, layer_norm = len(layers) - 1, ACTIVATIONS[acting.activation], acting.layer_norm

    def perceptron(x: Array) -> Array:
        x = x[:, None]  # [n, 1, F]: one matrix-vector product a row
        for i, (weights, bias) in enumerate(layers):
            x = np.matmul(x, weights)
            if i < last and layer_norm:
                _standardise(x)
            x += bias
            if i < last:
                activate(x, out=x)
        outputs: Array = x[:, 0]
        return outputs

    return perceptron


def _relu(x: Array, out: Array) -> Array:
    return np.maximum(x, np.float32(0), out=out)


def _silu(x: Array, out: Array) -> Array:
    # By tanh, which cannot overflow: x times the logistic function of x.
    return np.multiply(x, np.float32(0.5) * (1 + np.tanh(np.float32(0.5) * x)), out=out)


ACTIVATIONS: dict[str, Callable[..., Array]] = {"tanh": np.tanh, "relu": _relu, "silu": _silu}


def _standardise(x: Array) -> None:
    """Layer normalisation of [..., n], in place."""
    x -= x.mean(-1, keepdims=True)
    variance = np.mean(x * x, -1, keepdims=True)
    x /= np.sqrt(variance + np.float32(LAYER_NORM_EPSILON))


def _draw(logits: Array, uniform: Array) -> Array:
    """Inverse transform sampling: [n, K] logits and [n] uniforms -> [n] choices."""
    weights = np.exp(logits - logits.max(1, keepdims=True))
    cumulative = np.cumsum(weights, axis=1)
    choice = (cumulative <= uniform[:, None] * cumulative[:, -1:]).sum(1)
    last = (cumulative < cumulative[:, -1:]).sum(1)  # the last choice with a weight above 0
    bounded: Array = np.minimum(choice, last)  # rounding must not exceed it
    return bounded


def draw_noise(rng: np.random.Generator, spaces: Spaces, steps: int) -> Any:
    """[steps, A] noise for one environment's rollout."""
    shape = (steps, spaces.action_size)
    if spaces.categories:
        return rng.random(shape, dtype=np.float32)
    return rng.standard_normal(shape, dtype=np.float32)
