"""JAX-native environments behind Gymnasium's interface."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import cloudpickle
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces as gym_spaces
from gymnasium.utils.env_checker import check_env

from longrun.learning.envs.native.protocol import Environment, Step
from longrun.learning.envs.native.to_gymnasium import NativeGymEnv, as_gymnasium
from longrun.learning.envs.spaces import Spaces, describe

LIMIT = 5


@dataclass(frozen=True)
class Walk(Environment):
    """A point moved by actions and noise; its position is observed; it terminates beyond `wall`.

    Its mask, where it has one, forbids the first choice of each component left of zero.
    """

    categories: tuple[int, ...] = ()
    masked: bool = False
    time_limit: int = LIMIT
    noise: float = 0.1
    wall: float = 1e9

    @property
    def name(self) -> str:
        return "walk"

    @property
    def spaces(self) -> Spaces:
        if not self.categories:
            return Spaces(2, 2, low=(-0.5, -1.0), high=(0.5, float("inf")))
        outputs = sum(self.categories)
        width = 2 + outputs * self.masked
        return Spaces(width, len(self.categories), self.categories, masked=self.masked)

    def reset(self, key: jax.Array) -> tuple[Any, jax.Array]:
        place = jax.random.normal(key, (2,))
        return place, self._row(place)

    def step(self, key: jax.Array, state: Any, action: jax.Array) -> Step:
        place = state + action.sum() + self.noise * jax.random.normal(key, (2,))
        terminated = jnp.abs(place[0]) > self.wall
        return Step(place, self._row(place), -place[0], terminated)

    def _row(self, place: jax.Array) -> jax.Array:
        if not self.masked:
            return place
        masks = [jnp.ones(n).at[0].set(place[0] >= 0) for n in self.categories]
        return jnp.concatenate([*masks, place])


KINDS = {
    "box": Walk(),
    "discrete": Walk((3,)),
    "multi-discrete": Walk((3, 2)),
    "masked discrete": Walk((3,), masked=True),
    "masked multi-discrete": Walk((3, 2), masked=True),
}


@pytest.mark.parametrize("kind", KINDS)
def test_gymnasium_accepts_it(kind: str) -> None:
    env = NativeGymEnv(KINDS[kind])
    with warnings.catch_warnings():
        # It warns of unbounded and unnormalised spaces, which an environment may have.
        warnings.filterwarnings("ignore", ".*(infinity|symmetric and normalized).*", UserWarning)
        warnings.filterwarnings("ignore", ".*not having a spec.*", UserWarning)
        check_env(env, skip_render_check=True)


@pytest.mark.parametrize("kind", KINDS)
def test_its_spaces_are_the_environments(kind: str) -> None:
    assert describe(NativeGymEnv(KINDS[kind])) == KINDS[kind].spaces


def test_kinds_of_spaces() -> None:
    assert isinstance(NativeGymEnv(KINDS["discrete"]).action_space, gym_spaces.Discrete)
    assert isinstance(NativeGymEnv(KINDS["multi-discrete"]).action_space, gym_spaces.MultiDiscrete)
    box = NativeGymEnv(KINDS["box"]).action_space
    assert isinstance(box, gym_spaces.Box)
    np.testing.assert_array_equal(box.high, np.float32([0.5, np.inf]))


def test_a_seed_fixes_all_that_follows() -> None:
    env = NativeGymEnv(KINDS["box"])

    def episodes(**options: int) -> list[Any]:
        rows = []
        for episode in range(2):
            rows.append(env.reset(**options if episode == 0 else {})[0])
            rows += [env.step(np.zeros(2))[0] for _ in range(3)]
        return rows

    first, again, other = episodes(seed=4), episodes(seed=4), episodes(seed=5)
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    assert not np.array_equal(first[0], first[4])  # the second episode differs
    assert not np.allclose(np.diff(first[:4], axis=0)[0], np.diff(first[:4], axis=0)[1])


def test_truncation_comes_with_the_true_successor() -> None:
    env = NativeGymEnv(Walk(noise=0.0))
    start, _ = env.reset(seed=0)
    for count in range(1, LIMIT + 1):
        row, reward, terminated, truncated, _ = env.step(np.array([0.25, 0.0]))
        np.testing.assert_allclose(row, start + 0.25 * count, rtol=1e-5)
        assert reward == pytest.approx(-row[0])
        assert (terminated, truncated) == (False, count == LIMIT)
    env.reset()
    assert not env.step(np.zeros(2))[3]  # the count is reset


def test_no_time_limit_and_terminations() -> None:
    env = NativeGymEnv(Walk((2,), time_limit=0, noise=0.0, wall=8.0))
    env.reset(seed=0)
    ends = [env.step(1)[2:4] for _ in range(20)]
    assert not any(truncated for _, truncated in ends)
    assert not ends[0][0]
    assert ends[-1][0]


@pytest.mark.parametrize(("bounds", "moved"), [("clip", 3.5), ("raw", 10.0)])
def test_actions_are_clipped_to_their_bounds_or_passed_on(bounds: Any, moved: float) -> None:
    env = as_gymnasium(Walk(noise=0.0), action_bounds=bounds)
    start, _ = env.reset(seed=0)
    row, *_ = env.step(np.array([7.0, 3.0]))  # 0.5 at most, and unbounded
    np.testing.assert_allclose(row, start + moved, rtol=1e-6)


def test_an_unknown_value_of_action_bounds_is_refused() -> None:
    with pytest.raises(ValueError, match=r"unknown action_bounds 'tanh'; valid: clip, raw"):
        as_gymnasium(Walk(), action_bounds="tanh")  # type: ignore[arg-type]


def test_masks() -> None:
    env = NativeGymEnv(KINDS["masked multi-discrete"])
    for seed in range(6):
        observed, _ = env.reset(seed=seed)
        allowed = observed["observation"][0] >= 0
        expected = [allowed, True, True, allowed, True]
        np.testing.assert_array_equal(observed["action_mask"], np.int8(expected))
        assert observed["action_mask"].dtype == np.int8
        np.testing.assert_array_equal(env.action_masks(), expected)
        assert env.action_masks().dtype == bool
    unmasked = NativeGymEnv(KINDS["multi-discrete"])
    unmasked.reset(seed=0)
    np.testing.assert_array_equal(unmasked.action_masks(), np.ones(5, bool))


def test_a_copy_continues_as_the_original_does() -> None:
    env = NativeGymEnv(KINDS["box"])
    env.reset(seed=3)
    env.step(np.zeros(2))
    copy = cloudpickle.loads(cloudpickle.dumps(env))
    for _ in range(2):
        np.testing.assert_array_equal(env.step(np.zeros(2))[0], copy.step(np.zeros(2))[0])
    np.testing.assert_array_equal(env.reset()[0], copy.reset()[0])


def test_before_the_first_reset() -> None:
    env = NativeGymEnv(KINDS["box"])
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(np.zeros(2))
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.action_masks()


def test_as_gymnasium() -> None:
    walk = KINDS["box"]
    env = as_gymnasium(walk)
    assert isinstance(env, NativeGymEnv)
    assert env.environment is walk
    with pytest.raises(ValueError, match="named by a string"):
        as_gymnasium(walk, backend="spring")
    with pytest.raises(ValueError, match="begins with jax:, brax:"):
        as_gymnasium("Pendulum-v1", g=5)
