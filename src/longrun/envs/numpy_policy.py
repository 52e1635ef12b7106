"""Acting with NumPy: on a few rows the policy network is tens of times faster than a jitted call.

Weights are one flat float32 vector, of which `NumpyPolicy` holds views. A row's action does not
depend on which other rows are computed with it, bit for bit: each row is a matrix-vector product.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from longrun.envs.actions import mean_within
from longrun.envs.spaces import Array, Spaces

OBSERVATION_LIMIT = 10.0
"""Standardised observations are clipped to +- this, in acting and in learning."""
FORBIDDEN = -1e9
"""The logit of a choice that the mask forbids: its probability is exactly 0."""


def weight_shapes(spaces: Spaces, hidden_sizes: Sequence[int]) -> list[tuple[int, ...]]:
    """Shapes in the flat vector: observation mean and inverse std, log std, then the layers."""
    sizes = (spaces.feature_size, *hidden_sizes, spaces.policy_outputs)
    std_size = 0 if spaces.categories else spaces.action_size
    shapes: list[tuple[int, ...]] = [(sizes[0],), (sizes[0],), (std_size,)]
    for n_in, n_out in pairwise(sizes):
        shapes += [(n_in, n_out), (n_out,)]
    return shapes


def count_weights(spaces: Spaces, hidden_sizes: Sequence[int]) -> int:
    return sum(int(np.prod(shape)) for shape in weight_shapes(spaces, hidden_sizes))


class NumpyPolicy:
    """A policy whose weights are stored in `flat` [W], which may be shared memory."""

    def __init__(
        self,
        spaces: Spaces,
        hidden_sizes: Sequence[int],
        normalize: bool,
        flat: Array,
        bounded_mean: bool = False,
    ) -> None:
        parts: list[Array] = []
        offset = 0
        for shape in weight_shapes(spaces, hidden_sizes):
            size = int(np.prod(shape))
            parts.append(flat[offset : offset + size].reshape(shape))
            offset += size
        self._mean, self._inverse_std, self._log_std, *layers = parts
        self._layers = list(zip(layers[::2], layers[1::2], strict=True))
        self._normalize = normalize
        self._bounded_mean = bounded_mean and not spaces.categories
        self._spaces = spaces
        self._ends = np.cumsum(spaces.categories)

    def outputs(self, obs: Array) -> Array:
        """[n, D] -> [n, K]: means of a Gaussian policy, logits of a categorical one."""
        mask, x = np.split(obs, [self._spaces.mask_size], axis=1)
        if self._normalize:
            x = (x - self._mean) * self._inverse_std
            x = np.clip(x, -OBSERVATION_LIMIT, OBSERVATION_LIMIT)
        x = x[:, None]  # [n, 1, D]: one matrix-vector product a row
        last = len(self._layers) - 1
        for i, (weights, bias) in enumerate(self._layers):
            x = np.matmul(x, weights)
            x += bias
            if i < last:
                np.tanh(x, out=x)
        outputs: Array = x[:, 0]
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
