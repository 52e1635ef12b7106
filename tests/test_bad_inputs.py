"""Inputs that a new user gives: one line with the field, the value and what to do."""

from __future__ import annotations

import re
import threading
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from longrun import APO, PPO
from longrun.cli import main
from longrun.cli.sweep import _envs
from run_specs import spec_of
from tiny_envs import ENDLESS, ITERATION, MORTAL, TINY, TINY_FLAGS, Drift, Sampler

LOCAL: dict[str, Any] = TINY | {"num_workers": 0}
PUSH = spaces.Box(-0.5, 0.5, (1,), np.float32)


class Locked(Drift):
    """Cannot be copied."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()


def closed_over_a_lock() -> Any:
    lock = threading.Lock()

    def make() -> Drift:
        with lock:
            return Drift()

    return make


class Bare(gymnasium.Env[Any, Any]):
    """Has the spaces that it is given, and no others."""

    def __init__(self, **given: Any) -> None:
        vars(self).update(given)


def saved_without_an_id(path: Path) -> Path:
    APO(MORTAL, **LOCAL).save(path / "agent")
    return path / "agent"


def file_in(path: Path) -> Path:
    (path / "tower.py").write_text("class Tower: ...")
    return path / "tower.py"


def learned_twice(first: Path, second: Path) -> None:
    for folder in (first, second):
        APO(MORTAL, **LOCAL).learn(ITERATION, log_dir=folder, eval_every=0)


CALLS = {
    "preset": (lambda _: APO(MORTAL, preset=None), r"preset=None must be one of tuned"),
    "preset number": (lambda _: APO(MORTAL, preset=3), r"preset=3 must be one of"),
    "environments": (lambda _: APO(MORTAL, num_envs=10**9), r"num_envs=1000000000.*at most"),
    "steps": (lambda _: APO(MORTAL, rollout_steps=10**12), r"rollout_steps=.*at most"),
    "epochs": (lambda _: APO(MORTAL, epochs=10**12), r"epochs=.*at most"),
    "both": (
        lambda _: APO(MORTAL, num_envs=2**20, rollout_steps=2**20),
        r"num_envs=1048576 x rollout_steps=1048576 .* at most",
    ),
    "networks": (
        lambda _: APO(MORTAL, hidden_sizes=(10**9, 10**9)),
        r"hidden_sizes=\(1000000000, 1000000000\).*GiB.*smaller",
    ),
    "value network": (
        lambda _: APO(MORTAL, value_hidden_sizes=(10**6, 10**6)),
        r"value_hidden_sizes=\(1000000, 1000000\).*GiB",
    ),
    "memory of a rollout": (
        lambda _: APO(MORTAL, num_envs=2**20, rollout_steps=2000).learn(10),
        r"num_envs=1048576 x rollout_steps=2000 .* GiB of memory",
    ),
    "load": (
        lambda path: APO.load(saved_without_an_id(path)),
        r"trained on 'Drift', which is no id: pass env=.* or for predict alone take"
        r" longrun\.load_policy\('.*'\); the command line",
    ),
    "instance": (lambda _: APO(Locked(), **LOCAL), r"copied \(.*lock.*a function that makes it$"),
    "workers": (
        lambda _: APO(closed_over_a_lock(), num_workers=2, **TINY).learn(ITERATION),
        r"copied to worker processes \(.*lock.*num_workers=0 \(--workers 0\)$",
    ),
    "no spaces": (
        lambda _: APO(Bare),
        "environment Bare has no observation_space: it has to be a gymnasium.Env with"
        " observation_space and action_space",
    ),
    "no action space": (
        lambda _: APO(gymnasium.wrappers.TimeLimit(Bare(observation_space=PUSH), 5)),
        "environment Bare has no action_space: it has to be a gymnasium.Env with",
    ),
    "no space of Gymnasium's": (
        lambda _: APO(Bare(observation_space=PUSH, action_space=[-1, 1])),
        r"action_space=\[-1, 1\] of environment Bare must be a gymnasium.spaces.Space",
    ),
    "discount": (lambda _: APO(MORTAL, discount=0.9), r"'discount'; PPO, TRPO have it"),
    "gain": (lambda _: PPO(MORTAL, gain_step_size=0.9), r"'gain_step_size'; APO, ATRPO have it"),
    "another library's order": (
        lambda _: APO("MlpPolicy", "CartPole-v1"),  # type: ignore[call-arg, arg-type]
        r"APO\(env, seed=0\).*no policy class.*'MlpPolicy'",
    ),
    "policy": (lambda _: APO("MlpPolicy"), r"no policy class such as 'MlpPolicy'"),
    "another library's learn": (
        lambda _: APO(MORTAL).learn(total_timesteps=10),  # type: ignore[call-arg]
        r"unknown argument of learn 'total_timesteps'; it is called steps here$",
    ),
    "an argument with another spelling": (
        lambda _: APO(MORTAL).learn(10, logdir="x"),  # type: ignore[call-arg]
        r"unknown argument of learn 'logdir'; did you mean log_dir\?$",
    ),
    "an argument of nothing": (
        lambda _: APO(MORTAL).evaluate(qqq=1),  # type: ignore[call-arg]
        r"unknown argument of evaluate 'qqq'; valid: steps, warmup",
    ),
    "arguments of a class": (
        lambda _: APO(Drift, env_args={"limit": 7, "wall": 1.5}),
        r"env_args=.*; write lambda: Drift\(limit=7, wall=1.5\), or name it as 'module:Class'$",
    ),
    "another algorithm's file": (
        lambda path: PPO.load(saved_without_an_id(path)),
        r"holds algorithm 'apo', not 'ppo'; use APO.load\('.*'\), or longrun train apo --resume",
    ),
    "a folder of runs": (
        lambda path: learned_twice(path / "run", path),
        r"holds other runs, such as '.*/run'; choose a folder such as '.*/NAME'$",
    ),
    "a file for a run": (
        lambda path: APO(MORTAL, **LOCAL).learn(10, log_dir=file_in(path)),
        r"'.*tower.py' is a file and a folder is needed; choose another folder$",
    ),
    "a file for an agent": (
        lambda path: APO(MORTAL, **LOCAL).save(file_in(path)),
        r"'.*tower.py' is a file and a folder is needed; choose another folder$",
    ),
    "another library's evaluate": (
        lambda _: APO(MORTAL).evaluate(n_eval_episodes=10),  # type: ignore[call-arg]
        r"unknown argument of evaluate 'n_eval_episodes'; give steps",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_python_says_what_is_wrong(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("longrun.base.memory.total_memory", lambda: 8 * 2.0**30)
    call, message = CALLS[name]
    with pytest.raises(ValueError, match=message) as refusal:
        call(tmp_path)
    assert "\n" not in str(refusal.value)


COMMANDS = {
    "train apo --env Drift-v0 --discount 0.9": "'--discount'; PPO, TRPO have it, APO does not",
    "train ppo --env Drift-v0 --gain-step-size 1": "APO, ATRPO have it, PPO does not",
    "train apo --env Drift-v0 --num-envs 1e9": "num_envs=1000000000",
    "train apo --env Drift-v0 --num-envs 2.5": "argument --num-envs: invalid whole number",
    "solve criss-cross --size 100000": "size=100000 makes 1,000,030,000,300,001 states",
    "solve access-control --servers 1000000000": "makes 4,000,000,004 states, which need",
    "sweep apo --env Drift-v0 --env-args": "--env-args: expected at least one argument",
    "sweep apo --env Drift-v0 --env-args limit": "must look like",
    "sweep apo --env Drift-v0 EndlessDrift-v0 --env-args limit=9": "--env-args is for one",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_line_says_what_is_wrong(
    command: str, tmp_path: Path, capsys: Any, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(command.split()) in (1, 2)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1 and COMMANDS[command] in lines[0], lines
    assert not list(tmp_path.rglob("config.json"))


def test_whole_numbers_may_be_written_with_an_exponent(tmp_path: Path) -> None:
    flags = [*TINY_FLAGS, "--num-envs", "4e0", "--rollout-steps", "1.6e1"]
    command = ["train", "apo", "--env", "Drift-v0", "--steps", "64", "--no-eval", "--workers", "0"]
    assert main([*command, *flags, "--out", str(tmp_path / "run")]) == 0


def test_a_sweep_takes_arguments_of_its_environment() -> None:
    given = {"env": ["jax:criss-cross"], "env_args": ["regime=BM"]}
    assert _envs(given) == ["jax:criss-cross?regime=BM"]


def test_the_help_of_a_sweep_lists_the_options_that_it_speaks_of(capsys: Any) -> None:
    assert main(["sweep", "--help"]) == 0
    text = capsys.readouterr().out
    assert "any of those listed at the end" in re.sub(r"\s+", " ", text)
    assert text.index("--grid") < text.index("--gae-lambda") < text.index("--kl-limit")


# Observations.


class Mixed(gymnasium.Env[Any, Any]):
    observation_space = spaces.Dict(a=spaces.Box(-1, 1, (2,)), b=spaces.Discrete(3))
    action_space = spaces.Discrete(2)


SEVERAL = {
    "dict": (Mixed.observation_space, [{"a": np.float32([0.1, 0.2]), "b": 1}] * 2),
    "tuple of dicts": (Mixed.observation_space, ({"a": np.float32([0.1, 0.2]), "b": 1},) * 2),
    "discrete": (spaces.Discrete(4), [3, 3]),
    "array of discrete": (spaces.Discrete(4), np.array([3, 3])),
    "multi-discrete": (spaces.MultiDiscrete([3, 4]), np.array([[1, 2], [1, 2]])),
    "box": (spaces.Box(-1, 1, (2,)), np.zeros((2, 2), np.float32)),
}


@pytest.mark.parametrize("name", SEVERAL)
def test_a_batch_of_any_observations_gives_an_action_for_each(name: str) -> None:
    space, observations = SEVERAL[name]
    agent = APO(partial(Sampler, space, PUSH), **LOCAL)
    one, _ = agent.predict(observations[0])
    several, _ = agent.predict(observations)
    assert several.shape == (2, 1)
    assert several.tolist() == [one.tolist()] * 2


@pytest.mark.parametrize(
    "wrong", [[], [{"a": 1}], {"a": np.zeros((2, 2)), "b": np.zeros(2)}, "text", None]
)
def test_an_observation_that_does_not_fit_is_refused_in_one_line(wrong: Any) -> None:
    agent = APO(partial(Sampler, Mixed.observation_space, PUSH), **LOCAL)
    with pytest.raises(ValueError, match="observation") as refusal:
        agent.predict(wrong)
    assert "\n" not in str(refusal.value)


# What is said while a run goes on.


def test_tensorboard_is_given_no_nan(tmp_path: Path, caplog: Any) -> None:
    APO(ENDLESS, **LOCAL).learn(ITERATION, log_dir=tmp_path, eval_steps=20, tensorboard=True)
    assert "NaN" not in caplog.text
    (events,) = tmp_path.rglob("events.out.tfevents.*")
    data = events.read_bytes()
    assert b"evaluation/average_reward" in data and b"evaluation/episode_return" not in data


class Constant(Drift):
    def step(self, action: Any) -> Any:
        obs, _, *rest = super().step(action)
        return obs, 1.0, *rest


@pytest.mark.parametrize("limit", [9, float("inf")])
def test_a_constant_reward_without_terminations_gets_another_advice(limit: float) -> None:
    agent = APO(partial(Constant, limit=limit), **LOCAL)
    with pytest.warns(UserWarning, match="every reward so far was 1") as found:
        agent.learn(12 * ITERATION)
    (message,) = {str(warning.message) for warning in found}
    assert "termination=" not in message and "check the environment's reward" in message


def test_the_number_of_evaluations_is_as_the_documentation_says() -> None:
    agent = APO(MORTAL, **LOCAL)
    for steps, expected in ((1_000_000, 20), (640_000, 20), (120_000, 5), (2_000, 1)):
        spec = spec_of([agent.config], [0], steps)
        found = sum(spec.evaluates(i) for i in range(1, spec.iterations + 1))
        assert found == expected, steps
        assert found * 10_000 <= steps / 3 + 10_000  # the last one is always made
    words = re.sub(r"\s+", " ", APO.learn.__doc__ or "")
    assert "by default up to 20 times" in words and "a third of the training's" in words
