"""Actions of a learned policy for observations in an environment's own spaces."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces as gym_spaces

from longrun.learning.envs.space_forms import form_of
from longrun.learning.envs.spaces import action_reader, observation_writer
from longrun.learning.learn.types import TrainState
from longrun.learning.options.config import Config, algorithm_name
from longrun.learning.policy.policy import Interface, Policy
from longrun.learning.train.host.replica import flat_weights
from longrun.learning.train.loops import Loop


def make_policy(loop: Loop, config: Config, state: TrainState, rng: np.random.Generator) -> Policy:
    """The policy of one state, which draws stochastic actions with `rng`."""
    observation, action = loop.observation_space, loop.action_space
    is_array = not isinstance(observation, gym_spaces.Dict | gym_spaces.Tuple)
    interface = Interface(
        observation_writer(observation),
        action_reader(action),
        observation.shape if is_array else None,
        action.shape or (),
        interface_of(loop),
    )
    about = {"algorithm": algorithm_name(config), "env": loop.name}
    return Policy(config.acting, loop.spaces, flat_weights(state), interface, rng, about)


def interface_of(loop: Loop) -> dict[str, Any] | None:
    """The environment's spaces for a checkpoint; None if one is of a class of the user."""
    spaces = {"observation": loop.observation_space, "action": loop.action_space}
    forms = {name: form_of(space) for name, space in spaces.items()}
    return None if None in forms.values() else forms
