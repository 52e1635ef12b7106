"""Whatever an environment raises or returns, its error is one line with environment and step."""

from __future__ import annotations

import inspect
import re
import sys
from functools import partial
from pathlib import Path

import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec

import failing_envs as faults
from command_line import call, train_arguments
from failing_envs import Failing
from longrun import APO, EnvironmentFailure, InputError
from longrun.base.errors import NonFiniteError, text_of
from longrun.learning.envs import seeding
from longrun.learning.envs.native import Step
from longrun.learning.envs.spaces import Spaces
from longrun.learning.envs.stepper import GymnasiumStepper
from one_state_env import OneState
from tiny_envs import ITERATION, TINY, Drift

VICTIM = seeding.episode_seed(0, seeding.EPISODE, 3, 0)
STEP = "environment 3 of replica 0 failed at step 4 of iteration 0: "


def error_of(env, num_workers=0):
    with pytest.raises(EnvironmentFailure) as caught:
        APO(env, num_workers=num_workers, **TINY).learn(2 * ITERATION)
    message = str(caught.value)
    assert "\n" not in message
    return message


RAISED = {
    "exit_with_0": "SystemExit(0)",
    "exit_generator": "GeneratorExit()",
    "raise_speechless": "Speechless",
    "raise_lines": "ArithmeticError: the motor jammed; at 12 V",
}


@pytest.mark.parametrize("fault, text", RAISED.items(), ids=RAISED)
@pytest.mark.parametrize("num_workers", [0, 2])
def test_an_environment_that_raises_anything_is_named_in_one_line(fault, text, num_workers):
    message = error_of(partial(Failing, getattr(faults, fault), VICTIM), num_workers)
    worker = "worker 1 failed: " if num_workers else ""
    assert message == f"{worker}{STEP}{text} ({line_of(fault)})"


def line_of(fault):
    """The file and the last line of a function of `failing_envs`, as messages name them."""
    lines, first = inspect.getsourcelines(getattr(faults, fault))
    file = Path(faults.__file__)
    shown = file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file
    return f"{shown}:{first + len(lines) - 1}"


def test_an_exit_in_a_reset_is_named():
    message = error_of(partial(Failing, faults.exit_with_0, VICTIM, at=0))
    beginning = "environment 3 of replica 0 failed at its reset: SystemExit(0)"
    assert message == f"{beginning} ({line_of('exit_with_0')})"


def test_the_line_is_of_the_user_s_code_and_not_of_a_library_that_it_calls():
    def raise_in_numpy(env):
        np.concatenate([np.zeros(2), np.zeros((2, 2))])

    message = error_of(partial(Failing, raise_in_numpy, VICTIM))
    line = raise_in_numpy.__code__.co_firstlineno + 1
    assert re.search(rf"ValueError: .*\(\S*test_env_errors\.py:{line}\)$", message)


def test_the_command_names_type_and_line_and_the_option_for_more(tmp_path, capsys):
    result = call(capsys, *train_arguments(tmp_path / "run"), "--env", "failing_envs:KeyDrift-v0")
    assert "failed at step 4 of iteration 0: KeyError: 'pump' (" in result.err
    assert f"{line_of('raise_key')}); --debug shows the traceback\n" in result.err
    assert result.err.count("\n") == 1


def test_the_traceback_is_shown_on_request(tmp_path, capsys):
    command = [*train_arguments(tmp_path / "run"), "--env", "failing_envs:KeyDrift-v0", "--debug"]
    result = call(capsys, *command)
    assert "in raise_key" in result.err
    assert "--debug" not in result.err


def test_an_exit_in_an_evaluation_is_named():
    seed = seeding.episode_seed(0, seeding.MEASUREMENT, 0, 0, 0)
    env = partial(Failing, faults.exit_with_0, seed)
    with pytest.raises(
        EnvironmentFailure, match=r"step 4 of the evaluation .*: SystemExit\(0\) \("
    ):
        APO(env, num_workers=0, **TINY).evaluate(100)


def test_an_interrupt_in_an_evaluation_is_the_user_s():
    def interrupt(env):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        APO(partial(Failing, interrupt), num_workers=0, **TINY).evaluate(100)


@pytest.mark.parametrize("name", ["Exit", "Generator"])
@pytest.mark.parametrize("workers", ["0", "1"])
def test_a_command_whose_environment_exits_has_failed(name, workers, tmp_path, capsys):
    env = ["--env", f"failing_envs:{name}Drift-v0", "--workers", workers]
    result = call(capsys, *train_arguments(tmp_path / "run"), *env)
    assert result.status == 1
    assert result.err.startswith("longrun: ")
    assert "environment 0 of replica 0 failed at step 4 of iteration 0: " in result.err
    assert result.err.count("\n") == 1


def test_an_environment_that_exits_when_it_is_made_has_failed():
    def make():
        sys.exit(0)

    with pytest.raises(EnvironmentFailure, match=r"'make' cannot be made: SystemExit\(0\)"):
        APO(make, **TINY)


def test_a_module_that_exits_when_it_is_imported_is_wrong_input(tmp_path, monkeypatch):
    (tmp_path / "a_script_that_exits.py").write_text("import sys\nsys.exit(0)\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match=r"a_script_that_exits.*SystemExit\(0\)"):
        APO("a_script_that_exits:Drift-v0", **TINY)


class Sticky(Drift):
    """Cannot be closed, once it was stepped."""

    def close(self):
        if self.time:
            sys.exit(0)


def test_an_environment_that_exits_when_it_is_closed_has_failed():
    agent = APO(Sticky, num_workers=0, **TINY).learn(ITERATION)
    with pytest.raises(EnvironmentFailure, match=r"failed when it was closed: SystemExit\(0\)"):
        agent.close()


def test_an_agent_does_not_get_the_error_of_closing_another_one_s_environments():
    sticky = APO(Sticky, num_workers=0, **TINY).learn(ITERATION)
    others = [APO(Drift, num_workers=0, **TINY).learn(ITERATION) for _ in range(2)]
    assert [agent.steps_ for agent in (sticky, *others)] == [ITERATION] * 3


def test_the_error_of_a_step_is_not_hidden_by_that_of_closing():
    class Both(Sticky):
        def step(self, action):
            super().step(action)
            raise ArithmeticError("the motor jammed")

    assert "the motor jammed" in error_of(Both)


def test_texts_of_errors():
    assert text_of(ValueError("of one line")) == "of one line"
    assert text_of(ValueError()) == "ValueError()"
    assert text_of(faults.Speechless()) == "Speechless"
    assert len(text_of(ValueError("x" * 10**6))) <= 1000


# What `step` returns.

WRONG = {
    "reward": [(1, "1.0"), (1, None), (1, np.ones(2)), (1, [1.0]), (1, 1j), (1, np.array("1"))],
    "terminated": [(2, None), (2, "False"), (2, np.zeros(2, bool)), (2, 2), (2, [])],
    "truncated": [(3, None), (3, "no"), (3, 0.5)],
}


@pytest.mark.parametrize(
    "field, index, value", [(f, *wrong) for f, many in WRONG.items() for wrong in many]
)
def test_a_value_of_another_type_is_refused_with_field_value_and_fix(field, index, value):
    message = error_of(partial(Failing, faults.returned(index, value), VICTIM))
    fix = "a number" if field == "reward" else "a bool"
    assert message.startswith(f"{STEP}{field} {value!r}")
    assert message.endswith(f"must be {fix}")


# What `reset` and `step` take and return.


class OldStep(Drift):
    def step(self, action):
        observation, reward, terminated, _, info = super().step(action)
        return observation, reward, terminated, info


class NoStep(Drift):
    def step(self, action):
        return None


class OldReset(Drift):
    """Drift's observations have two numbers, as many as reset has to return."""

    def reset(self, seed=None, options=None):
        return super().reset(seed=seed)[0]


class Single(Drift):
    def reset(self, seed=None, options=None):
        return super().reset(seed=seed)[:1]


class NoSeed(Drift):
    def reset(self):
        return super().reset()


class Careless(Drift):
    def step(self, action):
        (_, _) = [action]


STEP_FORM = "; write step(action), which returns (observation, reward, terminated, truncated, info)"
RESET_FORM = "; write reset(seed=None, options=None), which returns (observation, info)"
FORMS = {
    OldStep: "not enough values to unpack (expected 5, got 4)" + STEP_FORM,
    NoStep: "object of type 'NoneType' has no len()" + STEP_FORM,
    OldReset: "reset returned a ndarray" + RESET_FORM,
    Single: "not enough values to unpack (expected 2, got 1)" + RESET_FORM,
    NoSeed: "NoSeed.reset() got an unexpected keyword argument 'seed'" + RESET_FORM,
    Careless: "not enough values to unpack (expected 2, got 1)",
}


@pytest.mark.parametrize("env", FORMS)
def test_a_method_of_another_form_is_refused_with_the_right_one(env):
    message = error_of(env)
    if env is Careless:  # the error is of the environment's own code, whose line is named
        message, _, line = message.rpartition(" (")
        assert re.fullmatch(r"\S*test_env_errors\.py:\d+\)", line)
    assert message.endswith(f": {FORMS[env]}")


@pytest.mark.filterwarnings("ignore")  # Gymnasium's own
@pytest.mark.parametrize(("env", "form"), [(OldStep, STEP_FORM), (NoSeed, RESET_FORM)])
def test_so_it_is_by_the_wrappers_of_gymnasium(env, form):
    with pytest.raises(EnvironmentFailure) as caught:
        made = partial(gymnasium.make, EnvSpec("Old-v0", env, max_episode_steps=9))
        APO(made, num_workers=0, **TINY).learn(ITERATION)
    assert str(caught.value).endswith(form)


def test_workers_refuse_it_too():
    message = error_of(partial(Failing, faults.returned(2, None), VICTIM), num_workers=2)
    assert message == f"worker 1 failed: {STEP}terminated None of type NoneType must be a bool"


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "reward", [1, True, 1.0, np.float32(1), np.int8(1), np.bool_(True), np.ones(1), np.array(1)]
)
@pytest.mark.parametrize("flag", [True, 1, 1.0, np.bool_(True), np.int64(1), np.array([True])])
def test_numbers_and_flags_of_other_types_are_converted(reward, flag):
    env = Failing(lambda env: {1: reward, 2: flag, 3: flag}, at=1)
    stepper = GymnasiumStepper(env)
    obs = np.zeros(2, np.float32)
    stepper.reset(0, obs)
    facts = stepper.step(np.zeros(1, np.float32), obs)
    assert facts == (1.0, True, True)
    assert [type(fact) for fact in facts] == [float, bool, bool]


def test_an_evaluation_refuses_rewards_beyond_float32_as_a_rollout_does():
    agent = APO(partial(Failing, faults.returned(1, 1e300)), num_workers=0, **TINY)
    expected = "returned a non-finite evaluation's reward of 1e\\+300 at step 4"
    with pytest.raises(NonFiniteError, match=expected):
        agent.evaluate(20)


def vanishing(params, x):
    """A network of a user that takes the logarithm of something negative."""
    return jnp.log(x[:, :1] * 0 - 1)


def linear(key, inputs, outputs):
    return jnp.zeros((inputs, outputs))


@pytest.mark.parametrize("discrete", [False, True])
@pytest.mark.parametrize("num_workers", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_policy_network_that_returns_nan_is_named(discrete, num_workers):
    def three(params, x):
        return jnp.repeat(vanishing(params, x), 3 if discrete else 1, axis=1)

    env = partial(Drift, discrete=discrete)
    agent = APO(env, num_workers=num_workers, policy_network=(linear, three), **TINY)
    with pytest.raises(NonFiniteError, match=r"^your policy_network returned nan \(output 0\)"):
        agent.learn(ITERATION)
    with pytest.raises(NonFiniteError, match=r"apply\(params, x\) must return finite numbers$"):
        agent.predict(np.zeros(2, np.float32))


class Push(OneState):
    """It takes a force."""

    @property
    def spaces(self):
        return Spaces(1, 1, (), (-1.0,), (1.0,))

    def step(self, key, state, action):
        return Step(state, jnp.ones(1) * action, jnp.ones(()), False)


def test_so_it_is_on_a_device():
    agent = APO(Push(), policy_network=(linear, vanishing), **TINY)
    with pytest.raises(NonFiniteError, match=r"^the policy network of replica 0 \(seed 0\) gave"):
        agent.learn(ITERATION)
