"""Environments that break the protocol are refused in one line before training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from probes import Choice, Count, Spoilt

from longrun import APO, EnvironmentFailure
from longrun.base.errors import InputError
from longrun.learning.envs.native import Environment, Step
from longrun.learning.envs.native.protocol import require_sound
from longrun.learning.envs.queueing.environment import criss_cross
from longrun.learning.envs.spaces import Spaces


@dataclass(frozen=True)
class Faulty(Environment):
    """Correct except for one fault."""

    fault: str
    name = "faulty"
    spaces = Spaces(2, 1, (2,))

    def reset(self, key: jax.Array) -> tuple[Any, jax.Array]:
        state: Any = {
            "bfloat16": jnp.zeros(1, jnp.bfloat16),
            "key": key,
        }.get(self.fault, jnp.zeros(1))
        return state, jnp.zeros(3 if self.fault == "first" else 2)

    def step(self, key: jax.Array, state: Any, action: jax.Array) -> Any:
        if self.fault == "raises":
            raise RuntimeError("no such thing\nat all")
        if self.fault == "tuple":
            return state, jnp.zeros(2), 0.0, False
        after = {"dtype": jnp.zeros(1, jnp.int32), "structure": (state,)}.get(self.fault, state)
        obs = jnp.zeros(1 if self.fault == "obs" else 2)
        reward = jnp.zeros(1) if self.fault == "reward" else jnp.zeros(())
        return Step(after, obs, reward, jnp.zeros(1, bool) if self.fault == "end" else False)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("first", r"reset's observation of 'faulty' has shape \(3,\); it must have \(2,\)"),
        ("obs", r"step's obs of 'faulty' has shape \(1,\); it must have \(2,\)"),
        ("reward", r"step's reward of 'faulty' has shape \(1,\); it must have \(\)"),
        ("end", r"step's terminated of 'faulty' has shape \(1,\)"),
        ("dtype", r"changes a part of its state from float32\(1,\) to int32\(1,\)"),
        ("structure", "changes its state's structure"),
        ("tuple", "returns tuple; return a Step"),
        ("bfloat16", "holds bfloat16, which checkpoints cannot"),
        ("key", "holds key<fry>, which checkpoints cannot"),
    ],
)
def test_violations_of_the_protocol_are_named(fault: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        APO(Faulty(fault))
    assert "\n" not in str(caught.value)


def test_an_environment_that_raises_is_a_failure_of_the_environment() -> None:
    message = "^step of 'faulty' fails: RuntimeError: no such thing$"
    with pytest.raises(EnvironmentFailure, match=message):
        APO(Faulty("raises"))


def test_an_environment_that_cannot_be_hashed_is_refused() -> None:
    class Loose(Faulty):
        __hash__ = None  # type: ignore[assignment]  (what a dataclass that is not frozen has)

    with pytest.raises(ValueError, match=r"is not hashable; make it @dataclass\(frozen=True\)"):
        APO(Loose("none"))


@pytest.mark.parametrize("env", [Choice(), Count(end=5), Spoilt(), criss_cross(), Faulty("none")])
def test_correct_environments_pass(env: Environment) -> None:
    require_sound(env)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"categories": 3}, "categories=3 must be a tuple of action_size=1 entries"),
        ({"categories": (3, 2)}, r"categories=\(3, 2\) must be a tuple of action_size=1"),
        ({"low": [0.0], "high": (1.0,)}, r"low=\[0.0\] must be a tuple"),
        ({}, "give categories for choices, or low and high"),
        ({"categories": (2,), "low": (0.0,), "high": (1.0,)}, "give categories for choices, or"),
        ({"low": (0.0,), "high": (1.0,), "masked": True}, "a mask is for choices"),
        ({"categories": (2,), "masked": True}, "leaves no feature beside a mask of 2 columns"),
    ],
)
def test_inconsistent_spaces_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Spaces(observation_size=2, action_size=1, **arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            (4, (11,)),
            r"action_size=\(11,\) must be a number of columns; .* Spaces\(4, 1, \(11,\)\)",
        ),
        ((4, 0, (11,)), "action_size=0 must be a number of columns"),
        (((4,), 1, (11,)), r"observation_size=\(4,\) must be a number of columns"),
        ((4.5, 1, (11,)), "observation_size=4.5 must be a number of columns"),
        ((4, 1, (2.5,)), r"categories=\(2.5,\) must be whole numbers, 1 or more"),
        ((4, 2, (3, 0)), r"categories=\(3, 0\) must be whole numbers, 1 or more"),
    ],
)
def test_sizes_that_are_refused(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Spaces(*arguments)
