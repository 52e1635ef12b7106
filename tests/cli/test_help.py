"""Help texts, and the installed program."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from command_line import (
    Result,
    read_csv,
    script,
)
from longrun import __version__
from longrun.cli import COMMANDS
from longrun.learning.options.config import ALGORITHMS
from longrun.learning.options.config_options import make_config, value_text
from longrun.learning.options.option_fields import functions
from tiny_envs import TINY_FLAGS


def flagged(algorithm):
    """What the options of an algorithm are called, without those that are functions."""
    fields = dataclasses.fields(ALGORITHMS[algorithm])
    names = [field.name for field in fields if field.metadata["check"] is not functions]
    return ["limit" if name == "limits" else name for name in names]  # it is repeated


@pytest.mark.parametrize("command", [[], ["-h"], ["--help"]])
def test_help_lists_the_commands(command, longrun):
    result = longrun(*command)
    assert (result.status, result.err) == (0, "")
    for name in ("train", "evaluate", "plot"):
        assert name in result.out


@pytest.mark.parametrize("command", [[], ["-h"], ["--help"]])
def test_help_of_train_lists_the_algorithms(command, longrun):
    result = longrun("train", *command)
    assert (result.status, result.err) == (0, "")
    for name in (*ALGORITHMS, "--resume", "--env"):
        assert name in result.out


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_help_of_an_algorithm_mentions_each_option(algorithm, longrun):
    result = longrun("train", algorithm, "--help")
    assert (result.status, result.err) == (0, "")
    own = [name.replace("_", "-") for name in flagged(algorithm)]
    run = "env steps seeds seed grid preset out resume workers step-timeout eval-every eval-steps"
    for name in [*own, *run.split(), "no-eval", "tensorboard", "quiet"]:
        assert f"--{name} " in result.out.replace(",", " ").replace("\n", " "), name


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("command", ["train", "sweep"])
def test_help_shows_the_defaults_of_the_default_preset(command, algorithm, longrun):
    text = " ".join(longrun(command, algorithm, "--help").out.split())
    assert "(defaults of --preset tuned)" in text
    assert "networks (default: tuned)" in text  # of --preset itself
    config = make_config(algorithm)
    for field in dataclasses.fields(config):
        if field.metadata["check"] is not functions:
            default = value_text(getattr(config, field.name), " ")
            assert f"{' '.join(field.metadata['help'].split())} (default: {default})" in text
    assert config != make_config(algorithm, "paper")  # whose defaults are those of the fields


@pytest.mark.parametrize("command, option", [("evaluate", "--steps"), ("plot", "--out")])
def test_help_of_the_other_commands_mentions_each_option(command, option, longrun):
    result = longrun(command, "--help")
    assert (result.status, result.err) == (0, "")
    assert option in result.out


def test_help_names_the_algorithms_where_their_defaults_differ(longrun):
    words = " ".join(longrun("sweep", "--help").out.split())
    assert "(default: True for APO, ATRPO; False for PPO, TRPO)" in words


@pytest.mark.parametrize("algorithms", [[], ["apo"], ["ppo", "trpo"]], ids=" ".join)
def test_help_of_sweep_lists_every_option_that_a_grid_may_name(algorithms, longrun):
    text = longrun("sweep", *algorithms, "--help").out
    for algorithm in algorithms or ALGORITHMS:
        for name in flagged(algorithm):
            assert f"--{name.replace('_', '-')}" in text, name
    assert ("APO, ATRPO only: alpha: step size" in text) == (not algorithms)


@pytest.mark.parametrize("command", [name for name in COMMANDS if name not in ("train", "solve")])
def test_help_of_a_command_has_its_usage_and_an_example(command, longrun):
    status, out, err = longrun(command, "--help")
    assert (status, err) == (0, "")
    assert out.startswith(f"usage: longrun {command} ")
    assert f"longrun {command} " in out.partition("example")[2]


# The real program.


def test_the_program_answers_help_and_version():
    assert script("--version") == Result(0, f"{__version__}\n", "")
    result = script("train", "apo", "--help")
    assert (result.status, result.err) == (0, "")
    assert "--value-constraint" in result.out


@pytest.mark.slow
def test_the_program_trains_with_workers(tmp_path):
    out = str(tmp_path / "run")
    command = ["train", "apo", "--env", "Pendulum-v1", "--workers", "2", "--out", out, *TINY_FLAGS]
    command += ["--no-eval", "--steps", "64"]
    result = script(*command)
    assert (result.status, result.err) == (0, "")
    assert len(read_csv(Path(out) / "metrics.csv")) == 1
