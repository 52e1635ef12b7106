"""Environments of other libraries. Each test runs if its package is installed."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from longrun.learning.envs.env_strings import NATIVE_MAKERS
from longrun.learning.envs.native.protocol import Environment, native_env
from longrun.learning.envs.native.to_gymnasium import as_gymnasium

ENVS = 3
PACKAGES = {"brax": "brax", "playground": "mujoco_playground", "gymnax": "gymnax"}


def made(text: str) -> Environment:
    package = PACKAGES[text.partition(":")[0]]
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    env = native_env(text)
    assert env is not None
    return env


def rollout(env: Environment, steps: int, action: Any = None) -> tuple[Any, ...]:
    """Starts [N, D], then observations [T, N, D], rewards and terminations [T, N] of N
    environments that are never reset."""
    spaces = env.spaces

    def actions(key: jax.Array) -> jax.Array:
        if action is not None:
            return jnp.full(spaces.action_size, action, spaces.action_dtype)
        if spaces.categories:
            return jax.random.randint(key, (1,), 0, spaces.categories[0])
        low, high = jnp.asarray(spaces.low), jnp.asarray(spaces.high)
        return jax.random.uniform(key, low.shape, minval=low, maxval=high)

    def one_step(state: Any, key: jax.Array) -> tuple[Any, tuple[Any, ...]]:
        step = env.step(key, state, actions(jax.random.fold_in(key, 1)))
        return step.state, (step.obs, step.reward, jnp.asarray(step.terminated))

    # The state is donated from chunk to chunk, as our training does.
    chunk = jax.jit(
        jax.vmap(lambda state, keys: jax.lax.scan(one_step, state, keys), out_axes=(0, 1)),
        donate_argnums=0,
    )
    state, starts = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(0), ENVS))
    keys = jax.random.split(jax.random.key(1), (2, ENVS, steps // 2))
    state, first = chunk(state, keys[0])
    _, second = chunk(state, keys[1])
    parts = [np.concatenate(pair) for pair in zip(first, second, strict=True)]
    return np.asarray(starts), *parts


def check(env: Environment, steps: int) -> tuple[Any, ...]:
    starts, obs, rewards, terminated = rollout(env, steps)
    assert starts.shape == (ENVS, env.spaces.observation_size)
    assert obs.shape == (steps, *starts.shape)
    assert obs.dtype == starts.dtype == rewards.dtype == np.float32
    assert rewards.shape == terminated.shape == (steps, ENVS)
    assert terminated.dtype == bool
    assert np.isfinite(obs).all()
    assert np.isfinite(rewards).all()
    assert not np.array_equal(starts[0], starts[1]) or not starts.any()
    return starts, obs, rewards, terminated


def test_pendulum_only_has_a_time_limit() -> None:
    env = made("gymnax:Pendulum-v1")
    assert (env.spaces.observation_size, env.spaces.low, env.spaces.high) == (3, (-2.0,), (2.0,))
    assert env.time_limit == 200
    assert not check(env, 300)[-1].any()


def test_cart_pole_terminates_when_it_falls_and_only_then() -> None:
    env = made("gymnax:CartPole-v1?max_steps_in_episode=4")
    assert env.name == "gymnax:CartPole-v1?max_steps_in_episode=4"
    assert (env.spaces.categories, env.spaces.action_size, env.time_limit) == ((2,), 1, 4)
    _, obs, _, terminated = rollout(env, 20, action=1)
    fallen = (np.abs(obs[..., 0]) > 2.4) | (np.abs(obs[..., 2]) > 12 * np.pi / 180)
    np.testing.assert_array_equal(terminated, fallen)
    assert not terminated[:6].any()  # past the time limit
    assert terminated[-1].all()


def test_gymnax_parameters_change_the_dynamics() -> None:
    heavy = made("gymnax:Pendulum-v1?g=20.0&max_steps_in_episode=0")
    assert heavy.time_limit == 0
    _, light, *_ = rollout(made("gymnax:Pendulum-v1"), 4, action=0)
    assert not np.allclose(rollout(heavy, 4, action=0)[1], light)


def test_gymnax_grids_become_rows() -> None:
    env = made("gymnax:Catch-bsuite")  # 10 by 5
    assert env.spaces.observation_size == 50
    check(env, 10)


def test_equal_names_are_equal_environments() -> None:
    one, same = made("gymnax:Pendulum-v1"), made("gymnax:Pendulum-v1")
    assert one == same
    assert hash(one) == hash(same)
    assert one != made("gymnax:Pendulum-v1?g=9.0")


def test_a_native_environment_as_gymnasiums() -> None:
    made("gymnax:Pendulum-v1")
    env = as_gymnasium("gymnax:Pendulum-v1", max_steps_in_episode=2)
    env.reset(seed=0)
    assert [env.step(np.zeros(1))[3] for _ in range(2)] == [False, True]


def test_brax_fast() -> None:
    env = made("brax:fast")
    assert (env.spaces.observation_size, env.spaces.low, env.time_limit) == (2, (-1.0,), 1000)
    assert env.costly_reset
    assert not env.terminates
    check(env, 10)
    _, fast, *_ = rollout(env, 10, action=1)
    np.testing.assert_allclose(fast[:, 0, 1], 0.02 * np.arange(1, 11), rtol=1e-5)


def test_brax_inverted_pendulum_terminates_when_it_falls() -> None:
    env = made("brax:inverted_pendulum?backend=spring&time_limit=3")
    assert (env.spaces.observation_size, env.spaces.action_size, env.time_limit) == (4, 1, 3)
    assert env.costly_reset
    assert env.terminates
    _, obs, _, terminated = rollout(env, 40, action=1)
    assert not terminated[:4].any()  # past the time limit
    assert terminated.any()
    np.testing.assert_array_equal(terminated, np.abs(obs[..., 1]) > 0.2)


def test_brax_half_cheetah_never_terminates() -> None:
    env = made("brax:halfcheetah?backend=spring")
    assert (env.spaces.observation_size, env.spaces.action_size) == (17, 6)
    assert not env.terminates


def test_dropping_state_that_no_step_reads_changes_nothing() -> None:
    """Brax's whole state, stepped by Brax itself, against the part that is carried."""
    env: Any = made("brax:inverted_pendulum?backend=spring")

    def both(states: tuple[Any, Any], action: jax.Array) -> tuple[Any, Any]:
        whole = env.env.step(states[0], action)
        step = env.step(jax.random.key(0), states[1], action)
        found = step.obs, step.reward, step.terminated
        return (whole, step.state), (found, (whole.obs, whole.reward, whole.done > 0.5))

    @jax.jit
    def compared(key: jax.Array, actions: jax.Array) -> Any:
        return jax.lax.scan(both, (env.env.reset(key), env.reset(key)[0]), actions)

    with quiet():
        actions = jnp.linspace(-0.2, 1, 12)[:, None]
        (whole, carried), (found, expected) = compared(jax.random.key(0), actions)
    jax.tree.map(lambda *pair: np.testing.assert_allclose(*pair, rtol=1e-5), found, expected)
    assert sum(leaf.size for leaf in carried) < sum(leaf.size for leaf in jax.tree.leaves(whole))


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """For steps that the test makes with Brax itself."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Accessing `.*` directly from `Data`", DeprecationWarning)
        yield


def test_playground_cartpole() -> None:
    env = made("playground:CartpoleBalance?episode_length=50")
    assert env.name == "playground:CartpoleBalance?episode_length=50"
    assert (env.spaces.observation_size, env.spaces.action_size, env.time_limit) == (5, 1, 50)
    assert env.costly_reset
    assert not check(env, 60)[-1].any()
    state = jax.eval_shape(env.reset, jax.random.key(0))[0]
    assert sum(leaf.size for leaf in state) < 100
    assert not any(jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) for leaf in state)


def test_a_failure_of_the_physics_is_a_termination_without_nans() -> None:
    env = made("playground:PendulumSwingup")
    start, _ = jax.eval_shape(env.reset, jax.random.key(0))
    broken = tuple(jnp.full(leaf.shape, jnp.nan, leaf.dtype) for leaf in start)
    step = jax.jit(env.step)(jax.random.key(0), broken, jnp.zeros(1))
    assert step.terminated
    assert np.isfinite(step.obs).all()
    assert np.isfinite(step.reward)


def test_playground_cheetah() -> None:
    env = made("playground:CheetahRun")
    assert (env.spaces.observation_size, env.spaces.action_size) == (17, 6)
    assert env.time_limit == 1000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gymnax:Pendulum", "unknown environment 'gymnax:Pendulum'; did you mean .*Pendulum-v1"),
        ("gymnax:Pendulum-v1?gravity=1", "unknown argument of 'gymnax:Pendulum-v1' 'gravity'; "),
        ("gymnax:Pendulum-v1?g=heavy", "g='heavy' of 'gymnax:Pendulum-v1' must be a number"),
        ("gymnax:Pendulum-v1?max_steps_in_episode=-1", "must be a whole number; 0 is no limit"),
        ("brax:cheetah", "unknown environment 'brax:cheetah'; did you mean brax:halfcheetah"),
        ("brax:ant?back=spring", "unknown argument of 'brax:ant' 'back'; did you mean backend"),
        ("brax:ant?backend=springs", "unknown backend of 'brax:ant' 'springs'; did you mean"),
        ("brax:ant?time_limit=0.5", "time_limit=0.5 of 'brax:ant' must be a whole number"),
        ("brax:ant?terminate_when_unhealthy=1", "must be True or False"),
        ("playground:Cheetah", "unknown environment 'playground:Cheetah'; did you mean"),
        ("playground:CheetahRun?dt=1", "unknown argument of 'playground:CheetahRun' 'dt'; "),
        ("playground:CheetahRun?action_repeat=2", "unknown argument"),
    ],
)
def test_wrong_names_and_values(text: str, message: str) -> None:
    package = PACKAGES[text.partition(":")[0]]
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    with pytest.raises(ValueError, match=message) as error:
        native_env(text)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("prefix", PACKAGES)
def test_missing_packages(prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = "brax.envs" if prefix == "brax" else PACKAGES[prefix]
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setitem(sys.modules, PACKAGES[prefix], None)
    message = rf"'{prefix}:ant' needs the extra '{prefix}' .*pip install -e '\.\[{prefix}\]'"
    with pytest.raises(ValueError, match=message):
        native_env(f"{prefix}:ant?b=1")


def test_what_is_not_a_native_environment() -> None:
    assert set(PACKAGES) < set(NATIVE_MAKERS)
    for other in ("Pendulum-v1", "ale_py:ALE/Pong-v5", "brax", "", None, object()):
        assert native_env(other) is None
    with pytest.raises(ValueError, match=r"'b'; write 'id\?key=value'"):
        native_env("brax:ant?b")
