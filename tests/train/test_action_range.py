"""A warning where a new policy's actions are a small part of those that are allowed."""

from __future__ import annotations

import math
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import RescaleAction

from longrun import APO
from longrun.learning.envs.flat_spaces import Spaces
from longrun.learning.options.config_options import make_config
from longrun.learning.train.new_policy import warn_of_wide_actions
from tiny_envs import TINY, Drift

BOUNDS = {
    "to 3, which the preset's .37 reaches": ((-3.0, 3.0), {}, None),
    "to 4": ((-4.0, 4.0), {}, r"up to 4 from the mean of a new policy, .* is 0\.37,"),
    "to 4 with a deviation of 1": ((-4.0, 4.0), {"initial_log_std": 0.0}, None),
    "from 0 to 100": ((0.0, 100.0), {}, "up to 100 from the mean"),
    "far from 0": ((10.0, 11.0), {}, "up to 11 from the mean"),
    "without bounds": ((-math.inf, math.inf), {}, None),
    "without one bound": ((0.0, math.inf), {}, None),
}


@pytest.mark.parametrize("case", BOUNDS)
def test_a_range_that_a_new_policy_hardly_reaches_is_named(case):
    (low, high), options, words = BOUNDS[case]
    spaces = Spaces(1, 2, low=(-1.0, low), high=(1.0, high))
    configs = [make_config("apo", "tuned", **options)] * 2
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        warn_of_wide_actions(spaces, configs)
    assert len(found) == (0 if words is None else 1)
    if words is not None:
        with pytest.warns(UserWarning, match=words):
            warn_of_wide_actions(spaces, configs)


def test_choices_have_no_range():
    warn_of_wide_actions(Spaces(1, 1, (1000,)), [make_config("apo", "tuned")])


class Wide(Drift):
    def __init__(self):
        super().__init__(forgiving=True)
        self.action_space = gymnasium.spaces.Box(0.0, 100.0, (1,), np.float32)


def test_an_agent_warns_at_the_users_line_and_scaled_actions_do_not():
    with pytest.warns(UserWarning, match=r"scale actions to \[-1, 1\]") as found:
        APO(Wide, num_workers=0, **TINY)
    assert found[0].filename == __file__
    APO(lambda: RescaleAction(Wide(), np.float32(-1), np.float32(1)), num_workers=0, **TINY)
