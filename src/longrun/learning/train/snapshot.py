"""Where a replica is: what was learned, and its environments. How one begins."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

import jax

from longrun.base.errors import InputError
from longrun.base.memory import require_memory
from longrun.learning.envs.flat_spaces import require_bounds
from longrun.learning.envs.spaces import Array, Spaces
from longrun.learning.learn import learner
from longrun.learning.learn.compilation import use_compilation_cache
from longrun.learning.learn.types import TrainState
from longrun.learning.options.acting import MLP
from longrun.learning.options.config import Config
from longrun.learning.options.config_options import own_networks


class Snapshot(NamedTuple):
    """All that is needed to resume a replica."""

    state: TrainState
    environments: Mapping[str, Array]
    """named arrays that restore the environments; on a device empty before the first step"""


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
