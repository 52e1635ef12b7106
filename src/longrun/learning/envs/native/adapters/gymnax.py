"""gymnax's environments: 'gymnax:Pendulum-v1', 'gymnax:CartPole-v1?max_steps_in_episode=200'.

Arguments are fields of an environment's parameters; `max_steps_in_episode` is its time limit, 0 for
none.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from longrun.base.errors import InputError
from longrun.learning.envs.env_strings import join_env
from longrun.learning.envs.native.adapters import Adapted, env_id, import_package, time_limit
from longrun.learning.envs.native.protocol import Environment, Step
from longrun.learning.envs.spaces import Spaces

LIMIT = "max_steps_in_episode"
NEVER = 2**31 - 1
"""A time limit that no episode reaches"""


def make(name: str, args: dict[str, Any]) -> Environment:
    """An environment with these fields of its parameters changed."""
    gymnax = import_package("gymnax", f"gymnax:{name}", "gymnax")
    own_id = env_id("gymnax", name, gymnax.registered_envs)
    env, params = gymnax.make(name)
    defaults = {entry.name: getattr(params, entry.name) for entry in dataclasses.fields(params)}
    limit = time_limit(own_id, args, defaults, LIMIT)
    # Some of gymnax's own limits are floats, and must remain so.
    params = params.replace(**args | {LIMIT: type(defaults[LIMIT])(limit or NEVER)})
    sizes = _sizes(own_id, env.observation_space(params), env.action_space(params))
    return GymnaxEnvironment(join_env(own_id, args), env, sizes, limit, params)


@dataclass(frozen=True)
class GymnaxEnvironment(Adapted):
    """One environment by its `reset_env` and `step_env`, which neither count steps nor reset."""

    params: Any = field(compare=False, repr=False)

    def reset(self, key: jax.Array) -> tuple[Any, jax.Array]:
        obs, state = self.env.reset_env(key, self.params)
        return jax.tree.map(jnp.asarray, state), self._row(obs)

    def step(self, key: jax.Array, state: Any, action: jax.Array) -> Step:
        shape = () if self.sizes.categories else self.env.action_space(self.params).shape
        own_action = action.reshape(shape)
        obs, state, reward, done, _ = self.env.step_env(key, state, own_action, self.params)
        if not hasattr(self.env, "is_truncated"):
            # Before gymnax 1.0.1 the time limit was a termination: ask again without a limit.
            done = self.env.is_terminal(state, self.params.replace(**{LIMIT: NEVER}))
        state = jax.tree.map(jnp.asarray, state)
        return Step(state, self._row(obs), jnp.asarray(reward, jnp.float32), jnp.asarray(done))

    def _row(self, obs: jax.Array) -> jax.Array:
        """[D] float32; a Discrete observation is one-hot."""
        space = self.env.observation_space(self.params)
        if hasattr(space, "n"):
            return jax.nn.one_hot(obs, int(space.n), dtype=jnp.float32)
        return jnp.asarray(obs, jnp.float32).reshape(-1)


def _sizes(env: str, observation: Any, action: Any) -> Spaces:
    """gymnax's Box and Discrete spaces are known by their attributes: its module of spaces moved
    between versions."""
    for kind, space in (("observation", observation), ("action", action)):
        if not (hasattr(space, "n") or hasattr(space, "low")):
            raise InputError(f"{kind} space of '{env}' must be Box or Discrete")
    width = int(getattr(observation, "n", np.prod(observation.shape)))
    if hasattr(action, "n"):
        return Spaces(width, 1, (int(action.n),))
    low, high = (
        tuple(np.broadcast_to(np.asarray(bound, np.float32), action.shape).reshape(-1).tolist())
        for bound in (action.low, action.high)
    )
    return Spaces(width, len(low), low=low, high=high)
