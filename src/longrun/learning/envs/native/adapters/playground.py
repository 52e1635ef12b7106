"""MuJoCo Playground's environments: 'playground:CheetahRun', 'playground:CheetahRun?impl=warp'.

Arguments are entries of an environment's configuration, nested ones with dots. Its time limit is
the entry `episode_length` (0 for none). The physics runs in JAX unless `impl=warp` asks for Warp,
Playground's own default, which is a package of its own and needs an NVIDIA GPU.
"""

from __future__ import annotations

import subprocess
from typing import Any

import mujoco

from longrun.base.checks import known
from longrun.base.errors import InputError
from longrun.learning.envs.env_strings import join_env
from longrun.learning.envs.factories import mujoco_warning
from longrun.learning.envs.native.adapters.brax_like import BraxLikeEnvironment
from longrun.learning.envs.native.adapters.packages import (
    check_args,
    check_time_limit,
    import_package,
)
from longrun.learning.envs.native.protocol import Environment

EXTRA = "playground"
FOR_ITS_OWN_TRAINING = {"action_repeat"}
"""Entries that only Playground's wrappers read, which are not used here."""


def make(name: str, args: dict[str, Any]) -> Environment:
    """An environment with these entries of its configuration changed."""
    env_id = f"playground:{name}"
    registry = import_package("mujoco_playground", env_id, EXTRA).registry
    known(
        "environment",
        env_id,
        sorted(f"playground:{known_name}" for known_name in registry.ALL_ENVS),
    )
    config = registry.get_default_config(name)
    defaults = _flat(config.to_dict())
    for entry in FOR_ITS_OWN_TRAINING:
        defaults.pop(entry, None)
    check_args(env_id, args, defaults)
    limit = check_time_limit(
        env_id, "episode_length", args.get("episode_length", config.episode_length)
    )
    mujoco.set_mju_user_warning(mujoco_warning)  # instead of a log file in the working directory
    physics = {"impl": "jax"} if "impl" in config else {}
    try:
        env = registry.load(name, config_overrides=physics | args)
    except (OSError, subprocess.CalledProcessError) as error:
        # Robots' models are not part of the package, which fetches them with git on first use.
        raise InputError(f"environment '{env_id}' could not load its model: {error}") from None
    return BraxLikeEnvironment(join_env(env_id, args), env, limit)


def _flat(config: dict[str, Any], above: str = "") -> dict[str, Any]:
    """Entries of a nested configuration by their dotted names."""
    entries: dict[str, Any] = {}
    for key, value in config.items():
        inner = _flat(value, f"{above}{key}.") if isinstance(value, dict) else {}
        entries |= inner or {f"{above}{key}": value}
    return entries
