"""Brax's environments: 'brax:halfcheetah', 'brax:ant?backend=spring&time_limit=0'."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import mujoco

from longrun.base.checks import known
from longrun.learning.envs.env_strings import join_env
from longrun.learning.envs.factories import mujoco_warning
from longrun.learning.envs.native.adapters.brax_like import BraxLikeEnvironment
from longrun.learning.envs.native.adapters.packages import (
    check_args,
    check_time_limit,
    import_package,
)
from longrun.learning.envs.native.protocol import Environment

EXTRA = "brax"
TIME_LIMIT = 1000
"""Brax's own training cuts episodes off after as many steps."""
BACKENDS = ("generalized", "mjx", "positional", "spring")
EVERY_ENVIRONMENT = {"backend": "", "n_frames": 1, "debug": False, "time_limit": TIME_LIMIT}


def make(name: str, args: dict[str, Any]) -> Environment:
    """Arguments are the environment class's own, and `time_limit` (0 for none)."""
    env_id = f"brax:{name}"
    envs = import_package("brax.envs", env_id, EXTRA)
    # Brax has no public list of its environments.
    classes = envs._envs
    known("environment", env_id, sorted(f"brax:{known_name}" for known_name in classes))
    check_args(env_id, args, EVERY_ENVIRONMENT | _defaults(classes[name]))
    if "backend" in args:
        known(f"backend of '{env_id}'", args["backend"], BACKENDS)
    own = {key: value for key, value in args.items() if key != "time_limit"}
    limit = check_time_limit(env_id, "time_limit", args.get("time_limit", TIME_LIMIT))
    mujoco.set_mju_user_warning(mujoco_warning)  # instead of a log file in the working directory
    with warnings.catch_warnings():
        # Each environment warns that Brax's physics is not maintained, which its users know.
        warnings.filterwarnings("ignore", "Brax System, piplines and environments", UserWarning)
        env = envs.get_environment(name, **own)
    return BraxLikeEnvironment(join_env(env_id, args), env, limit)


def _defaults(env_class: Any) -> dict[str, Any]:
    """The constructor's own arguments and their defaults."""
    parameters = inspect.signature(env_class.__init__).parameters.values()
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {
        parameter.name: None if parameter.default is parameter.empty else parameter.default
        for parameter in parameters
        if parameter.kind in kinds and parameter.name != "self"
    }
