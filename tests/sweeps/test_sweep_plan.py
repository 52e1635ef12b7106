"""The plan of a sweep: order, names, joined replicas."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fake_workers import ENV, some_runs
from longrun.lab.sweeps.design import Design
from longrun.lab.sweeps.grids import options_for
from longrun.lab.sweeps.plan import LONGEST_NAME, apart, folder_name, named
from longrun.learning.runs.spec import RunSpec


def design(*algorithms: str, **changes: Any) -> Design:
    about = {"envs": [ENV], "steps": 128, "seeds": [0, 1]}
    return Design(algorithms=algorithms, **(about | changes))


def test_every_setting_has_its_first_seed_before_any_has_its_second():
    runs = design("apo", "ppo", grid={"apo.gae_lambda": [0.8, 0.9]}).runs()
    assert [run.name for run in runs] == [
        "tiny_envs-Drift-v0_apo_gae_lambda=0.8_seed0",
        "tiny_envs-Drift-v0_apo_gae_lambda=0.9_seed0",
        "tiny_envs-Drift-v0_ppo_seed0",
        "tiny_envs-Drift-v0_apo_gae_lambda=0.8_seed1",
        "tiny_envs-Drift-v0_apo_gae_lambda=0.9_seed1",
        "tiny_envs-Drift-v0_ppo_seed1",
    ]
    assert named(runs, batched=True) == named(runs)  # only native environments are joined


def test_a_run_is_described_in_full():
    run = some_runs(fixed={"num_envs": 4}, eval_every=0)[0].spec
    assert (run.env, run.algorithm, run.preset, run.seeds) == (ENV, "apo", "tuned", (0,))
    assert (run.steps, run.eval_every, run.num_workers) == (128, 0, 0)
    assert (run.configs[0].num_envs, run.configs[0].gae_lambda) == (4, 0.8)
    assert RunSpec.from_json(json.loads(json.dumps(run.as_json())), "it") == run


def tried(algorithm: str, search: str = "ablation", **changes: Any) -> list[str]:
    """What the names of the runs of one seed say."""
    runs = design(algorithm, search=search, seeds=[0], **changes).runs()
    return [" ".join(run.words[2:-1]) for run in runs]


def test_an_ablation_changes_one_thing_at_a_time_and_leaves_out_what_changes_nothing():
    grid = {
        "value_constraint": [0.0, 0.3],
        "reset_cost_step_size": [0.0],
        "termination": ["zero"],
        "adaptive_lambda": [False],
    }
    assert tried("apo", grid=grid, options={"value_constraint": 0.3}) == [
        "",
        "value_constraint=0.0",
        "reset_cost_step_size=0.0",
        "termination=zero",
        "adaptive_lambda=false",
    ]
    assert tried("ppo", grid={"adaptive_lambda": [False]}) == [""]


def test_an_option_applies_to_algorithms_that_have_it_and_a_prefix_restricts_it():
    grid = {"ppo.gae_lambda": [0.5], "gae_lambda": [0.8, 0.9], "value_constraint": [0.0]}
    assert options_for("ppo", grid) == {"gae_lambda": [0.5]}
    assert options_for("apo", grid) == {"gae_lambda": [0.8, 0.9], "value_constraint": [0.0]}
    assert len(design("apo", "ppo", grid=grid).runs()) == 2 * (2 + 1)


def test_names_do_not_depend_on_the_order_of_options_and_fit_into_a_file_system():
    options = {"gae_lambda": 0.8, "epochs": 3}
    env = "jax:a?b=1&c=[2]"
    for each in (options, dict(reversed(options.items()))):
        [run] = some_runs(env=env, preset="queueing", settings=[each], seeds=[0])
        assert run.name == "jax-a-b=1-c=-2-_apo_queueing_epochs=3_gae_lambda=0.8_seed0"
    long = [folder_name(["é" + "x" * 300 + end, "apo", "paper", "seed7"]) for end in "ab"]
    assert len(set(long)) == 2
    for name in long:
        assert len(name.encode()) <= LONGEST_NAME
        assert name.endswith("_seed7")


def test_native_replicas_are_joined_for_each_compiled_program():
    runs = some_runs(env="jax:tandem", grid={"gae_lambda": [0.8, 0.9], "epochs": [1, 2]})
    joined = named(runs, batched=True)
    assert list(joined) == [f"jax-tandem_apo_epochs={n}_4-replicas" for n in (1, 2)]
    for epochs, run in zip((1, 2), joined.values(), strict=True):
        assert (run.seeds, run.steps) == ((0, 0, 1, 1), 128)
        assert [config.gae_lambda for config in run.configs] == [0.8, 0.9, 0.8, 0.9]
        assert {config.epochs for config in run.configs} == {epochs}


def test_replicas_whose_options_change_the_program_otherwise_are_not_joined():
    """A given gae_lambda is fixed, where that of the preset adapts."""
    settings = [{}, {"gae_lambda": 0.8}, {"learning_rate": 1e-3}, {"epochs": 5}]
    planned = some_runs(env="jax:tandem", settings=settings, seeds=[0])
    runs = list(named(planned, batched=True).values())
    assert [[c.adaptive_lambda for c in run.configs] for run in runs] == [[True] * 3, [False]]
    assert [config.learning_rate for config in runs[0].configs] == [3e-4, 1e-3, 3e-4]


def test_joined_runs_that_share_no_option_have_names_of_their_own():
    settings = [{}, {"learning_rate": 1e-3}, {"gae_lambda": 0.8}, {"gae_lambda": 0.9}]
    runs = named(some_runs(env="jax:tandem", settings=settings, seeds=[0]), batched=True)
    assert list(runs) == ["jax-tandem_apo_2-replicas", "jax-tandem_apo_2-replicas-2"]


def test_replicas_are_joined_whose_limits_differ_in_their_rates_alone():
    limits = [[["terminated", 0.1]], [["terminated", 0.2]], {"blocked": 0.1}]
    runs = named(some_runs(env="jax:tandem", grid={"limits": limits}, seeds=[0]), batched=True)
    assert [len(run.seeds) for run in runs.values()] == [2, 1]


@given(
    lambdas=st.lists(st.sampled_from([0.7, 0.8, 0.9]), min_size=1, unique=True),
    epochs=st.lists(st.sampled_from([1, 2, 3]), min_size=1, unique=True),
    seeds=st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True),
)
def test_apart_is_the_inverse_of_joining(lambdas, epochs, seeds):
    grid = {"gae_lambda": lambdas, "epochs": epochs}
    runs = some_runs(env="jax:tandem", grid=grid, seeds=seeds)
    again = [single for run in named(runs, batched=True).values() for single in apart(run)]
    assert len(runs) == len(lambdas) * len(epochs) * len(seeds)
    assert len(again) == len(runs)
    assert set(again) == {run.spec for run in runs}


def test_the_same_run_twice_is_refused():
    with pytest.raises(ValueError, match=r"'tiny_envs-Drift-v0_ppo_seed0' twice; list each"):
        some_runs("ppo", settings=[{}, {}])
