"""A warning where a new policy's actions would be a small part of those that are allowed."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable

import numpy as np

from longrun.base.errors import users_level
from longrun.learning.envs.flat_spaces import Spaces
from longrun.learning.options.config import Config

REACH = 10
"""Standard deviations of a new policy from its mean to a bound, beyond which a warning is given."""


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
            warnings.warn(
                f"the bounds of actions are up to {reach:g} from the mean of a new policy, whose"
                f" standard deviation is {deviation:.2g}, so that most of the range is hardly"
                " tried; scale actions to [-1, 1], for example with"
                " gymnasium.wrappers.RescaleAction",
                UserWarning,
                stacklevel=users_level(),
            )
            return
