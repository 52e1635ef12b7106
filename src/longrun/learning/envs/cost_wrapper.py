"""Costs that are functions of what a step returns, for any Gymnasium environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium

from longrun.base.errors import InputError
from longrun.learning.envs.factories import EnvLike, env_factory, env_name, make_env

CostFunction = Callable[[Any, Any, Any, Mapping[str, Any]], Any]
"""(observation after the step, action, reward, info) -> cost"""


class CostWrapper(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Adds the functions' values to `info["costs"]`."""

    def __init__(self, env: gymnasium.Env[Any, Any], functions: Mapping[str, CostFunction]) -> None:
        super().__init__(env)
        self.functions = dict(functions)

    def step(self, action: Any) -> Any:
        """A step of the environment; it may return six values, as in safety-gymnasium."""
        observation, *rest, info = self.env.step(action)
        reward = rest[0]
        costs = {
            name: function(observation, action, reward, info)
            for name, function in self.functions.items()
        }
        return observation, *rest, {**info, "costs": {**info.get("costs", {}), **costs}}


def with_costs(env: EnvLike, **functions: CostFunction) -> Callable[[], gymnasium.Env[Any, Any]]:
    """A function that makes the environment with more costs, to be given as `env`.

    >>> env = with_costs("HalfCheetah-v5", fast=lambda obs, action, reward, info: obs[8] > 3.2)
    >>> agent = APO(env, costs=["fast"])
    """
    for name, function in functions.items():
        if not callable(function):
            raise InputError(
                f"cost {name}={function!r} is no function; give one of (obs, action, reward, info)"
            )
    factory = env_factory(env)

    def make() -> gymnasium.Env[Any, Any]:
        return CostWrapper(make_env(factory), functions)

    make.__name__ = env_name(env)  # what run folders call it
    return make
