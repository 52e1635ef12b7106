"""The built-in JAX environments by name: their strings, arguments and messages."""

from __future__ import annotations

import json
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import settings

from longrun.learning.envs.builtin_envs import BUILTIN, make_builtin

examples = settings(max_examples=10, deadline=None, derandomize=True, database=None)


@pytest.mark.parametrize("name", BUILTIN)
def test_every_built_in_environment_runs(name: str) -> None:
    env = make_builtin(name, {})
    assert env.name == f"jax:{name}" and hash(env) == hash(make_builtin(name, {}))
    assert env.time_limit == 0 and not env.terminates and env.spaces.masked
    state, obs = env.reset(jax.random.key(0))
    action = jnp.zeros(env.spaces.action_size, jnp.int32)
    step = jax.jit(env.step)(jax.random.key(1), state, action)
    for row in (obs, step.obs):
        assert row.shape == (env.spaces.observation_size,) and row.dtype == jnp.float32
        mask = np.asarray(row[: env.spaces.mask_size])
        ends = np.cumsum(env.spaces.categories)[:-1]
        assert all(each.any() for each in np.split(mask, ends)) and set(mask) <= {0, 1}
    shapes = jax.tree.map(lambda x: (x.shape, x.dtype), (state, step.state))
    assert shapes[0] == shapes[1], "a state can be carried by a scan"
    assert step.reward.shape == () and step.reward.dtype == jnp.float32
    assert re.fullmatch(r"\S.{10,90}\.", (BUILTIN[name].__doc__ or "").splitlines()[0])


@pytest.mark.parametrize(
    ("name", "args", "string"),
    [
        ("criss-cross", {"regime": "BM"}, "jax:criss-cross"),
        ("criss-cross", {"regime": "BH", "idling": True}, "jax:criss-cross?regime=BH&idling=true"),
        ("six-class", {"stations": 7.0}, "jax:six-class?stations=7"),
        ("n-model", {"holding_costs": [1, 2]}, "jax:n-model?holding_costs=[1.0,2.0]"),
        (
            "reentrant",
            {"service_times": [0.1, 0.5, 0.2]},
            "jax:reentrant?service_times=[0.1,0.5,0.2]",
        ),
        ("tandem", {"arrival_rate": 0.5}, "jax:tandem?arrival_rate=0.5"),
        ("access-control", {"servers": 3}, "jax:access-control?servers=3"),
        ("inventory", {"fixed_cost": 4}, "jax:inventory?fixed_cost=4.0"),
        (
            "maintenance",
            {"levels": 3, "repair_time": 50},
            "jax:maintenance?levels=3&repair_time=50.0",
        ),
    ],
)
def test_names_are_env_strings(name: str, args: dict[str, Any], string: str) -> None:
    env = make_builtin(name, args)
    assert env.name == string
    query = [pair.split("=") for pair in string.partition("?")[2].split("&") if pair]
    again = {key: value if key == "regime" else json.loads(value) for key, value in query}
    assert make_builtin(name, again) == env


@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        ("cris-cross", {}, "unknown jax environment 'cris-cross'; did you mean criss-cross"),
        ("criss-cross", {"regimes": "BM"}, "unknown argument of 'criss-cross' 'regimes'; did you"),
        ("criss-cross", {"regime": "XX"}, "unknown regime 'XX'; valid: IL, BL, IM, BM, IH, BH"),
        ("criss-cross", {"regime": 3}, "regime=3 must be a word"),
        ("criss-cross", {"idling": 1}, "idling=1 must be true or false"),
        ("six-class", {"stations": 8}, "stations=8 is out of range; choose 2 to 7"),
        ("six-class", {"stations": 2.5}, "stations=2.5 must be a whole number"),
        ("n-model", {"load": "x"}, "load='x' must be a number"),
        ("n-model", {"arrival_rates": [1]}, "arrival_rates=(1.0,) has 1 entries; give 2"),
        ("n-model", {"arrival_rates": 1}, "arrival_rates=1 must be a list of numbers, as [1, 0.5]"),
        ("reentrant", {"stations": [1, 3, 1]}, "stations=(1, 3, 1) must be numbered from 1 with"),
        ("reentrant", {"service_times": [1, 0, 1]}, "service_times[1]=0.0 is not positive; give"),
        ("access-control", {"servers": 0}, "servers=0 is too small; give 1 or more"),
        ("inventory", {"capacity": None}, "capacity=None must be a whole number"),
        ("maintenance", {"levels": 0}, "levels=0 is too small; give 1 or more"),
        ("maintenance", {"service_time": "x"}, "service_time='x' must be a number"),
    ],
)
def test_bad_arguments(name: str, args: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        make_builtin(name, args)
    assert "\n" not in str(caught.value)
