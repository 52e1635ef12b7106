"""The plan of a sweep: order, names, joined replicas."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fake_workers import a_block
from longrun.lab.sweeps.plan import (
    LONGEST_NAME,
    PlannedRun,
    ablations_for,
    apart,
    options_for,
    run_name,
    runs_of,
    settings_for,
    together,
)


def test_every_setting_has_its_first_seed_before_any_has_its_second():
    runs = runs_of([a_block(), a_block("ppo", grid={})])
    assert [run.name for run in runs] == [
        "tiny_envs-Drift-v0_apo_gae_lambda=0.8_seed0",
        "tiny_envs-Drift-v0_apo_gae_lambda=0.9_seed0",
        "tiny_envs-Drift-v0_ppo_seed0",
        "tiny_envs-Drift-v0_apo_gae_lambda=0.8_seed1",
        "tiny_envs-Drift-v0_apo_gae_lambda=0.9_seed1",
        "tiny_envs-Drift-v0_ppo_seed1",
    ]
    assert together(runs) == runs  # only native environments are joined


def test_a_run_as_sweep_json_describes_it():
    run = runs_of([a_block(fixed={"num_envs": 4}, evaluation={"eval_every": 0})])[0]
    assert run.as_json() == {
        "name": "tiny_envs-Drift-v0_apo_gae_lambda=0.8_seed0",
        "env": "tiny_envs:Drift-v0",
        "algorithm": "apo",
        "preset": "tuned",
        "options": {"gae_lambda": 0.8},
        "replicas": ({"seed": 0},),
        "steps": 128,
        "settings": {"eval_every": 0},
        "fixed": {"num_envs": 4},
    }
    assert PlannedRun.from_json(json.loads(json.dumps(run.as_json()))) == run
    assert (run.configs()[0].num_envs, run.configs()[0].gae_lambda) == (4, 0.8)


def test_an_ablation_changes_one_thing_at_a_time_and_leaves_out_what_changes_nothing():
    grid = {
        "value_constraint": [0.0, 0.3],
        "reset_cost_step_size": [0.0],
        "termination": ["zero"],
        "adaptive_lambda": [False],
    }
    assert ablations_for("apo", "tuned", {"value_constraint": 0.3}, grid) == [
        {},
        {"value_constraint": 0.0},
        {"reset_cost_step_size": 0.0},
        {"termination": "zero"},
        {"adaptive_lambda": False},
    ]
    assert ablations_for("ppo", "tuned", {}, grid) == [{}]


def test_an_option_applies_to_algorithms_that_have_it_and_a_prefix_restricts_it():
    grid = {"ppo.gae_lambda": [0.5], "gae_lambda": [0.8, 0.9], "value_constraint": [0.0]}
    assert options_for("ppo", grid) == {"gae_lambda": [0.5]}
    assert options_for("apo", grid) == {"gae_lambda": [0.8, 0.9], "value_constraint": [0.0]}
    assert settings_for("trpo", {"value_constraint": [0.0, 0.1]}) == [{}]


def test_names_do_not_depend_on_the_order_of_options_and_fit_into_a_file_system():
    options = {"gae_lambda": 0.8, "epochs": 3}
    name = run_name("jax:a?b=1&c=[2]", "apo", "queueing", options, "seed0")
    assert name == "jax-a-b=1-c=-2-_apo_queueing_epochs=3_gae_lambda=0.8_seed0"
    assert name == run_name(
        "jax:a?b=1&c=[2]", "apo", "queueing", dict(reversed(options.items())), "seed0"
    )
    long = [run_name("é" + "x" * 300 + end, "apo", "paper", {}, "seed7") for end in "ab"]
    assert len(set(long)) == 2
    for name in long:
        assert len(name.encode()) <= LONGEST_NAME
        assert name.endswith("_seed7")


def test_native_replicas_are_joined_for_each_compiled_program():
    blocks = [a_block(env="jax:tandem", grid={"gae_lambda": [0.8, 0.9], "epochs": [1, 2]})]
    one, two = together(runs_of(blocks))
    assert one.name == "jax-tandem_apo_epochs=1_4-replicas"
    assert (one.options, one.all_steps, one.seeds) == ({"epochs": 1}, 512, [0, 0, 1, 1])
    assert two.replicas == (
        {"seed": 0, "gae_lambda": 0.8},
        {"seed": 0, "gae_lambda": 0.9},
        {"seed": 1, "gae_lambda": 0.8},
        {"seed": 1, "gae_lambda": 0.9},
    )
    assert [config.gae_lambda for config in one.configs()] == [0.8, 0.9, 0.8, 0.9]


def test_replicas_whose_options_change_the_program_otherwise_are_not_joined():
    """A given gae_lambda is fixed, where that of the preset adapts."""
    settings = [{}, {"gae_lambda": 0.8}, {"learning_rate": 1e-3}, {"epochs": 5}]
    runs = together(runs_of([a_block(env="jax:tandem", settings=settings, seeds=[0])]))
    assert [[c.adaptive_lambda for c in run.configs()] for run in runs] == [[True] * 3, [False]]
    assert runs[0].replicas == (
        {"seed": 0},
        {"seed": 0, "learning_rate": 1e-3},
        {"seed": 0, "epochs": 5},
    )


def test_joined_runs_that_share_no_option_have_names_of_their_own():
    settings = [{}, {"learning_rate": 1e-3}, {"gae_lambda": 0.8}, {"gae_lambda": 0.9}]
    runs = together(runs_of([a_block(env="jax:tandem", settings=settings, seeds=[0])]))
    names = ["jax-tandem_apo_2-replicas", "jax-tandem_apo_2-replicas-2"]
    assert [run.name for run in runs] == names


def test_replicas_are_joined_whose_limits_differ_in_their_rates_alone():
    limits = [[["terminated", 0.1]], [["terminated", 0.2]], {"blocked": 0.1}]
    grid = {"limits": limits}
    runs = together(runs_of([a_block(env="jax:tandem", grid=grid, seeds=[0])]))
    assert [len(run.replicas) for run in runs] == [2, 1]


@given(
    lambdas=st.lists(st.sampled_from([0.7, 0.8, 0.9]), min_size=1, unique=True),
    epochs=st.lists(st.sampled_from([1, 2, 3]), min_size=1, unique=True),
    seeds=st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True),
)
def test_apart_is_the_inverse_of_together(lambdas, epochs, seeds):
    grid = {"gae_lambda": lambdas, "epochs": epochs}
    runs = runs_of([a_block(env="jax:tandem", grid=grid, seeds=seeds)])
    again = [single for run in together(runs) for single in apart(run)]
    assert len(runs) == len(lambdas) * len(epochs) * len(seeds)
    assert sorted(run.identity for run in again) == sorted(run.identity for run in runs)


def test_the_same_run_twice_is_refused():
    with pytest.raises(ValueError, match=r"'tiny_envs-Drift-v0_ppo_seed0' twice; list each"):
        runs_of([a_block("ppo", grid={}), a_block("ppo", grid={})])
