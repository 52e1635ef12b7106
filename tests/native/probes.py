"""Tiny JAX-native environments with known solutions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from longrun.learning.envs.native import Environment, Step
from longrun.learning.envs.spaces import Spaces


@dataclass(frozen=True)
class Choice(Environment):
    """Three choices that pay 0, 1 and 2; the mask 'best' forbids the last."""

    kind: str = "none"
    terminates = False

    @property
    def name(self) -> str:
        return f"choice {self.kind}"

    @property
    def spaces(self) -> Spaces:
        return Spaces(2 if self.kind == "none" else 5, 1, (3,), masked=self.kind != "none")

    def _obs(self) -> jax.Array:
        masks = {"none": [], "best": [1.0, 1.0, 0.0], "all": [0.0, 0.0, 0.0]}
        return jnp.array([*masks[self.kind], 1.0, 0.0])

    def reset(self, key: jax.Array) -> tuple[Any, jax.Array]:
        return (), self._obs()

    def step(self, key: jax.Array, state: Any, action: jax.Array) -> Step:
        return Step((), self._obs(), action[0].astype(jnp.float32), False)


@dataclass(frozen=True)
class Count(Environment):
    """Counts its steps from a random start in 0, 100, ..., 900; the observation is the count.

    It terminates at `end` steps after its start, if that is not 0, and pays the action
    that it gets.
    """

    time_limit: int = 0
    end: int = 0
    costly_reset: bool = False

    @property
    def terminates(self) -> bool:  # type: ignore[override]
        return self.end > 0

    @property
    def name(self) -> str:
        return "count"

    @property
    def spaces(self) -> Spaces:
        return Spaces(1, 1, low=(-1.0,), high=(0.5,))

    def reset(self, key: jax.Array) -> tuple[Any, jax.Array]:
        count = 100 * jax.random.randint(key, (), 0, 10)
        return count, count[None].astype(jnp.float32)

    def step(self, key: jax.Array, state: Any, action: jax.Array) -> Step:
        count = state + 1
        ended = (count % 100 == self.end) if self.end else False
        return Step(count, count[None].astype(jnp.float32), action[0], ended)


@dataclass(frozen=True)
class FirstIsDifferent(Environment):
    """Pays 0 in its first step and 1 in all others."""

    terminates = False
    name = "first is different"
    spaces = Spaces(1, 1, (2,))

    def reset(self, key: jax.Array) -> tuple[Any, jax.Array]:
        return jnp.zeros((), jnp.int32), jnp.zeros(1)

    def step(self, key: jax.Array, state: Any, action: jax.Array) -> Step:
        return Step(state + 1, jnp.zeros(1), jnp.where(state == 0, 0.0, 1.0), False)


@dataclass(frozen=True)
class Spoilt(Environment):
    """Pays NaN once the count reaches `after`."""

    after: int = 20
    terminates = False
    name = "spoilt"
    spaces = Spaces(1, 1, (2,))

    def reset(self, key: jax.Array) -> tuple[Any, jax.Array]:
        return jnp.zeros((), jnp.int32), jnp.zeros(1)

    def step(self, key: jax.Array, state: Any, action: jax.Array) -> Step:
        reward = jnp.where(state >= self.after, jnp.nan, 1.0)
        return Step(state + 1, jnp.zeros(1), reward, False)
