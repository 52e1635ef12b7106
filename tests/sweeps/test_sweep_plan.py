"""The plan of a sweep: grids, names, joined replicas, extensions, wrong input."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from longrun.cli import main
from longrun.config import make_config
from longrun.sweeps import live_table as live_module
from longrun.sweeps import run_sweep as start
from longrun.sweeps.closing_table import flag
from longrun.sweeps.grids import Range, parse_lists, parse_ranges, written
from longrun.sweeps.live_table import Live
from longrun.sweeps.optuna_search import Space, Study, read_studies, written_studies
from longrun.sweeps.plan import (
    LONGEST_NAME,
    Block,
    PlannedRun,
    apart,
    options_for,
    run_name,
    runs_of,
    settings_for,
    together,
)
from longrun.sweeps.sweep_folder import SweepFolder
from longrun.train.run_folder import RunFolder, describe_run

ENV = "tiny_envs:Drift-v0"


def block(algorithm: str = "apo", env: str = ENV, **changes: Any) -> Block:
    grid = changes.pop("grid", {"gae_lambda": [0.8, 0.9]})
    facts = {"steps": 128, "seeds": [0, 1]} | changes
    return Block(algorithm, env, settings_for(algorithm, grid), **facts)


# Parsing grids and ranges.


def test_lists_have_the_type_of_their_option():
    assert parse_lists(
        [
            "gae-lambda=0.9,1",
            "num_envs=4,1e1",
            "hidden_sizes=64x64,8,none",
            "scale_rewards=true,False",
            "termination=zero,reset",
            "ppo.discount=0.99",
        ]
    ) == {
        "gae_lambda": [0.9, 1.0],
        "num_envs": [4, 10],
        "hidden_sizes": [[64, 64], [8], []],
        "scale_rewards": [True, False],
        "termination": ["zero", "reset"],
        "ppo.discount": [0.99],
    }


def test_ranges_of_integer_options_are_whole():
    assert parse_ranges(["learning_rate=1e-5:1e-3:log", "num_envs=2:8"]) == {
        "learning_rate": Range(1e-5, 1e-3, log=True),
        "num_envs": Range(2, 8, whole=True),
    }


@pytest.mark.parametrize("value", [0.1, 1e-5, 3, True, False, "reset", [64, 64], [8], []])
def test_a_written_value_is_parsed_again(value):
    names = {float: "gae_lambda", int: "epochs", bool: "scale_rewards", str: "termination"}
    name = names.get(type(value), "hidden_sizes")
    assert parse_lists([f"{name}={written(value)}"]) == {name: [value]}


@given(
    low=st.floats(1e-6, 1e3),
    width=st.floats(1e-9, 1e3),
    log=st.booleans(),
    whole=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_drawn_values_are_within_the_range(low, width, log, whole, seed):
    if whole:
        low, width = math.ceil(low), math.ceil(width)
    if low + width == low:
        return
    drawn = Range(low, low + width, log, whole).draw(np.random.default_rng(seed))
    assert low <= drawn <= low + width
    assert isinstance(drawn, int) == whole


@pytest.mark.parametrize("log", [False, True])
def test_every_whole_number_of_a_range_is_drawn(log):
    rng = np.random.default_rng(0)
    drawn = [Range(1, 4, log, whole=True).draw(rng) for _ in range(200)]
    assert set(drawn) == {1, 2, 3, 4}


def test_random_points_depend_on_the_seed_alone_and_more_points_extend_them():
    space = Space({"scale_rewards": [True, False]}, {"gae_lambda": Range(0.8, 0.99)})
    points = space.draw(5, seed=3)
    assert points == space.draw(5, seed=3) == space.draw(9, seed=3)[:5]
    assert points != space.draw(5, seed=4)
    assert points[0] == {"scale_rewards": False, "gae_lambda": 0.845}


def test_a_space_with_fewer_points_than_trials_gives_each_once():
    points = Space({"scale_rewards": [True, False]}, {}).draw(10, seed=0)
    assert sorted(p["scale_rewards"] for p in points) == [False, True]


def test_corners_of_a_space():
    space = Space({"scale_rewards": [True]}, {"num_envs": Range(2, 8, whole=True)})
    assert list(space.corners()) == [
        {"scale_rewards": True, "num_envs": 2},
        {"scale_rewards": True, "num_envs": 8},
    ]


# Plans.


def test_every_setting_has_its_first_seed_before_any_has_its_second():
    runs = runs_of([block(), block("ppo", grid={})])
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
    run = runs_of([block(fixed={"num_envs": 4}, evaluation={"eval_every": 0})])[0]
    assert run.as_json() == {
        "name": "tiny_envs-Drift-v0_apo_gae_lambda=0.8_seed0",
        "env": "tiny_envs:Drift-v0",
        "algorithm": "apo",
        "preset": "paper",
        "options": {"gae_lambda": 0.8},
        "replicas": ({"seed": 0},),
        "steps": 128,
        "settings": {"eval_every": 0},
        "fixed": {"num_envs": 4},
    }
    assert PlannedRun.from_json(json.loads(json.dumps(run.as_json()))) == run
    assert (run.configs()[0].num_envs, run.configs()[0].gae_lambda) == (4, 0.8)


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
    blocks = [block(env="jax:tandem", grid={"gae_lambda": [0.8, 0.9], "epochs": [1, 2]})]
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


@given(
    lambdas=st.lists(st.sampled_from([0.7, 0.8, 0.9]), min_size=1, unique=True),
    epochs=st.lists(st.sampled_from([1, 2, 3]), min_size=1, unique=True),
    seeds=st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True),
)
def test_apart_is_the_inverse_of_together(lambdas, epochs, seeds):
    grid = {"gae_lambda": lambdas, "epochs": epochs}
    runs = runs_of([block(env="jax:tandem", grid=grid, seeds=seeds)])
    again = [single for run in together(runs) for single in apart(run)]
    assert len(runs) == len(lambdas) * len(epochs) * len(seeds)
    assert sorted(run.identity for run in again) == sorted(run.identity for run in runs)


def test_the_same_run_twice_is_refused():
    with pytest.raises(ValueError, match=r"'tiny_envs-Drift-v0_ppo_seed0' twice; list each"):
        runs_of([block("ppo", grid={}), block("ppo", grid={})])


# The folder.


def names(folder: SweepFolder) -> list[str]:
    return [run.name for run in folder.runs]


def test_a_sweep_is_extended_by_new_runs(tmp_path):
    first = SweepFolder.create(tmp_path / "sweep", runs_of([block(seeds=[0])]))
    grown = SweepFolder.create(tmp_path / "sweep", runs_of([block(), block("ppo", grid={})]))
    assert names(grown) == [
        *names(first),
        "tiny_envs-Drift-v0_ppo_seed0",
        "tiny_envs-Drift-v0_apo_gae_lambda=0.8_seed1",
        "tiny_envs-Drift-v0_apo_gae_lambda=0.9_seed1",
        "tiny_envs-Drift-v0_ppo_seed1",
    ]
    assert grown.token == first.token
    opened = SweepFolder.open(tmp_path / "sweep")
    assert [r.identity for r in opened.runs] == [r.identity for r in grown.runs]


def test_a_sweep_is_extended_in_steps_unless_the_learning_rate_decays(tmp_path):
    for fixed in ({}, {"learning_rate_decay": True}):
        path = tmp_path / f"sweep{len(fixed)}"
        SweepFolder.create(path, runs_of([block(fixed=fixed)]))
        longer = runs_of([block(steps=256, fixed=fixed)])
        if fixed:
            with pytest.raises(ValueError, match="has steps=128, not 256"):
                SweepFolder.create(path, longer)
        else:
            SweepFolder.create(path, longer)
        wanted = 128 if fixed else 256
        assert {run.steps for run in SweepFolder.open(path).runs} == {wanted}


def test_replicas_are_joined_only_on_a_device(tmp_path, monkeypatch):
    runs = runs_of([block(env="jax:tandem", grid={}, seeds=[0, 1])])
    folder = SweepFolder.create(tmp_path / "sweep", runs)
    assert names(folder) == ["jax-tandem_apo_seed0", "jax-tandem_apo_seed1"]
    for backend, on_device in (("cpu", False), ("gpu", True)):
        monkeypatch.setattr(start, "default_backend", lambda backend=backend: backend)
        assert start.on_device(["Swimmer-v5", "jax:tandem"]) == on_device
        assert not start.on_device(["Swimmer-v5"])


def test_a_joined_sweep_is_extended_by_separate_runs(tmp_path):
    for seeds in ([0, 1], [0, 1, 2, 3], [0, 1, 2, 3, 4], [0, 1, 2, 3, 4]):
        runs = runs_of([block(env="jax:tandem", grid={}, seeds=seeds)])
        folder = SweepFolder.create(tmp_path / "sweep", runs, batched=True)
    assert names(folder) == [
        "jax-tandem_apo_2-replicas",
        "jax-tandem_apo_2-replicas-2",
        "jax-tandem_apo_seed4",
    ]
    assert [run.seeds for run in folder.runs] == [[0, 1], [2, 3], [4]]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"steps": 64}, "seed0' has steps=128, not 64"),
        ({"fixed": {"num_envs": 8}}, "seed0' has num_envs=4, not 8"),
        ({"evaluation": {"eval_every": 64}}, "seed0' has eval_every=None, not 64"),
        ({"seeds": [1]}, "gae_lambda=0.8_seed0' is not part of this one"),
        ({"grid": {}}, "gae_lambda=0.8_seed0' is not part of this one"),
    ],
)
def test_another_sweep_in_the_folder_is_not_changed(changes, why, tmp_path):
    SweepFolder.create(tmp_path, runs_of([block(fixed={"num_envs": 4})]))
    before = (tmp_path / "sweep.json").read_bytes()
    with pytest.raises(ValueError) as caught:
        SweepFolder.create(tmp_path, runs_of([block(**{"fixed": {"num_envs": 4}} | changes)]))
    assert f"{tmp_path}' holds another sweep: " in str(caught.value)
    assert why in str(caught.value)
    resume = f"resume it with longrun sweep --resume --out {tmp_path}"
    assert f"choose another --out, or {resume}" in str(caught.value)
    assert (tmp_path / "sweep.json").read_bytes() == before


def as_first_written(path):
    """The sweep as it was before the `paper` preset gave raw actions."""
    content = json.loads((path / "sweep.json").read_text())
    assert content.pop("meaning") == 2
    (path / "sweep.json").write_text(json.dumps(content))


def test_an_old_sweep_keeps_its_presets_old_meaning(tmp_path):
    tuned = dataclasses.replace(block(), preset="tuned")
    SweepFolder.create(tmp_path, runs_of([block(), tuned]))
    as_first_written(tmp_path)
    folder = SweepFolder.open(tmp_path)
    assert {run.configs()[0].action_bounds for run in folder.runs} == {"clip"}
    assert [run.fixed for run in folder.runs if run.preset == "tuned"] == [{}] * 4
    folder.update()
    again = SweepFolder.open(tmp_path)
    assert [run.as_json() for run in again.runs] == [run.as_json() for run in folder.runs]
    with pytest.raises(ValueError, match=r"is not part of this one|has action_bounds=clip"):
        SweepFolder.create(tmp_path, runs_of([block(), tuned]))
    same = dataclasses.replace(block(), fixed={"action_bounds": "clip"})
    SweepFolder.create(tmp_path, runs_of([same, tuned]))


def test_an_old_search_keeps_its_presets_old_meaning(tmp_path):
    study = Study(dataclasses.replace(block(), settings=[]), Space({"epochs": [1, 2]}, {}), 3)
    SweepFolder.create(tmp_path, [], search=written_studies([study]))
    as_first_written(tmp_path)
    for _ in range(2):
        [found] = read_studies(tmp_path)
        assert found.block.fixed == {"action_bounds": "clip"}
        [run, _] = found.runs(0, {"epochs": 1})
        assert run.configs()[0].action_bounds == "clip"
        SweepFolder.open(tmp_path).update()


def test_an_old_run_folder_belongs_only_to_a_sweep_that_clips(tmp_path):
    new = SweepFolder.create(tmp_path, runs_of([block(seeds=[0])]))
    run = new.runs[0]
    clips = make_config("apo", action_bounds="clip", **run.options)
    about = describe_run(run.env, [clips], [0], run.steps)
    for name in ("action_bounds", "bounded_mean"):
        del about["options"][name]
    RunFolder.create(new.folder(run), about)
    with pytest.raises(ValueError, match="another sweep: it has action_bounds=clip, not raw"):
        new.require_own(run)
    new.require_own(dataclasses.replace(run, fixed={"action_bounds": "clip"}))


# Wrong input: one line, and nothing is written.

REFUSED: dict[str, tuple[list[str], str]] = {
    "no algorithm": ([], "sweep needs an algorithm; valid: apo, ppo, atrpo, trpo"),
    "an unknown algorithm": (["apo", "pppo"], "unknown algorithm 'pppo'; did you mean ppo"),
    "no environment": (["apo", "-no-env"], "sweep needs --env, for example"),
    "an algorithm twice": (["apo", "apo"], "an algorithm is named twice: apo; name each once"),
    "an unknown option": (
        ["apo", "--grid", "gae_lamda=0.9"],
        "unknown option 'gae_lamda'; did you mean gae_lambda",
    ),
    "an unknown option with text": (
        ["apo", "--grid", "terminaton=zero"],
        "unknown option 'terminaton'; did you mean termination",
    ),
    "an option of another algorithm": (
        ["apo", "--grid", "discount=0.9"],
        "unknown option of APO 'discount'; valid:",
    ),
    "a prefix that is not swept": (
        ["apo", "--grid", "ppo.discount=0.9"],
        "'ppo.discount' is not for an algorithm of this sweep; it has apo",
    ),
    "an empty grid": (["apo", "--grid", "gae_lambda="], "'gae_lambda=' must look like"),
    "no grid at all": (["apo", "--grid", "gae_lambda"], "'gae_lambda' must look like"),
    "an empty value": (["apo", "--grid", "epochs=1,,2"], "epochs='' must be a number"),
    "no number": (["apo", "--grid", "epochs=1,two"], "epochs='two' must be a number"),
    "no truth": (["apo", "--grid", "scale_rewards=1"], "'1' must be true or false"),
    "no sizes": (["apo", "--grid", "hidden_sizes=64,x"], "'x' must be sizes such as 64x64, or no"),
    "out of range": (["apo", "--grid", "gae_lambda=0.9,1.5"], "gae_lambda=1.5 is out of range"),
    "a value twice": (["apo", "--grid", "epochs=1,1e0"], "lists a value twice; list each once"),
    "an option twice": (
        ["apo", "--grid", "epochs=1", "--grid", "epochs=2"],
        "--grid names epochs twice; list all its values once",
    ),
    "grid against flag": (
        ["apo", "--gae-lambda", "0.9", "--grid", "gae_lambda=0.8"],
        "--gae-lambda contradicts gae_lambda in the grid; give one of the two",
    ),
    "grid against range": (
        ["apo", "--search", "random", "--grid", "epochs=1", "--range", "apo.epochs=1:2"],
        "--grid and --range both name epochs; give one of the two",
    ),
    "values that contradict each other": (
        ["apo", "--grid", "minibatch_size=64,4096"],
        "minibatch_size=4096 is larger than a rollout of num_envs=10 x rollout_steps=200",
    ),
    "a search without a space": (
        ["apo", "--search", "random"],
        "--search random has nothing to search for apo; give --range or --grid",
    ),
    "a range without a search": (
        ["apo", "--range", "gae_lambda=0.8:0.9"],
        "--range needs --search random or --search optuna",
    ),
    "trials without a search": (["apo", "--trials", "0"], "--trials needs --search random"),
    "no trials": (
        ["apo", "--search", "random", "--trials", "0", "--range", "gae_lambda=0.8:0.9"],
        "trials=0 must be 1 or more, a whole number",
    ),
    "a range the wrong way round": (
        ["apo", "--search", "random", "--range", "gae_lambda=0.9:0.8"],
        "--range 'gae_lambda=0.9:0.8': LOW must be below HIGH",
    ),
    "an endless range": (
        ["apo", "--search", "random", "--range", "reset_cost=0:inf"],
        "LOW must be below HIGH, both finite",
    ),
    "a logarithm of nothing": (
        ["apo", "--search", "random", "--range", "gae_lambda=0:0.8:log"],
        "LOW must be above 0 for log",
    ),
    "half an environment": (
        ["apo", "--search", "random", "--range", "num_envs=0.5:4"],
        "LOW and HIGH of num_envs must be whole numbers",
    ),
    "a range of words": (
        ["apo", "--search", "random", "--range", "termination=0:1"],
        "termination is not numeric; list its values with --grid",
    ),
    "no range": (["apo", "--range", "gae_lambda=0.8"], "must look like learning_rate=1e-5:1e-3"),
    "a range that Optuna may not search": (
        ["apo", "--search", "optuna", "--range", "gae_lambda=0.8:1.5"],
        "gae_lambda=1.5 is out of range",
    ),
    "Optuna without evaluations": (
        ["apo", "--search", "optuna", "--range", "gae_lambda=0.8:0.9", "--no-eval"],
        "--search optuna needs evaluations; leave out --no-eval",
    ),
    "an unknown search": (["apo", "--search", "optima"], "'optima'; did you mean optuna"),
    "an unknown preset": (["apo", "--preset", "papr"], "unknown preset 'papr'; did you mean paper"),
    "no steps": (["apo", "--steps", "0"], "steps=0 must be 1 or more"),
    "no seeds": (["apo", "--seeds", "0"], "seeds=0 must be 1 or more"),
    "less than no evaluation": (["apo", "--eval-every", "-1"], "eval_every=-1 must be 0 or more"),
    "no workers": (["apo", "--workers", "0"], "workers=0 must be 1 or more"),
    "less than no retries": (["apo", "--retries", "-1"], "retries=-1 must be 0 or more"),
    "an unknown environment": (["apo", "--env", "Swimer-v5"], "did you mean Swimmer-v5"),
    "an environment twice": (["apo", "--env", ENV, ENV], f"--env is named twice: {ENV}"),
    "resuming something else": (
        ["apo", "--resume"],
        "--resume takes the sweep as it is in --out; leave out --env",
    ),
    "resuming with a grid": (
        ["-no-env", "--resume", "--grid", "epochs=1"],
        "--resume takes the sweep as it is in --out; leave out --grid",
    ),
    "resuming nothing": (["-no-env", "--resume"], "is not a sweep folder: it has no sweep.json"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_wrong_input_is_refused_in_one_line(what, tmp_path, capsys):
    words, expected = REFUSED[what]
    env = [] if "--env" in words or "-no-env" in words else ["--env", ENV]
    words = [word for word in words if word != "-no-env"]
    first = next((i for i, word in enumerate(words) if word.startswith("-")), len(words))
    arguments = [*words[:first], *env, "--out", str(tmp_path / "sweep"), *words[first:]]
    assert main(["sweep", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("longrun: ")
    assert error.count("\n") == 1
    assert expected in error
    assert not (tmp_path / "sweep" / "runs").exists()


def test_a_folder_that_is_not_a_sweep_is_not_changed(tmp_path, capsys):
    (tmp_path / "letter.txt").write_text("dear")
    assert main(["sweep", "apo", "--env", ENV, "--out", str(tmp_path)]) == 2
    assert "is not empty and is not a sweep folder; choose another --out" in capsys.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["letter.txt"]


@pytest.mark.parametrize("content", ["{", '{"id": "1"}', '{"id": "1", "runs": [{"name": 3}]}'])
def test_a_damaged_sweep_json_is_reported(content, tmp_path, capsys):
    (tmp_path / "sweep.json").write_text(content)
    assert main(["sweep", "--resume", "--out", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert "sweep.json' is damaged" in error
    assert error.count("\n") == 1


# The live table.


@pytest.fixture
def clock(monkeypatch):
    """The time that the live table reads; tests set it."""
    now = [0.0]
    monkeypatch.setattr(live_module.time, "monotonic", lambda: now[0])
    return now


def progress(steps: int, rate: float = 1.0) -> dict[str, Any]:
    return {"kind": "progress", "steps": steps, "steps_per_second": rate, "reward": 0.0}


def test_time_left_is_estimated_from_the_speed_on_each_environment(clock):
    runs = runs_of([block(grid={}, steps=100, seeds=range(3)), block(env="B-v0", grid={}, steps=9)])
    shown = Live("", wanted=False, log=False)
    for run in runs:
        shown.add(run, finished=False)
    slow = [run for run in runs if run.env == ENV]
    assert shown.seconds_left() is None
    shown.started(0, slow[0])
    shown.started(1, slow[1])
    shown.progress(0, progress(0))
    shown.progress(1, progress(80))  # a resumed run
    clock[0] = 10.0
    assert shown.seconds_left() is None  # nothing has been done yet
    shown.progress(0, progress(50))
    shown.progress(1, progress(100))
    # 70 steps took 2 x 10 s; left are 50 + 100 of this, 18 of another environment, for 2 workers.
    assert shown.seconds_left() == pytest.approx(168 * 20 / 70 / 2)
    shown.ended(1, "done")
    shown.started(1, slow[2])
    assert shown.seconds_left() == pytest.approx(100 * 20 / 70)  # of the run that has just started


def test_time_left_is_at_least_that_of_the_longest_run(clock):
    long, short = runs_of([block(grid={}, steps=100)])
    shown = Live("", wanted=False, log=False)
    for slot, run in enumerate((long, short)):
        shown.add(run, finished=False)
        shown.started(slot, run)
    clock[0] = 10.0
    shown.progress(0, progress(0))
    shown.progress(0, progress(10))
    shown.progress(1, progress(0))
    shown.progress(1, progress(90))
    assert shown.seconds_left() == pytest.approx(90 * 20 / 100)


def test_time_left_includes_runs_that_a_search_will_suggest(clock, capsys):
    (run,) = runs_of([block(grid={}, steps=100, seeds=[0])])
    shown = Live("", wanted=False)
    shown.add(run, finished=False)
    shown.expect({ENV: (3, 300)})
    shown.started(0, run)
    clock[0] = 10.0
    shown.ended(0, "done")
    assert shown.seconds_left() == pytest.approx(30.0)
    assert capsys.readouterr().out == f"1 of 4 runs finished  {run.name}: done (10 s)\n"


def test_the_table_has_a_row_for_each_run_and_a_summary(clock):
    (run,) = runs_of([block(grid={}, steps=100, seeds=[0])])
    shown = Live("sweep", wanted=True)
    shown.add(run, finished=False)
    shown.started(0, run)
    shown.progress(0, progress(0, rate=0.0))
    clock[0] = 600.0
    shown.progress(0, progress(25, rate=2500.0))
    console = Console(width=100)
    with console.capture() as captured:
        console.print(shown.table())
    text = captured.get()
    for word in (run.name, "25 %", "2,500", "0 of 1 runs finished; 2,500 steps/s; 30 min left"):
        assert word in text


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("gae_lambda", 0.9, "--gae-lambda 0.9"),
        ("scale_rewards", True, "--scale-rewards"),
        ("scale_rewards", False, "--no-scale-rewards"),
        ("hidden_sizes", [64, 32], "--hidden-sizes 64 32"),
    ],
)
def test_the_best_options_are_written_as_flags_of_train(option, value, expected):
    assert flag(option, value) == expected


def test_the_examples_of_the_help_are_parsed():
    from longrun.cli.options import parse
    from longrun.cli.sweep import EXAMPLES, sweep_parser

    text = EXAMPLES.replace("\\\n", "")
    commands = [line.split()[2:] for line in text.splitlines() if line.startswith("  longrun")]
    assert len(commands) == 5
    for command in commands:
        algorithms = [word for word in command[:2] if not word.startswith("-")]
        assert parse(sweep_parser(algorithms), command[len(algorithms) :])
