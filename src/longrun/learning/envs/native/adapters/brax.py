"""Brax's environments: 'brax:halfcheetah', 'brax:ant?backend=spring&time_limit=0'."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import mujoco

from longrun.base.checks import known
from longrun.learning.envs.env_strings import join_env
from longrun.learning.envs.factories import mujoco_warning
from longrun.learning.envs.native.adapters.brax_like import brax_like
from longrun.learning.envs.native.adapters.packages import env_id, import_package, time_limit
from longrun.learning.envs.native.protocol import Environment

EXTRA = "brax"
BACKENDS = ("generalized", "mjx", "positional", "spring")
EVERY_ENVIRONMENT = {"backend": "", "n_frames": 1, "debug": False, "time_limit": 1000}
"""Defaults; Brax's own training cuts episodes off after as many steps."""


def make(name: str, args: dict[str, Any]) -> Environment:
    """Arguments are the environment class's own, and `time_limit` (0 for none)."""
    envs = import_package("brax.envs", f"brax:{name}", EXTRA)
    classes = envs._envs  # Brax has no public list of its environments
    brax_id = env_id("brax", name, classes)
    defaults = EVERY_ENVIRONMENT | _defaults(classes[name])
    limit = time_limit(brax_id, args, defaults, "time_limit")
    if "backend" in args:
        known(f"backend of '{brax_id}'", args["backend"], BACKENDS)
    own = {key: value for key, value in args.items() if key != "time_limit"}
    mujoco.set_mju_user_warning(mujoco_warning)  # instead of a log file in the working directory
    with warnings.catch_warnings():
        # Each environment warns that Brax's physics is not maintained, which its users know.
        warnings.filterwarnings("ignore", "Brax System, piplines and environments", UserWarning)
        env = envs.get_environment(name, **own)
    return brax_like(join_env(brax_id, args), env, limit)


def _defaults(env_class: Any) -> dict[str, Any]:
    """The constructor's own arguments and their defaults."""
    parameters = inspect.signature(env_class.__init__).parameters.values()
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {
        parameter.name: None if parameter.default is parameter.empty else parameter.default
        for parameter in parameters
        if parameter.kind in kinds and parameter.name != "self"
    }
