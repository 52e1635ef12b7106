"""What a replica begins with, and what is wrong with it in an environment."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise

import jax
import numpy as np

from longrun.base.errors import InputError, warn
from longrun.base.memory import require_memory
from longrun.learning.envs.flat_spaces import Spaces, require_bounds
from longrun.learning.learn import learner
from longrun.learning.learn.compilation import use_compilation_cache
from longrun.learning.learn.types import TrainState
from longrun.learning.options.acting import MLP
from longrun.learning.options.config import Config
from longrun.learning.options.config_options import own_networks

REACH = 10
"""Standard deviations of a new policy from its mean to a bound, beyond which a warning is given."""


def fresh_state(config: Config, spaces: Spaces, seed: int) -> TrainState:
    """The learner's state before the first iteration."""
    for name in own_networks(vars(config)):
        if isinstance(network := getattr(config, name), str):
            raise InputError(f"{name}={network!r} must be 'mlp' or a pair of functions")
    require_bounds(config.acting.bounded_mean, spaces)
    _require_room(config, spaces)
    use_compilation_cache()
    state: TrainState = learner.init(config, spaces, jax.random.key(seed))
    return state


def _require_room(config: Config, spaces: Spaces) -> None:
    """Raise InputError if a network, with the two moments of Adam, is larger than the memory."""
    value = "value_hidden_sizes" if config.value_hidden_sizes else "hidden_sizes"
    for name, outputs, network in (
        ("hidden_sizes", spaces.policy_outputs, config.policy_network),
        (value, 1, config.value_network),
    ):
        if network != MLP:
            continue
        hidden = getattr(config, name)
        sizes = [spaces.feature_size, *hidden, outputs]
        weights = sum(m * n for m, n in pairwise(sizes))
        require_memory(3 * 4 * weights, f"{name}={hidden}: weights and optimiser")


def warn_of_wide_actions(spaces: Spaces, configs: Iterable[Config]) -> None:
    """Warn if the bounds of continuous actions are far from those that a new policy takes.

    These are normally distributed, in the action's own units, around 0 or with `bounded_mean`
    around the middle of the range.
    """
    low, high = np.array(spaces.low), np.array(spaces.high)
    finite = np.isfinite(low) & np.isfinite(high)
    low, high = low[finite], high[finite]
    for config in configs:
        mean = (low + high) / 2 if config.acting.bounded_mean else 0.0
        reach = np.maximum(high - mean, mean - low).max(initial=0.0)
        deviation = math.exp(config.initial_log_std)
        if reach > REACH * deviation:
            warn(
                f"the bounds of actions are up to {reach:g} from the mean of a new policy, whose"
                f" standard deviation is {deviation:.2g}, so that most of the range is hardly"
                " tried; scale actions to [-1, 1], for example with"
                " gymnasium.wrappers.RescaleAction"
            )
            return
