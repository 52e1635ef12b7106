"""The agent's interface: predict, on_log, logging options, errors."""

from __future__ import annotations

import csv
import json
import re
import time
from functools import partial
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

import longrun
from longrun import APO, ATRPO, PPO, TRPO
from longrun.learning.agent import Agent
from longrun.learning.envs.numpy_policy import NumpyPolicy
from longrun.learning.learn.acting import read
from longrun.learning.learn.networks import apply_mlp
from longrun.learning.train.progress import Progress, ProgressBar, time_text
from tiny_envs import ENDLESS, ITERATION, MORTAL, MORTAL_DISCRETE, TINY, Drift, Sampler, bits

UNIT = spaces.Box(-1, 1, (2,), np.float32)
ACTIONS = {
    "box": spaces.Box(-0.5, 0.5, (1,), np.float32),
    "matrix": spaces.Box(np.float32([[-0.1, 0]]), np.float32([[0.2, 3]])),
    "float64": spaces.Box(-0.1, 0.1, (1,), np.float64),
    "one-sided": spaces.Box(0, np.inf, (2,), np.float32),
    "unbounded": spaces.Box(-np.inf, np.inf, (2,), np.float32),
    "discrete": spaces.Discrete(3),
    "discrete from -1": spaces.Discrete(3, start=-1),
    "multi-binary": spaces.MultiBinary(3),
    "multi-binary grid": spaces.MultiBinary([2, 2]),
    "multi-discrete": spaces.MultiDiscrete([3, 2]),
    "multi-discrete grid": spaces.MultiDiscrete([[3, 2], [2, 2]], start=[[1, 0], [0, -2]]),
}


@pytest.fixture(scope="module")
def agent():
    return APO(MORTAL, num_workers=0, **TINY).learn(2 * ITERATION)


# Predicting.


@pytest.mark.parametrize("name", ACTIONS)
def test_predicted_actions_are_valid_in_every_action_space(name):
    space = ACTIONS[name]
    agent = APO(partial(Sampler, UNIT, space), **TINY)
    rng = np.random.default_rng(0)
    for obs in rng.uniform(-1, 1, (30, 2)).astype(np.float32):
        for deterministic in (True, False):
            action, state = agent.predict(obs, deterministic=deterministic)
            assert space.contains(action), action
            assert state is None
    actions, _ = agent.predict(rng.uniform(-1, 1, (5, 2)).astype(np.float32), deterministic=False)
    assert len(actions) == 5
    assert all(space.contains(action) for action in actions)


@pytest.mark.parametrize("name", ACTIONS)
def test_actions_in_training_are_valid_in_every_action_space(name):
    """Sampler raises for an action outside its space; evaluating needs no compiled update."""
    agent = APO(partial(Sampler, UNIT, ACTIONS[name]), num_workers=0, **TINY)
    params = agent.state.params
    policy = params.policy._replace(layers=[(w, b + 3.0) for w, b in params.policy.layers])
    state = agent.state._replace(params=params._replace(policy=policy))
    agent.snapshot = agent.snapshot._replace(state=state)
    assert agent.evaluate(20).steps == 20


def test_the_deterministic_action_is_the_networks_mean_within_bounds(agent):
    state = agent.state
    for obs in np.random.default_rng(0).normal(0, 3, (20, 2)).astype(np.float32):
        seen = read(agent.config.acting, agent.spaces, state.obs_moments, obs)
        mean = apply_mlp(agent.config.acting, state.params.policy.layers, seen.features)
        action, _ = agent.predict(obs)
        np.testing.assert_allclose(action, np.clip(mean, -0.5, 0.5), rtol=1e-5, atol=1e-6)
        assert np.array_equal(action, agent.predict(obs)[0])


def test_a_batch_gives_the_same_actions_as_its_rows_to_the_bit(agent):
    batch = np.random.default_rng(1).normal(size=(7, 2)).astype(np.float32)
    actions, _ = agent.predict(batch)
    assert actions.shape == (7, 1)
    assert actions.tolist() == [agent.predict(obs)[0].tolist() for obs in batch]


def test_stochastic_actions_vary_are_clipped_and_repeat_with_the_seed():
    obs = np.zeros(2, np.float32)
    one, same, other = (APO(MORTAL, seed=s, **TINY) for s in (0, 0, 1))
    drawn = [
        [float(a.predict(obs, deterministic=False)[0][0]) for _ in range(50)]
        for a in (one, same, other)
    ]
    assert drawn[0] == drawn[1] != drawn[2]
    assert len(set(drawn[0])) > 10
    assert (min(drawn[0]), max(drawn[0])) == (-0.5, 0.5)


def test_stochastic_discrete_actions_follow_the_policys_probabilities():
    agent = APO(MORTAL_DISCRETE, **TINY)
    obs = np.zeros((3000, 2), np.float32)
    actions, _ = agent.predict(obs, deterministic=False)
    flat = longrun.learning.train.host.replica.flat_weights(agent.state)
    policy = NumpyPolicy(agent.config.acting, agent.spaces, flat)
    logits = policy.outputs(obs[:1])[0]
    expected = np.exp(logits) / np.exp(logits).sum()
    found = [(actions == choice).mean() for choice in (-1, 0, 1)]
    np.testing.assert_allclose(found, expected, atol=0.04)


def test_predicting_changes_nothing(agent):
    before = bits(agent.snapshot)
    agent.predict(np.zeros(2, np.float32), deterministic=False)
    agent.evaluate(20)
    assert bits(agent.snapshot) == before


@pytest.mark.parametrize("obs", [np.zeros(3), np.zeros((2, 3)), np.zeros((1, 1, 2)), 0.0])
def test_an_observation_of_the_wrong_shape_is_refused(agent, obs):
    with pytest.raises(ValueError, match=r"shape"):
        agent.predict(obs)


# Learning and its events.


@pytest.mark.parametrize("num_workers", [0, 2])
def test_on_log_is_called_after_each_iteration(num_workers):
    logged = []
    agent = APO(MORTAL, seed=5, num_workers=num_workers, **TINY)
    agent.learn(
        4 * ITERATION - 1, eval_every=2 * ITERATION, eval_steps=20, on_log=logged.append
    ).learn(ITERATION, on_log=logged.append)
    assert [p.step for p in logged] == [ITERATION * i for i in (1, 2, 3, 4, 5)]
    assert [p.total_steps for p in logged] == [4 * ITERATION] * 4 + [5 * ITERATION]
    assert [p.evaluation is not None for p in logged] == [False, True, False, True, False]
    assert {(p.replica, p.seed) for p in logged} == {(0, 5)}
    for progress in logged:
        assert {"reward", "gain", "entropy", "kl", "value_loss"} <= set(progress.metrics)
        assert all(np.isfinite(list(progress.metrics.values())))
    assert agent.gain_ == logged[-1].metrics["gain"]
    assert agent.steps_ == 5 * ITERATION


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("no", [False, np.False_])
def test_on_log_stops_the_run_by_returning_false_and_is_not_called_again(num_workers, no):
    logged = []

    def stop(progress):
        logged.append(progress.step)
        return no if progress.step == 2 * ITERATION else None

    agent = APO(MORTAL, num_workers=num_workers, **TINY).learn(50 * ITERATION, on_log=stop)
    assert logged == [ITERATION, 2 * ITERATION]
    assert agent.steps_ == 2 * ITERATION
    assert bits(agent.snapshot) == bits(
        APO(MORTAL, num_workers=0, **TINY).learn(2 * ITERATION).snapshot
    )


@pytest.mark.parametrize("answer", [None, 0, True, "stop"])
def test_any_other_return_value_of_on_log_continues_the_run(answer):
    agent = APO(MORTAL, num_workers=0, **TINY).learn(2 * ITERATION, on_log=lambda p: answer)
    assert agent.steps_ == 2 * ITERATION


def test_learn_returns_the_agent_and_the_gain_is_a_number(agent):
    assert isinstance(agent, APO)
    assert isinstance(agent.gain_, float)
    assert agent.learn(1, on_log=None) is agent


@pytest.mark.parametrize("kind", [PPO, TRPO])
def test_discounted_algorithms_have_no_gain_and_say_what_to_use(kind):
    with pytest.raises(AttributeError, match=r"evaluate\(\)\.average_reward"):
        kind(MORTAL, **TINY).gain_  # noqa: B018
    assert ATRPO(MORTAL, **TINY).gain_ == 0.0


def test_tensorboard_writes_the_metrics_as_event_files(tmp_path):
    APO(MORTAL, num_workers=0, **TINY).learn(
        2 * ITERATION, log_dir=tmp_path, eval_steps=20, tensorboard=True
    )
    (events,) = tmp_path.rglob("events.out.tfevents.*")
    data = events.read_bytes()
    for name in (b"train/reward", b"train/gain", b"evaluation/average_reward"):
        assert name in data


def test_tensorboard_without_a_folder_is_refused():
    with pytest.raises(ValueError, match=r"tensorboard.*log_dir"):
        APO(MORTAL, num_workers=0, **TINY).learn(ITERATION, tensorboard=True)


def test_tensorboard_without_its_package_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr("longrun.learning.train.experiment_trackers.find_spec", lambda name: None)
    with pytest.raises(ValueError, match="pip install tensorboardX"):
        APO(MORTAL, num_workers=0, **TINY).learn(ITERATION, log_dir=tmp_path, tensorboard=True)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_another_run_is_refused_and_the_own_one_is_continued(tmp_path):
    agent = APO(MORTAL, num_workers=0, **TINY)
    agent.learn(ITERATION, log_dir=tmp_path, eval_every=0)
    agent.learn(ITERATION, log_dir=tmp_path, eval_every=0)
    with (tmp_path / "metrics.csv").open() as file:
        assert [int(row["step"]) for row in csv.DictReader(file)] == [ITERATION, 2 * ITERATION]
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(ValueError, match=r"already holds a run"):
        APO(MORTAL, num_workers=0, **TINY).learn(ITERATION, log_dir=tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_without_a_terminal_there_is_a_line_of_progress_at_times(capfd, monkeypatch):
    agent = APO(Drift, num_workers=0, **TINY)
    assert agent.learn(2 * ITERATION) and capfd.readouterr().err == ""  # it was too short
    monkeypatch.setattr("longrun.learning.train.progress.LINE_SECONDS", 0.0)
    agent.learn(4 * ITERATION)
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 4
    assert re.fullmatch(
        r"APO on Drift: 100% of 384 steps, last batch \S+ per step, [\d,]+ steps/s, 0 s left",
        lines[-1],
    )


@pytest.mark.parametrize(
    "seconds, text", [(0.0, "0 s"), (17.2, "18 s"), (119.0, "119 s"), (120.0, "2 min")]
)
def test_a_short_time_is_in_seconds(seconds, text):
    assert time_text(seconds) == text


def test_a_line_of_progress_without_a_speed_has_no_time_left(capfd, monkeypatch):
    """The first call of a compiled program is not timed: it was "16657066666667 min left"."""
    monkeypatch.setattr("longrun.learning.train.progress.LINE_SECONDS", 0.0)
    with ProgressBar("APO on jax:maintenance", [0], 1000, None) as bar:
        bar([Progress(0, 0, 1, 500, 1000, 0.0, {"reward": 0.5}, None, None)])
    assert (
        capfd.readouterr().err
        == "APO on jax:maintenance: 50% of 1,000 steps, last batch 0.5 per step\n"
    )


@pytest.mark.parametrize("name", ["Swimmer-v5", "jax:criss-cross?regime=BM&costs=[1,2,3]" * 2])
def test_the_bar_shows_the_time_left_at_80_columns(name, capfd, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with ProgressBar(f"APO on {name}", [0] * 3, 1000, True) as bar:
        for step in (100, 200, 300):
            time.sleep(0.05)
            bar([Progress(0, 0, 1, step, 1000, 1234567.0, {"reward": -0.123456}, None, None)])
    (line, *_) = capfd.readouterr().err.splitlines()[-1:]
    assert re.search(r"10 % +\d\d:\d\d ", line) and len(line) <= 80, line


def test_the_progress_bar_can_be_shown(capfd):
    APO(Drift, num_workers=0, **TINY).learn(ITERATION, progress_bar=True)
    assert "APO on Drift" in capfd.readouterr().err
    APO(Drift, num_workers=0, **TINY).learn(ITERATION, progress_bar=False)
    assert capfd.readouterr().err == ""


def test_a_constant_reward_with_terminations_gives_a_warning():
    class Constant(Drift):
        def step(self, action):
            obs, _, *rest = super().step(action)
            return obs, 1.0, *rest

    def learn(kind: type[Agent], **options: Any) -> None:
        env = partial(Constant, wall=1.5)
        kind(env, num_workers=0, preset="paper", **TINY | options).learn(ITERATION)

    with pytest.warns(UserWarning, match=r"every reward so far was 1.*reset_cost"):
        learn(APO)
    learn(PPO)
    learn(APO, termination="reset", reset_cost=1.0)
    learn(APO, termination="reset", reset_cost_step_size=1.0)
    learn(APO, limits={"terminated": 0.1})
    APO(partial(Constant, wall=1.5), num_workers=0, **TINY).learn(ITERATION)  # resets cost


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: APO(MORTAL, seed=-1), "seed=-1"),
        (lambda: APO(MORTAL, seed=0.5), "seed=0.5"),
        (lambda: APO(MORTAL, seed="0"), "seed='0'"),
        (lambda: APO(MORTAL, num_workers=1.5), "num_workers=1.5"),
        (lambda: APO(MORTAL, num_workers="2"), "num_workers='2'"),
        (lambda: APO(MORTAL, discount=0.9), "unknown APO option 'discount'"),
        (lambda: APO(MORTAL, preset="best"), "unknown preset 'best'"),
        (lambda: APO(MORTAL, **TINY).learn(0), "steps=0"),
        (lambda: APO(MORTAL, **TINY).learn(ITERATION, eval_every=-1), "eval_every=-1"),
        (lambda: APO(MORTAL, **TINY).learn(ITERATION, eval_every=1, eval_steps=0), "eval_steps=0"),
        (lambda: APO(MORTAL, **TINY).evaluate(0), "steps=0"),
    ],
    ids=lambda value: value if isinstance(value, str) else "call",
)
def test_wrong_arguments_are_refused_with_name_and_value(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_numpy_integers_are_integers():
    assert APO(MORTAL, seed=np.int64(3), **TINY).seed == 3


def test_an_evaluation_of_few_steps_is_possible():
    assert APO(ENDLESS, **TINY).evaluate(3).steps == 3


def test_evaluations_of_one_step_have_no_bounded_interval_and_end_no_run(tmp_path):
    agent = APO(Drift, num_workers=0, **TINY)
    agent.learn(ITERATION, log_dir=tmp_path / "run", eval_every=ITERATION, eval_steps=1)
    (final,) = json.loads((tmp_path / "run" / "summary.json").read_text())["final"]
    assert final["average_reward"] is not None
    assert final["average_reward_low"] is final["average_reward_high"] is None


def test_public_names_exist():
    for name in longrun.__all__:
        assert getattr(longrun, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'DQN'"):
        longrun.DQN  # noqa: B018


@pytest.mark.parametrize("preset", [None, "paper"])
def test_a_run_from_python_records_its_preset_and_has_a_short_label(preset, tmp_path):
    """So does the run of an agent that was saved and loaded: the label says what was changed."""
    sizes = {"num_envs": 4, "rollout_steps": 16, "minibatch_size": 32, "hidden_sizes": (8,)}
    options = sizes | {"action_bounds": "clip"} | ({"preset": preset} if preset else {})
    evaluation = {"eval_every": ITERATION, "eval_steps": 50}
    agent = APO(Drift, num_workers=0, **options)
    agent.learn(ITERATION, log_dir=tmp_path / "run", **evaluation)
    agent.save(tmp_path / "saved")
    for name in ("run", "saved"):
        loaded = APO.load(tmp_path / name, Drift, num_workers=0, epochs=2)
        loaded.learn(ITERATION, log_dir=tmp_path / f"of-{name}", **evaluation)
    for name in ("run", "of-run", "of-saved"):
        config = json.loads((tmp_path / name / "config.json").read_text())
        assert config["preset"] == (preset or "tuned")
        (setting,) = longrun.read_results(tmp_path / name)
        assert setting.label.startswith("APO (paper) num_envs=4" if preset else "APO num_envs=4")
        assert ("epochs=2" in setting.label) == (name != "run")
        assert "scale_rewards" not in setting.label
