"""The device loop: what it learns, bit-identical resuming, and its errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import safetensors.numpy
from probes import Choice, Count, Spoilt

from fake_runs import csv_rows
from longrun import APO, ATRPO, PPO, EnvironmentFailure, NonFiniteError
from longrun.cli import main
from longrun.lab.results.read import read_results
from longrun.learning.algorithms import AGENTS, agent_of
from longrun.learning.envs.queueing.environment import criss_cross
from longrun.learning.options.config_options import make_config
from longrun.learning.train import failing_training
from longrun.learning.train.device import loop as device_loop
from longrun.learning.train.device.program import compiled_advance
from longrun.learning.train.open_run import OpenRun, open_env
from longrun.learning.train.training import Training
from run_specs import spec_of

SMALL: dict[str, Any] = {
    "num_envs": 4,
    "rollout_steps": 16,
    "minibatch_size": 32,
    "epochs": 2,
    "hidden_sizes": (8,),
}
ITERATION = 64
NETWORK = ["--env", "jax:criss-cross", "--env-args", "regime=BL"]
OPTIONS = ["--num-envs", "4", "--rollout-steps", "16", "--minibatch-size", "32", "--epochs", "2"]
OPTIONS += ["--no-learning-rate-decay"]  # a longer run begins as a shorter one


def tensors(run: Path) -> dict[str, np.ndarray]:
    header = json.loads((run / "checkpoint" / "checkpoint.json").read_text())
    return safetensors.numpy.load_file(run / "checkpoint" / header["state"])


def rows(run: Path, name: str = "metrics.csv") -> list[dict[str, str]]:
    """Rows without the column that measures time."""
    return [
        {k: v for k, v in row.items() if k != "steps_per_second"} for row in csv_rows(run / name)
    ]


def train(out: Path, *options: str) -> int:
    command = ["train", "apo", *NETWORK, *OPTIONS, "--eval-steps", "100", "--quiet"]
    return main([*command, "--out", str(out), *options])


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six iterations of two seeds and two settings."""
    run = tmp_path_factory.mktemp("device") / "whole"
    grid = ["--seeds", "2", "--grid", "value_constraint=0,0.3"]
    assert train(run, "--steps", str(6 * ITERATION), *grid, "--eval-every", "128") == 0
    return run


def test_the_run_folder_has_the_same_files_as_on_the_host(whole: Path) -> None:
    found = {path.name for path in whole.iterdir()}
    assert found == {"config.json", "metrics.csv", "evaluations.csv", "summary.json", "checkpoint"}
    config = json.loads((whole / "config.json").read_text())
    assert config["env"] == "jax:criss-cross?regime=BL"
    steps = [(int(r["replica"]), int(r["step"])) for r in rows(whole)]
    assert sorted(steps) == [(i, 64 * k) for i in range(4) for k in range(1, 7)]
    evaluations = csv_rows(whole / "evaluations.csv")
    assert {int(r["step"]) for r in evaluations} == {128, 256, 384}
    summary = json.loads((whole / "summary.json").read_text())
    assert [final["value_constraint"] for final in summary["final"]] == [0, 0, 0.3, 0.3]
    assert all(final["average_reward"] < 0 for final in summary["final"])


@pytest.mark.parametrize("first", [1, 3])
def test_an_interrupted_run_resumes_bit_identically(
    whole: Path, tmp_path: Path, first: int
) -> None:
    grid = ["--seeds", "2", "--grid", "value_constraint=0,0.3", "--eval-every", "128"]
    assert train(tmp_path / "run", "--steps", str(first * ITERATION), *grid) == 0
    steps = str(6 * ITERATION)
    resume = ["train", "--resume", "--out", str(tmp_path / "run"), "--steps", steps, "--quiet"]
    assert main(resume) == 0
    before, after = tensors(whole), tensors(tmp_path / "run")
    assert before.keys() == after.keys()
    assert any("environments" in name for name in before)
    for name, value in before.items():
        np.testing.assert_array_equal(value, after[name], err_msg=name)
    assert [r for r in rows(whole) if int(r["step"]) > first * 64] == [
        r for r in rows(tmp_path / "run") if int(r["step"]) > first * 64
    ]


@pytest.mark.shipped
def test_the_length_of_calls_does_not_change_what_is_learned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agents = []
    for most in (1, 3):
        monkeypatch.setattr(device_loop.Calls, "iterations", _at_most(most))
        agents.append(APO("jax:criss-cross", **SMALL).learn(6 * ITERATION))
    one, three = (jax.tree.leaves(agent.snapshot) for agent in agents)
    for a, b in zip(one, three, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.slow
def test_evaluations_do_not_compile_the_training_again() -> None:
    APO(Choice(), **SMALL).learn(ITERATION)
    program = compiled_advance(jax.default_backend())
    compiled = program._cache_size()
    for steps in (20, 50):
        agent = APO(Choice(), **SMALL).learn(ITERATION, eval_every=ITERATION, eval_steps=steps)
        assert agent.steps_ == ITERATION
    assert program._cache_size() == compiled


def _at_most(most: int) -> Any:
    return lambda self, done: min(most, self._spec.iterations - done)


def test_calls_get_longer_and_stop_at_evaluations() -> None:
    config = make_config("apo", **SMALL)
    spec = spec_of([config], [0], 1000 * ITERATION, eval_every=70 * ITERATION)
    calls = device_loop.Calls(spec)
    assert calls.iterations(0) == 1
    calls.took(1, 30.0)  # compilation
    assert calls.iterations(1) == 1
    calls.took(1, 0.001)
    assert calls.iterations(2) == 4
    calls.took(4, 0.004)
    calls.took(16, 0.016)
    assert calls.iterations(22) == 48  # up to the evaluation at 70, never more than 64
    assert calls.iterations(70) == 64
    assert calls.iterations(995) == 5
    calls.took(48, 20.0)
    assert calls.iterations(70) == 2


@pytest.mark.parametrize(
    "algorithm",
    [
        pytest.param(name, marks=pytest.mark.slow if name != "apo" else ())
        for name in sorted(AGENTS)
    ],
)
def test_every_algorithm_finds_the_best_choice(algorithm: str) -> None:
    options = SMALL | {"preset": "paper", "learning_rate": 0.03}
    agent = AGENTS[algorithm](Choice(), **options).learn(60 * ITERATION)
    assert agent.evaluate(100).average_reward == 2.0
    if algorithm in ("apo", "atrpo"):
        assert agent.gain_ > 1.5


def test_with_the_best_choice_forbidden_the_second_best_is_found() -> None:
    options = SMALL | {"preset": "paper", "learning_rate": 0.03}
    agent = APO(Choice("best"), **options).learn(40 * ITERATION)
    assert agent.evaluate(100).average_reward == 1.0
    forbidden_is_best = {"action_mask": [1, 1, 0], "observation": [1.0, 0.0]}
    assert agent.predict(forbidden_is_best)[0] == 1


def test_a_mask_that_forbids_everything_is_refused() -> None:
    message = r"mask of replica 0 \(seed 3\) forbids every choice"
    with pytest.raises(EnvironmentFailure, match=message):
        APO(Choice("all"), seed=3, **SMALL).learn(ITERATION)


def test_non_finite_rewards_stop_the_run_and_keep_the_state_before(tmp_path: Path) -> None:
    agent = APO(Spoilt(after=40), **SMALL)
    message = r"reward of replica 0 \(seed 0\) was not .*iteration 3"
    with pytest.raises(NonFiniteError, match=message):
        agent.learn(10 * ITERATION, log_dir=tmp_path / "run")
    assert agent.steps_ <= 2 * ITERATION
    assert np.isfinite(agent.gain_)


def test_non_finite_rewards_of_an_evaluation_are_refused() -> None:
    agent = APO(Spoilt(after=40), **SMALL)
    with pytest.raises(NonFiniteError, match="reward of seed 0 was not finite in the evaluation"):
        agent.evaluate(100)
    message = r"reward of replica 0 \(seed 0\) was not finite in the evaluation after iteration 1"
    with pytest.raises(NonFiniteError, match=message):
        agent.learn(ITERATION, eval_every=ITERATION, eval_steps=100)


def test_diverging_training_stops_and_names_the_non_finite_values() -> None:
    with pytest.raises(
        NonFiniteError, match=r"replica 0 \(seed 0\) became non-finite in iteration"
    ):
        APO("jax:criss-cross", **SMALL, learning_rate=1e38).learn(30 * ITERATION)


def test_episodes_are_measured_and_time_limits_bootstrap() -> None:
    agent = PPO(Count(time_limit=25, costly_reset=True), **SMALL).learn(2 * ITERATION)
    report = agent.evaluate(1000)
    assert (report.episode_length, report.episodes, report.steps) == (25, 10, 1000)


def test_a_replica_among_others_learns_what_it_learns_alone() -> None:
    configs = [make_config("apo", **SMALL, gae_lambda=x) for x in (0.5, 0.9, 0.95)]
    env = criss_cross()
    spec = spec_of(configs, [5, 6, 7], 3 * ITERATION, eval_every=0)
    loop = open_env(env)
    starts = [loop.fresh_snapshot(c, s) for c, s in zip(configs, (5, 6, 7), strict=True)]
    together = Training(OpenRun(spec, loop, starts)).run(False).snapshots[1]
    alone = APO(env, seed=6, **SMALL, gae_lambda=0.9).learn(3 * ITERATION).snapshot
    for a, b in zip(jax.tree.leaves(together), jax.tree.leaves(alone), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-6)  # batched products round differently


def test_metrics_of_long_runs_are_thinned_independently_of_the_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(device_loop, "MOST_ROWS", 4)
    seen: list[int] = []
    APO(Choice(), **SMALL).learn(9 * ITERATION, on_log=lambda p: seen.append(p.step // ITERATION))
    assert seen == [2, 4, 6, 8, 9]


def test_limits_are_watched_in_thinned_iterations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_loop, "MOST_ROWS", 2)
    monkeypatch.setattr(failing_training, "UNKEPT_ITERATIONS", 6)
    with pytest.warns(UserWarning, match="after 6 iterations that only lowered"):
        ATRPO("jax:access-control", limits={"busy": -100}, **SMALL).learn(7 * ITERATION)


def test_a_run_can_be_stopped_and_continued() -> None:
    agent = APO(Choice(), **SMALL).learn(50 * ITERATION, on_log=lambda p: p.step < 2 * ITERATION)
    stopped = agent.steps_
    assert 2 * ITERATION <= stopped < 50 * ITERATION
    agent.learn(ITERATION)
    assert agent.steps_ == stopped + ITERATION


def test_save_and_load_keep_the_environments(tmp_path: Path) -> None:
    agent = APO("jax:criss-cross", env_args={"idling": False}, **SMALL).learn(3 * ITERATION)
    agent.save(tmp_path / "agent")
    loaded = APO.load(tmp_path / "agent")
    assert repr(loaded) == "APO('jax:criss-cross', seed=0, steps_=192)"
    for a, b in zip(
        jax.tree.leaves(agent.learn(ITERATION).snapshot),
        jax.tree.leaves(loaded.learn(ITERATION).snapshot),
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)


def test_a_run_resumes_by_the_same_command_that_started_it(tmp_path: Path) -> None:
    """BM is the default, which is not part of the environment's own name."""
    command = ["train", "apo", *NETWORK[:3], "regime=BM", *OPTIONS, "--no-eval", "--quiet"]
    command += ["--hidden-sizes", "8", "--out", str(tmp_path / "run")]
    command += ["--preset", "paper"]
    assert main([*command, "--steps", "64"]) == 0
    assert main([*command, "--steps", "128", "--resume"]) == 0
    assert main([*command[:-1], "queueing", "--steps", "192", "--resume"]) == 2
    assert APO.load(tmp_path / "run", "jax:criss-cross?regime=BM").steps_ == 128
    other = ["train", "--resume", "--env-args", "regime=IL", "--out", str(tmp_path / "run")]
    assert main([*other, "--steps", "192"]) == 2
    with pytest.raises(ValueError, match="holds environment 'jax:criss-cross', not"):
        APO.load(tmp_path / "run", criss_cross("IL"))


def test_evaluations_of_any_length_are_measured() -> None:
    agent = APO(Count(time_limit=50, costly_reset=True), **SMALL)
    for steps in (7, 211):  # primes, one beyond a block
        report = agent.evaluate(steps)
        assert report.steps == steps
        assert report.episodes == min(steps // 50, 1)  # not ten of one environment: its first alone


@pytest.mark.parametrize("bounds", ["raw", "clip"])
def test_evaluations_and_predictions_apply_the_same_bounds(bounds: str) -> None:
    env = Count(time_limit=50)  # pays the action that it is given, of [-1, .5]
    agent = APO(env, **SMALL, action_bounds=bounds)
    state = agent.state
    layers = tuple((0 * weights, bias + 3) for weights, bias in state.params.policy.layers)
    policy = state.params.policy._replace(layers=layers)
    agent.snapshot = agent.snapshot._replace(
        state=state._replace(params=state.params._replace(policy=policy))
    )
    expected = 3.0 if bounds == "raw" else 0.5
    assert agent.evaluate(100).average_reward == expected
    assert agent.predict(np.zeros(1, np.float32))[0].tolist() == [expected]


@pytest.mark.slow
def test_the_authors_algorithm_resumes_bit_identically_on_a_device(tmp_path: Path) -> None:
    env = Count(time_limit=7)
    options, kind = SMALL | {"preset": "paper", "scale_rewards": True}, agent_of("apo-authors")
    whole = kind(env, **options).learn(4 * ITERATION)
    kind(env, **options).learn(2 * ITERATION).save(tmp_path)
    loaded = kind.load(tmp_path, env).learn(2 * ITERATION)
    assert loaded.state.criterion.reward_sum.any()
    pairs = zip(*(jax.tree.leaves(a.snapshot) for a in (whole, loaded)), strict=True)
    for a, b in pairs:
        np.testing.assert_array_equal(a, b)


def test_a_class_or_function_may_make_a_native_environment() -> None:
    assert APO(Choice, **SMALL).learn(ITERATION).steps_ == ITERATION
    assert APO(lambda: Choice("best"), **SMALL).spaces.masked


def test_seeds_beyond_32_bits_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seeds = ["--seed", str(2**32 - 1), "--seeds", "2"]
    assert train(tmp_path / "run", *seeds) == 2
    assert "reach beyond 2**32 - 1; lower --seed" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_labels_name_only_changed_options(whole: Path) -> None:
    sizes = "num_envs=4 rollout_steps=16 epochs=2 minibatch_size=32 learning_rate_decay=False"
    labels = [setting.label for setting in read_results(whole)]
    assert labels == [f"APO {sizes} value_constraint={nu}" for nu in (0.0, 0.3)]


def test_evaluate_on_the_command_line(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(whole), "--steps", "500"]) == 0
    assert "seed 1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--env", "jax:criss-cros"], "did you mean criss-cross"),
        ([*NETWORK[:3], "regime=XX"], "regime"),
        ([*NETWORK[:3], "regmie=BM"], "did you mean regime"),
        ([*NETWORK[:3], "regime"], "must look like regime=BM"),
        (["--env", "Swimmer-v5", "--env-args", "wings=2"], "wings"),
        ([*NETWORK, "--distributed", "here"], "address:port,processes,index"),
        (["--env", "Swimmer-v5", "--distributed", "auto"], "not 'Swimmer-v5'"),
    ],
)
def test_wrong_environments_are_refused_in_one_line(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "apo", *arguments, "--out", str(tmp_path / "run")]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_what_was_learned_before_an_error_is_left() -> None:
    agent = APO(Spoilt(after=5 * SMALL["rollout_steps"]), **SMALL)
    with pytest.raises(NonFiniteError):
        agent.learn(40 * ITERATION)
    assert 0 < agent.steps_ < 40 * ITERATION
