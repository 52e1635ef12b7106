"""Options: checked one by one, and against each other, with errors that say what to do."""

from __future__ import annotations

import dataclasses
import inspect
import math
import re

import pytest

import longrun
from longrun import APO
from longrun.base.checks import known
from longrun.learning.options.config import ALGORITHMS, APOConfig, PPOConfig
from longrun.learning.options.config_options import make_config
from longrun.learning.options.other_names import ELSEWHERE, OURS

FIELDS = [(name, field) for name, kind in ALGORITHMS.items() for field in dataclasses.fields(kind)]
SHARE, COUNT, AMOUNT = (0, 1), (1, math.inf), (0, math.inf)
BOUNDS = {
    **dict.fromkeys(("gae_lambda", "gain_step_size", "value_constraint"), SHARE),
    **dict.fromkeys(("discount",), SHARE),
    **dict.fromkeys(("num_envs", "rollout_steps", "epochs", "minibatch_size"), COUNT),
    **dict.fromkeys(("learning_rate", "entropy_coefficient"), AMOUNT),
    **dict.fromkeys(("reset_cost", "reset_cost_step_size"), AMOUNT),
    "limit_step_size": (1e-6, 1),
    "clip_range": (1e-9, 1),  # 0 would leave no ratio but 1
    "termination_target": (1e-9, 1),  # it is divided by
    "kl_limit": (1e-12, math.inf),  # 0 would leave no step
    "initial_log_std": (-10, 2),  # a standard deviation of 5e-5 to 7.4
}
"""The smallest and the largest value of each numeric option."""
NUMBERS = [(name, field) for name, field in FIELDS if field.name in BOUNDS]


# A test loops over the algorithms and their options, and names all that fail: a case for each of
# them would be a quarter of all cases.


def told(algorithm, **options):
    """What the error says; "" if there is none."""
    try:
        make_config(algorithm, **options)
    except ValueError as error:
        return str(error)
    return ""


def test_a_number_out_of_range_is_refused_with_field_value_and_fix():
    wrong = []
    for algorithm, field in NUMBERS:
        low, high = BOUNDS[field.name]
        is_count = BOUNDS[field.name] == COUNT
        for value in (low - 1 if is_count else low - 1e-3, low - 1, high + 1e-3, high + 1):
            if not math.isfinite(value):
                continue
            message = told(algorithm, **{field.name: value})
            named = message.startswith(f"{field.name}={value}")
            if not named or not (f"at least {low:g}" in message or f"{low:g} and" in message):
                wrong.append((algorithm, field.name, value, message))
    assert not wrong, "\n".join(map(str, wrong))


def test_every_number_has_bounds_here():
    numeric = {field.name for _, field in FIELDS if type(field.default) in (int, float)}
    assert numeric == set(BOUNDS)


def test_what_is_no_number_is_refused():
    wrong = []
    for algorithm, field in NUMBERS:
        for value in (math.nan, math.inf, "fast", None, True, [1]):
            message = told(algorithm, **{field.name: value})
            if not re.search(rf"{field.name}=.* must be a (whole )?number", message):
                wrong.append((algorithm, field.name, value, message))
    assert not wrong, "\n".join(map(str, wrong))


def test_limits_themselves_are_allowed():
    room = {"num_envs": 10, "rollout_steps": 100, "minibatch_size": 1, "termination": "reset"}
    for algorithm, field in NUMBERS:
        names = {f.name for f in dataclasses.fields(ALGORITHMS[algorithm])}
        for value in BOUNDS[field.name]:
            if math.isfinite(value):
                options = {k: v for k, v in room.items() if k in names} | {field.name: value}
                assert not told(algorithm, **options), (algorithm, field.name, value)
                found = getattr(make_config(algorithm, **options), field.name)
                assert found == value, (algorithm, field.name)


def test_flags_choices_and_sizes_are_checked():
    invalid = {
        bool: [1, "yes", None],
        str: ["none", 1, None],
        tuple: [64, "64", (0,), (8, -1), (2.5,), None],
        int: [1.5],
        float: [],
    }
    wrong = []
    for algorithm, field in FIELDS:
        for value in invalid[type(field.default)]:
            message = told(algorithm, **{field.name: value})
            if not message.startswith(f"{field.name}="):
                wrong.append((algorithm, field.name, value, message))
    assert not wrong, "\n".join(map(str, wrong))


def test_whole_numbers_may_be_written_as_floats_and_sizes_as_lists():
    config = make_config("apo", num_envs=4.0, hidden_sizes=[8, 8], gae_lambda=1)
    assert (config.num_envs, config.hidden_sizes, config.gae_lambda) == (4, (8, 8), 1.0)
    assert type(config.num_envs) is int
    assert hash(config) == hash(make_config("apo", num_envs=4, hidden_sizes=(8, 8), gae_lambda=1.0))


@pytest.mark.parametrize("name", ["reset_cost", "reset_cost_step_size"])
def test_a_reset_cost_needs_the_termination_that_has_one(name):
    with pytest.raises(ValueError, match=rf"{name}=0.5 has no effect.*set termination='reset'"):
        make_config("apo", termination="zero", **{name: 0.5})
    assert getattr(APOConfig(**{name: 0.5}), name) == 0.5


def test_a_minibatch_must_fit_into_a_rollout():
    with pytest.raises(ValueError, match=r"minibatch_size=65 .*num_envs=4 x rollout_steps=16"):
        PPOConfig(num_envs=4, rollout_steps=16, minibatch_size=65)
    assert PPOConfig(num_envs=4, rollout_steps=16, minibatch_size=64).minibatch_size == 64


@pytest.mark.parametrize(
    "algorithm, options, message",
    [
        ("apoo", {}, r"unknown algorithm 'apoo'; did you mean .*apo"),
        ("apo", {"value_constrain": 1}, r"unknown APO option 'value_constrain'.*value_constraint"),
        ("apo", {"discount": 0.9}, r"unknown APO option 'discount'"),
        ("ppo", {"value_constraint": 0.1}, r"unknown PPO option 'value_constraint'"),
        ("trpo", {"clip_range": 0.1}, r"unknown TRPO option 'clip_range'"),
        ("apo", {"preset": "papr"}, r"unknown preset 'papr'; did you mean paper\?"),
        ("zzz", {}, r"unknown algorithm 'zzz'; valid: apo, ppo, atrpo, trpo"),
    ],
)
def test_unknown_names_list_the_near_or_the_valid_ones(algorithm, options, message):
    with pytest.raises(ValueError, match=message):
        make_config(algorithm, **options)


def test_a_long_list_of_valid_names_says_how_many_more_there_are():
    valid = [f"{number}" for number in range(43)]
    for wrong in ("zzz", None):
        with pytest.raises(ValueError, match=r"0, 1, .*, 39 and 3 more$"):
            known("name", wrong, valid)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_is_made_by_its_name_in_any_case(name):
    assert make_config(name.upper()).algorithm == name


def test_configurations_cannot_be_changed_in_place():
    with pytest.raises(dataclasses.FrozenInstanceError):
        make_config("apo").gae_lambda = 0.5  # type: ignore[misc]


def test_every_option_is_explained():
    silent = [f"{name} {field.name}" for name, field in FIELDS if not field.metadata["help"]]
    assert not silent, ", ".join(silent)


@pytest.mark.parametrize(
    ("algorithm", "name", "message"),
    [
        ("ppo", "gamma", "unknown PPO option 'gamma'; it is called discount here"),
        ("apo", "gamma", "it is called discount here, which APO does not have"),
        ("apo", "ent_coef", "it is called entropy_coefficient here"),
        ("apo", "n_steps", "it is called rollout_steps here"),
        ("atrpo", "clip_coef", "it is called clip_range here, which ATRPO does not have"),
        ("apo", "verbose", r"see learn\(progress_bar=...\) and on_log"),
        ("apo", "policy_kwargs", "it is called hidden_sizes here"),
        ("apo", "clip_actions", r"unknown APO option 'clip_actions'; write action_bounds='clip'"),
        ("apo", "gae_lambd", "did you mean gae_lambda"),
    ],
)
def test_names_of_other_libraries_get_ours(algorithm, name, message):
    with pytest.raises(ValueError, match=message):
        make_config(algorithm, **{name: 1})


def test_our_names_are_options():
    names = {field.name for _, field in FIELDS}
    assert set(OURS.values()) <= names
    assert not set(OURS) & names
    assert not set(ELSEWHERE) & names


def test_the_default_preset_is_that_of_control_tasks_and_documented():
    for name in ALGORITHMS:
        assert ALGORITHMS[name]() == make_config(name) == make_config(name, "tuned")
        assert make_config(name) != make_config(name, "paper")
    for function in (APO, make_config, longrun.sweep):
        assert inspect.signature(function).parameters["preset"].default == "tuned"
    for words in (APO.__mro__[1].__doc__, make_config.__doc__, longrun.sweep.__doc__):
        assert re.search(r"(tuned\W+\(the default|default preset is .tuned)", words or "")


@pytest.mark.parametrize("algorithm", ["apo", "atrpo"])
def test_a_presets_reset_cost_is_left_out_where_an_option_leaves_no_place_for_it(algorithm):
    options = {"preset": "tuned", "termination": "zero"}
    plain = make_config(algorithm, **options)
    assert (plain.termination, plain.reset_cost_step_size) == ("zero", 0)
    with pytest.raises(ValueError, match=r"termination='reset' or reset_cost_step_size=0$"):
        make_config(algorithm, **options, reset_cost_step_size=0.5)


def test_which_runs_can_be_extended():
    """An adaptive lambda starts high in runs of 300 iterations, here of 2000 steps each."""
    assert not make_config("ppo").may_grow(4000, 8000)
    assert make_config("ppo", learning_rate_decay=False).may_grow(4000, 800_000)
    adaptive = make_config("apo", learning_rate_decay=False)
    assert adaptive.steps_per_iteration == 2000
    assert adaptive.may_grow(4000, 598_000) and adaptive.may_grow(598_001, 800_000)
    assert not adaptive.may_grow(598_000, 598_001)
