"""Actions of a learned policy for observations in an environment's own spaces."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces as gym_spaces

from longrun.config import Config
from longrun.envs.actions import as_given
from longrun.envs.numpy_policy import NumpyPolicy, draw_noise
from longrun.envs.spaces import action_reader, observation_writer
from longrun.learn.types import TrainState
from longrun.train.host.replica import flat_weights
from longrun.train.loops import Loop


def _are_several(space: gym_spaces.Space[Any], obs: Any) -> bool:
    """Whether these are observations of the space, and not one: in a list, or a row of an array."""
    if isinstance(space, gym_spaces.Dict):
        return isinstance(obs, list | tuple) and len(obs) > 0
    if space.shape is None or isinstance(space, gym_spaces.Tuple):
        return False
    try:
        return np.ndim(obs) == len(space.shape) + 1
    except ValueError:  # rows of different lengths
        return False


class Predictor:
    """The policy of one state, in NumPy."""

    def __init__(self, loop: Loop, config: Config, state: TrainState) -> None:
        self._spaces = loop.spaces
        self._observation_space = loop.observation_space
        self._action_space = loop.action_space
        self._action_bounds = config.action_bounds
        self._policy = NumpyPolicy(
            loop.spaces,
            config.hidden_sizes,
            config.normalize_observations,
            flat_weights(state),
            config.bounded_mean,
        )

    def predict(self, obs: Any, rng: np.random.Generator | None) -> Any:
        """The action for one observation, or an array of actions for several of them.

        Actions are deterministic if `rng` is None, and otherwise drawn with it.
        """
        space = self._observation_space
        batched = _are_several(space, obs)
        write = observation_writer(space)
        rows = np.zeros((len(obs) if batched else 1, self._spaces.observation_size), np.float32)
        for row, one in zip(rows, obs if batched else [obs], strict=True):
            write(one, row)
        noise = None if rng is None else draw_noise(rng, self._spaces, len(rows))
        drawn = self._policy.act(rows, noise)
        actions = as_given(np, self._spaces, self._action_bounds, drawn)
        read = action_reader(self._action_space)
        if not batched:
            return read(actions[0])
        shape = (len(rows), *(self._action_space.shape or ()))
        return np.array([read(action) for action in actions]).reshape(shape)
