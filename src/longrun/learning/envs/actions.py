"""How the bounds of a space apply to continuous actions: the only place that does this.

Host workers, the device loop, the learner, `predict` and the report share these functions; the
first argument is the array module, `numpy` or `jax.numpy`. Choices have no bounds, and nothing here
changes them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from longrun.base.errors import InputError
from longrun.learning.envs.flat_spaces import Array, Spaces
from longrun.learning.options.acting import ActionBounds


def as_given(xp: Any, spaces: Spaces, action_bounds: ActionBounds, action: Any) -> Any:
    """What environments are given for the policy's actions [..., A].

    Continuous actions come back in a new array, so that an environment may change its own in place
    while the learner keeps what was sampled.
    """
    if spaces.categories:
        return action
    if action_bounds == "raw":
        return xp.array(action)
    low, high = spaces.limits
    return xp.minimum(xp.maximum(action, low), high)


def mean_within(xp: Any, spaces: Spaces, outputs: Any) -> Any:
    """Means [..., A] of a Gaussian policy inside the bounds: centre + reach * tanh(outputs)."""
    centre, reach = spaces.centre_and_reach
    return centre + reach * xp.tanh(outputs)


def require_bounds(bounded_mean: bool, spaces: Spaces) -> None:
    """An InputError if the mean is to be bounded and the action space has no finite bounds."""
    if bounded_mean and not np.isfinite([*spaces.low, *spaces.high]).all():
        raise InputError(
            f"bounded_mean=True needs finite bounds, the action space has low={list(spaces.low)},"
            f" high={list(spaces.high)}; set bounded_mean=False"
        )


def advice(spaces: Spaces, action_bounds: ActionBounds, action: Array) -> str:
    """What to add to an environment's error if a raw action [A] may be its cause."""
    if spaces.categories or action_bounds != "raw":
        return ""
    low, high = spaces.limits
    if ((action >= low) & (action <= high)).all():
        return ""
    return "; its action was beyond the action space: if it refuses those, set action_bounds='clip'"
