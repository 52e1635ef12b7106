"""Costs of a step besides its reward, by name: ready-made ones, and those that environments give.

Ready-made costs need nothing from the environment; host workers and the device loop share their
definition, and the first argument is the array module, `numpy` or `jax.numpy`. All other names are
looked up in what a step returns: `info` of a Gymnasium environment, `Step.costs` of one in JAX.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np

from longrun.base.errors import InputError
from longrun.learning.envs.factories import EnvLike, env_factory, env_name, make_env
from longrun.learning.envs.spaces import Spaces
from longrun.learning.envs.stepper import as_number

READY = {
    "terminated": "episodes that terminated; a time limit does not count",
    "action_energy": "the sum of squares of the action that the environment got",
    "out_of_bounds": "1 where a component of the policy's action was beyond its bounds",
}
"""Names of the ready-made costs, and what they are."""
OF_ACTIONS = ("action_energy", "out_of_bounds")


def check_costs(names: Sequence[str], spaces: Spaces, is_vector: bool = False) -> None:
    """An InputError for a cost that these spaces, or a VectorEnv, do not have."""
    for name in names:
        if is_vector and name not in READY:
            raise InputError(
                f"cost '{name}' of a VectorEnv cannot be read; ready-made: {', '.join(READY)}; or"
                " give the single environment"
            )
        if name in OF_ACTIONS and spaces.categories:
            raise InputError(f"cost '{name}' is for continuous actions; these are choices")


def ready_cost(
    xp: Any, name: str, spaces: Spaces, sampled: Any, given: Any, terminated: Any
) -> Any:
    """[...] of one step of several environments. Raises InputError for a name not in `READY`.

    sampled, given: [..., A] the policy's actions, and those that environments got.
    terminated: [...].
    """
    if name == "terminated":
        return xp.asarray(terminated, xp.float32)
    if name == "action_energy":
        return (given**2).sum(-1)
    if name == "out_of_bounds":
        low, high = spaces.limits
        return xp.asarray(((sampled < low) | (sampled > high)).any(-1), xp.float32)
    raise unknown_cost(name, [])


def info_cost(info: Mapping[str, Any], name: str) -> float:
    """A cost in a Gymnasium step's info: info[name], info["costs"][name] or info["cost_" + name].

    `info["cost"]`, safety-gymnasium's number, is the cost that is called `cost`.
    """
    named = info.get("costs")
    inner = named if isinstance(named, Mapping) else {}
    for place, key in ((info, name), (inner, name), (info, f"cost_{name}")):
        if key in place:
            return as_number(f"cost '{name}'", place[key])
    scalars = {key: x for key, x in {**info, **inner}.items() if np.ndim(x) == 0}
    numbers = [key for key, x in scalars.items() if np.asarray(x).dtype.kind in "biuf"]
    raise unknown_cost(name, numbers)


def unknown_cost(name: str, given: Sequence[str]) -> InputError:
    told = f"the environment gave {', '.join(given)}" if given else "the environment gave none"
    return InputError(f"cost '{name}' is unknown; {told}; ready-made: {', '.join(READY)}")


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
        costs = {n: cost(observation, action, reward, info) for n, cost in self.functions.items()}
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
