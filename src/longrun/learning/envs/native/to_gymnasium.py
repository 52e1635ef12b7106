"""Any JAX-native environment as a Gymnasium environment, so that other libraries can train on it"""

from __future__ import annotations

from functools import partial
from typing import Any, get_args

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces as gym_spaces

from longrun.base.checks import known
from longrun.base.errors import InputError
from longrun.learning.envs.env_strings import NATIVE_MAKERS, with_args
from longrun.learning.envs.flat_spaces import as_given
from longrun.learning.envs.native.protocol import Environment, native_env
from longrun.learning.envs.spaces import Array, Spaces
from longrun.learning.options.acting import ActionBounds


def as_gymnasium(
    env: str | Environment, *, action_bounds: ActionBounds = "clip", **args: Any
) -> gymnasium.Env[Any, Any]:
    """A Gymnasium environment from an env string, with these arguments added, or an instance.

    Actions are clipped to their bounds; `action_bounds="raw"` passes them on unchanged.

    >>> as_gymnasium("brax:halfcheetah", backend="spring")
    """
    native = native_env(with_args(env, args))
    if native is None:
        raise InputError(
            f"env={env!r} must be an Environment or a string that begins with"
            f" {', '.join(f'{prefix}:' for prefix in NATIVE_MAKERS)}"
        )
    return NativeGymEnv(native, action_bounds)


class NativeGymEnv(gymnasium.Env[Any, Any]):
    """One JAX-native environment behind Gymnasium's interface, its steps compiled.

    Episodes are truncated at the time limit, and actions are clipped to their bounds or passed on
    unchanged, as in training. Where the environment masks choices, observations are a
    Dict of `action_mask` and `observation`.
    """

    metadata = {"render_modes": []}  # noqa: RUF012  (Gymnasium's own declaration)

    def __init__(self, environment: Environment, action_bounds: ActionBounds = "clip") -> None:
        known("action_bounds", action_bounds, get_args(ActionBounds))
        self.environment = environment
        self.action_bounds = action_bounds
        self.observation_space = observation_space(environment.spaces)
        self.action_space = action_space(environment.spaces)
        self._state: Any = None
        self._row: Array | None = None
        # One seed for each episode instead of a key: a seed and a count can be pickled.
        self._episode_seed = np.uint32(0)
        self._steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._episode_seed = self.np_random.integers(2**32, dtype=np.uint32)
        self._steps = 0
        self._state, row = _reset(self.environment, self._episode_seed)
        return self._observed(row), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self._row is None:
            raise gymnasium.error.ResetNeeded("call reset() before the first step()")
        spaces = self.environment.spaces
        action_row: Array = np.asarray(action, spaces.action_dtype)
        action_row = as_given(
            np, spaces, self.action_bounds, action_row.reshape(spaces.action_size)
        )
        self._steps += 1
        self._state, row, reward, terminated, costs = _step(
            self.environment, self._episode_seed, self._steps, self._state, action_row
        )
        truncated = self._steps == self.environment.time_limit
        info = {"costs": {name: float(cost) for name, cost in costs.items()}} if costs else {}
        return self._observed(row), float(reward), bool(terminated), truncated, info

    def action_masks(self) -> Array:
        """[policy outputs] bool: the allowed choices in this state, as sb3-contrib expects them;
        those of a MultiDiscrete space one component after another."""
        if self._row is None:
            raise gymnasium.error.ResetNeeded("call reset() before action_masks()")
        spaces = self.environment.spaces
        if not spaces.masked:
            return np.ones(spaces.policy_outputs, bool)
        return self._row[: spaces.mask_size] > 0

    def _observed(self, row: jax.Array) -> Any:
        self._row = np.array(row, np.float32)  # a copy, since a view of JAX's memory is read-only
        width = self.environment.spaces.mask_size
        if not width:
            return self._row
        return {"action_mask": self._row[:width].astype(np.int8), "observation": self._row[width:]}


def observation_space(spaces: Spaces) -> gym_spaces.Space[Any]:
    """Rows of float32; with a separate mask where the environment has one."""
    rows = gym_spaces.Box(-np.inf, np.inf, (spaces.feature_size,), np.float32)
    if not spaces.masked:
        return rows
    mask = gym_spaces.Box(0, 1, (spaces.mask_size,), np.int8)
    return gym_spaces.Dict({"action_mask": mask, "observation": rows})


def action_space(spaces: Spaces) -> gym_spaces.Space[Any]:
    """Box with the bounds, Discrete for one categorical component, MultiDiscrete for several."""
    if not spaces.categories:
        low, high = (np.asarray(bounds, np.float32) for bounds in (spaces.low, spaces.high))
        return gym_spaces.Box(low, high, dtype=np.float32)
    if len(spaces.categories) == 1:
        return gym_spaces.Discrete(spaces.categories[0])
    return gym_spaces.MultiDiscrete(list(spaces.categories))


# The environment is static, so that equal environments share one compiled program.
@partial(jax.jit, static_argnums=0)
def _reset(environment: Environment, seed: Array) -> tuple[Any, jax.Array]:
    return environment.reset(_key(seed, 0))


@partial(jax.jit, static_argnums=0)
def _step(
    environment: Environment, seed: Array, count: int, state: Any, action: jax.Array
) -> tuple[Any, jax.Array, jax.Array, jax.Array, dict[str, jax.Array]]:
    after = environment.step(_key(seed, count), state, action)
    return after.state, after.obs, after.reward, jnp.asarray(after.terminated), dict(after.costs)


def _key(seed: Any, count: Any) -> jax.Array:
    """The key of one step of one episode; 0 is the reset's."""
    return jax.random.fold_in(jax.random.key(seed), count)
