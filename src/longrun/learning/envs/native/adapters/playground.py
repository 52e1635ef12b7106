"""MuJoCo Playground's environments: 'playground:CheetahRun', 'playground:CheetahRun?impl=warp'.

Arguments are entries of an environment's configuration, nested ones with dots. Its time limit is
the entry `episode_length` (0 for none). The physics runs in JAX unless `impl=warp` asks for Warp,
Playground's own default, which is a package of its own and needs an NVIDIA GPU.
"""

from __future__ import annotations

import subprocess
from typing import Any

import mujoco

from longrun.base.errors import InputError
from longrun.learning.envs.env_strings import join_env
from longrun.learning.envs.factories import mujoco_warning
from longrun.learning.envs.native.adapters.brax_like import brax_like
from longrun.learning.envs.native.adapters.packages import env_id, import_package, time_limit
from longrun.learning.envs.native.protocol import Environment

EXTRA = "playground"
FOR_ITS_OWN_TRAINING = {"action_repeat"}
"""Entries that only Playground's wrappers read, which are not used here."""


def make(name: str, args: dict[str, Any]) -> Environment:
    """An environment with these entries of its configuration changed."""
    registry = import_package("mujoco_playground", f"playground:{name}", EXTRA).registry
    own_id = env_id("playground", name, registry.ALL_ENVS)
    config = registry.get_default_config(name)
    defaults = _flat(config.to_dict())
    for entry in FOR_ITS_OWN_TRAINING:
        defaults.pop(entry, None)
    limit = time_limit(own_id, args, defaults, "episode_length")
    mujoco.set_mju_user_warning(mujoco_warning)  # instead of a log file in the working directory
    physics = {"impl": "jax"} if "impl" in config else {}
    try:
        env = registry.load(name, config_overrides=physics | args)
    except (OSError, subprocess.CalledProcessError) as error:
        # Robots' models are not part of the package, which fetches them with git on first use.
        raise InputError(f"environment '{own_id}' could not load its model: {error}") from None
    return brax_like(join_env(own_id, args), env, limit)


def _flat(config: dict[str, Any], above: str = "") -> dict[str, Any]:
    """Entries of a nested configuration by their dotted names."""
    entries: dict[str, Any] = {}
    for key, value in config.items():
        inner = _flat(value, f"{above}{key}.") if isinstance(value, dict) else {}
        entries |= inner or {f"{above}{key}": value}
    return entries
