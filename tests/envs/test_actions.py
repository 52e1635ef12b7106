"""Bounds of actions: the same in workers, on a device, in `predict` and in figures."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces as gym_spaces
from gymnasium.wrappers import ClipAction, RescaleAction

from longrun import APO, ATRPO
from longrun.cli import main
from longrun.lab.report import rendering
from longrun.learning.algorithms import agent_of
from longrun.learning.envs.flat_spaces import as_given, mean_within
from longrun.learning.envs.spaces import Spaces, describe
from longrun.learning.options.config import APOConfig
from longrun.learning.options.config_options import make_config
from longrun.learning.train.host import episodes
from tiny_envs import ITERATION, MORTAL, MORTAL_DISCRETE, TINY, Drift, Sampler, bits

LOW, HIGH = np.array([-0.5, 0.0], np.float32), np.array([0.5, 3.0], np.float32)
UNEVEN = Spaces(2, 2, (), tuple(LOW.tolist()), tuple(HIGH.tolist()))
FREE = Spaces(2, 1, (), (-1.0,), (float("inf"),))
UNIT = np.float32(-1), np.float32(1)


class Probe(gymnasium.Env[Any, Any]):
    """Records the action that it gets, then overwrites it with NaN; renders a plain image."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 4}  # noqa: RUF012
    seen: list[Any] = []  # noqa: RUF012  (one list for all, since they are made elsewhere)

    def __init__(self, dtype: Any = np.float32, render_mode: str | None = None) -> None:
        self.observation_space = gym_spaces.Box(-1, 1, (2,), np.float32)
        low, high = np.array([-0.1, 0.1]).astype(dtype), np.array([0.1, 0.3]).astype(dtype)
        self.action_space = gym_spaces.Box(low, high, dtype=dtype)
        self.render_mode = render_mode

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self.np_random.uniform(-1, 1, 2).astype(np.float32), {}

    def step(self, action: Any) -> Any:
        Probe.seen.append(action.copy())
        obs = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        reward = float(action[0])
        action *= np.nan
        return obs, reward, False, False, {}

    def render(self) -> Any:
        return np.zeros((8, 8, 3), np.uint8)


gymnasium.register("Probe-v0", Probe)


@pytest.fixture(autouse=True)
def nothing_seen() -> None:
    Probe.seen = []


# --- options ---------------------------------------------------------------------------------


def test_only_the_paper_preset_gives_raw_actions() -> None:
    assert make_config("apo", "paper").action_bounds == "raw"
    assert APO(Probe, preset="paper").config.action_bounds == "raw"
    assert APOConfig().action_bounds == APO(Probe).config.action_bounds == "clip"
    assert {make_config("ppo", p).action_bounds for p in ("tuned", "queueing")} == {"clip"}
    assert make_config("apo", "paper", action_bounds="clip").action_bounds == "clip"


def test_the_command_line_explains_the_bounds(capsys) -> None:
    assert main(["train", "apo", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "--action-bounds NAME continuous actions beyond their bounds" in text


# --- the arithmetic --------------------------------------------------------------------------


@pytest.mark.parametrize("xp", [np, jnp])
def test_what_environments_are_given(xp) -> None:
    sampled = xp.asarray([[-2.0, -2.0], [0.25, 0.25], [2.0, 5.0]], xp.float32)
    clipped = as_given(xp, UNEVEN, "clip", sampled)
    assert clipped.tolist() == [[-0.5, 0], [0.25, 0.25], [0.5, 3]]
    assert as_given(xp, UNEVEN, "raw", sampled).tolist() == sampled.tolist()
    assert as_given(xp, FREE, "clip", sampled[:, :1]).tolist() == [[-1], [0.25], [2]]
    choices = xp.asarray([[7]])
    for bounds in ("raw", "clip"):
        assert as_given(xp, Spaces(2, 1, (9,)), bounds, choices).tolist() == [[7]]


def test_a_raw_action_of_the_host_is_a_copy() -> None:
    sampled = np.ones((3, 2), np.float32)
    as_given(np, UNEVEN, "raw", sampled)[:] = 5
    assert (sampled == 1).all()


@pytest.mark.parametrize("xp", [np, jnp])
def test_a_bounded_mean_by_hand(xp) -> None:
    found = mean_within(xp, UNEVEN, xp.asarray([[0.0, 0.0], [50.0, 50.0], [-50.0, np.log(3) / 2]]))
    # tanh(log(3) / 2) = 1/2: a quarter of the way from the top
    np.testing.assert_allclose(found, [[0, 1.5], [0.5, 3], [-0.5, 2.25]], rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_limits_lie_inside_the_space_in_its_own_precision(dtype) -> None:
    space = Probe(dtype).action_space
    sizes = describe(Probe(dtype))
    for limit in sizes.limits:
        assert limit.dtype == np.float32
        assert space.contains(limit.astype(dtype))
    if dtype == np.float64:  # the float32 nearest to 0.1 and 0.3 are slightly above
        assert sizes.limits[1].tolist() != np.float32(sizes.high).tolist()


# --- the host --------------------------------------------------------------------------------


@pytest.fixture
def sampled(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A list of [16, 4, 2]: the actions of each iteration, as the learner has them."""
    found: list[Any] = []
    after = episodes.after

    def noted(before: Any, rollout: Any, *others: Any) -> Any:
        found.append(np.array(rollout.action))
        return after(before, rollout, *others)

    monkeypatch.setattr(episodes, "after", noted)
    return found


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bounds", ["raw", "clip"])
def test_training_and_evaluation_give_the_same(bounds, dtype, sampled) -> None:
    """The environment overwrites its own action; the learner keeps what was sampled."""
    env = partial(Probe, dtype)
    options = TINY | {"action_bounds": bounds, "initial_log_std": 0.5}
    agent = APO(env, num_workers=0, **options).learn(ITERATION)
    [sampled] = sampled
    assert np.isfinite(sampled).all()
    low, high = agent.spaces.limits
    assert ((sampled < low) | (sampled > high)).any()
    expected = sampled if bounds == "raw" else np.clip(sampled, low, high)
    seen = np.array(Probe.seen).reshape(expected.shape)
    assert seen.dtype == dtype
    np.testing.assert_array_equal(seen.astype(np.float32), expected)
    if bounds == "clip":
        assert all(env().action_space.contains(action) for action in Probe.seen)

    Probe.seen = []
    agent.evaluate(20)
    action, _ = agent.predict(np.zeros(2, np.float32))
    inside = [env().action_space.contains(action) for action in Probe.seen]
    assert len(inside) == 20
    assert all(inside) == (bounds == "clip")
    assert np.isfinite(action).all()


def test_an_agent_far_beyond_its_bounds_predicts_what_the_environment_is_given() -> None:
    obs = np.ones((3, 2), np.float32)
    for bounds, inside in (("raw", False), ("clip", True)):
        agent = APO(Probe, num_workers=0, **TINY | {"action_bounds": bounds})
        actions, _ = agent.predict(obs, deterministic=False)
        assert actions.shape == (3, 2)
        assert all(agent.action_space.contains(a) for a in actions) == inside
        single, _ = agent.predict(obs[0])
        agent.evaluate(1)
        assert single.shape == Probe.seen[-1].shape


@pytest.mark.parametrize("bounds", ["raw", "clip"])
def test_frames_show_the_same_policy(bounds, tmp_path, monkeypatch) -> None:
    options = TINY | {"action_bounds": bounds, "preset": "paper"}
    agent = agent_of("apo-authors")("Probe-v0", num_workers=0, **options)
    policy = agent.state.params.policy
    beyond = tuple((weights, bias + 9) for weights, bias in policy.layers)  # tanh: the upper bound
    state = agent.state
    state = state._replace(params=state.params._replace(policy=policy._replace(layers=beyond)))
    agent.snapshot = agent.snapshot._replace(state=state)
    agent.save(tmp_path)
    monkeypatch.setattr(rendering, "SIZE", (8, 8))
    assert "animation" in rendering.render(tmp_path, 0, 10**6)
    filmed = np.array(Probe.seen)
    np.testing.assert_allclose(filmed, np.tile([0.1, 0.3], (len(filmed), 1)), rtol=1e-6)
    Probe.seen = []
    agent.evaluate(5)
    np.testing.assert_array_equal(Probe.seen, filmed[:5])


@pytest.mark.parametrize("workers", [0, 2])
def test_an_environment_that_refuses_raw_actions_says_which_option_to_set(workers) -> None:
    options = TINY | {"action_bounds": "raw"}
    with pytest.raises(RuntimeError, match=r"failed at step \d+ of it.*set action_bounds='clip'"):
        APO(MORTAL, num_workers=workers, **options).learn(ITERATION)
    APO(MORTAL, num_workers=workers, **TINY).learn(ITERATION)


def test_an_evaluation_that_is_refused_says_so_too() -> None:
    agent = APO(Drift, num_workers=0, **TINY | {"action_bounds": "raw"})
    layers = agent.state.params.policy.layers
    far = tuple((weights, bias + 9) for weights, bias in layers)
    state = agent.state
    policy = state.params.policy._replace(layers=far)
    state = state._replace(params=state.params._replace(policy=policy))
    agent.snapshot = agent.snapshot._replace(state=state)
    with pytest.raises(RuntimeError, match=r"evaluation after .*set action_bounds='clip'"):
        agent.evaluate(10)


def test_an_error_that_is_not_about_bounds_gets_no_such_advice() -> None:
    env = partial(Sampler, gym_spaces.Box(-1, 1, (2,)), gym_spaces.Box(-3, 3, (1,)))

    class Jammed(Sampler):
        def step(self, action: Any) -> Any:
            raise ArithmeticError("the motor jammed")

    jammed = partial(Jammed, *env.args)
    with pytest.raises(RuntimeError, match=r"the motor jammed \(\S*test_actions.py:\d+\)$"):
        APO(jammed, num_workers=0, **TINY | {"action_bounds": "raw"}).learn(ITERATION)


def test_gymnasiums_own_wrappers_apply_their_bounds(sampled: Any) -> None:
    options = TINY | {"action_bounds": "raw"}
    clipped = APO(lambda: ClipAction(Probe()), num_workers=0, **options).learn(ITERATION)
    assert np.isinf(clipped.spaces.high).all()
    assert all(Probe().action_space.contains(action) for action in Probe.seen)
    Probe.seen = []
    agent = APO(lambda: RescaleAction(Probe(), *UNIT), num_workers=0, **options)
    agent.learn(ITERATION)
    sampled = sampled[-1].reshape(-1, 2)
    # from [-1, 1] to [-.1, .1] and [.1, .3], and beyond
    np.testing.assert_allclose(Probe.seen, sampled * 0.1 + [0.0, 0.2], atol=1e-6)


# --- choices have no bounds ------------------------------------------------------------------


@pytest.mark.parametrize("kind", [APO, ATRPO])
def test_bounds_have_no_effect_on_choices(kind) -> None:
    plain = kind(MORTAL_DISCRETE, num_workers=0, **TINY).learn(ITERATION)
    options = TINY | {"action_bounds": "raw"}
    other = kind(MORTAL_DISCRETE, num_workers=0, **options).learn(ITERATION)
    assert bits(other.snapshot) == bits(plain.snapshot)
