"""Wrong input to train, evaluate and plot: exit status 2, one line, no traceback."""

from __future__ import annotations

import json
import shutil

import pytest

from command_line import (
    files_of,
    refused,
    script,
    train_arguments,
)
from longrun import APO
from longrun.base.files import FolderLock
from tiny_envs import ITERATION, TINY

TRAIN = ["train", "apo", "--env", "Drift-v0", "--no-eval", "--workers", "0", "--steps", "64"]
REFUSED: dict[str, tuple[list[str], list[str]]] = {
    "command": (["trian"], ["unknown command 'trian'", "train"]),
    "nothing like a command": (["zzz"], ["train, evaluate, sweep"]),
    "algorithm": (["train", "apoo", "--env", "Drift-v0"], ["algorithm 'apoo'", "apo"]),
    "no algorithm": (["train", "--env", "Drift-v0"], ["algorithm", "apo, ppo, atrpo, trpo"]),
    "environment": (["train", "apo", "--env", "Drfit-v0"], ["'Drfit-v0'", "Drift-v0"]),
    "no environment": (["train", "apo"], ["--env"]),
    "an environment that is not installed": (["train", "apo", "--env", "Hopper-v2"], ["Hopper-v2"]),
    "an environment like none": (
        ["train", "apo", "--env", "Zzzz"],
        ["'Zzzz'; for an environment of your own", "module:Class", "; valid: ", " and ", " more"],
    ),
    "an environment without a version": (["train", "apo", "--env", "ant"], ["did you mean Ant-v5"]),
    "an environment by its file": (
        ["train", "apo", "--env", "plants/tower.py:Tower"],
        ["'plants/tower.py:Tower' names a file", "write plants.tower:Tower"],
    ),
    "an id in a file": (["train", "apo", "--env", "tower.py:T-v0"], ["write tower:T-v0"]),
    "no value": (["train", "apo", "--env"], ["--env"]),
    "option": ([*TRAIN, "--value-constrain", "1"], ["--value-constrain'", "--value-constraint"]),
    "option with value": ([*TRAIN, "--clip-rage=1"], ["--clip-rage'", "--clip-range"]),
    "other algorithm's option": ([*TRAIN, "--discount", "0.9"], ["--discount"]),
    "grid of another algorithm": (
        [*TRAIN, "--grid", "discount=0.9"],
        ["'discount'; PPO, TRPO have it, APO does not"],
    ),
    "option without its algorithm": (
        ["train", "--learning-rate", "1e-3", "--env", "Drift-v0"],
        ["train needs an algorithm; valid: apo"],
    ),
    "short option": ([*TRAIN, "-x"], ["-x"]),
    "stray word": ([*TRAIN, "Drift-v0"], ["Drift-v0"]),
    "preset": ([*TRAIN, "--preset", "papr"], ["preset 'papr'", "paper"]),
    "grid name": ([*TRAIN, "--grid", "value_constrain=1"], ["value_constraint"]),
    "grid of no number": (
        [*TRAIN, "--grid", "num_envs=1,2"],
        ["--grid num_envs: ", "longrun sweep --grid num_envs=... trains runs that differ"],
    ),
    "grid values": ([*TRAIN, "--grid", "gae_lambda=a,b"], ["gae_lambda='a' must be a number"]),
    "grid value twice": ([*TRAIN, "--grid", "gae_lambda=0.9,0.90"], ["0.9 is listed twice"]),
    "grid without values": ([*TRAIN, "--grid", "gae_lambda"], ["gae_lambda"]),
    "grid out of range": ([*TRAIN, "--grid", "gae_lambda=0.5,2"], ["gae_lambda=2", "0 and 1"]),
    "out of range": ([*TRAIN, "--gae-lambda", "2"], ["gae_lambda=2", "0 and 1"]),
    "not a number": ([*TRAIN, "--learning-rate", "nan"], ["learning_rate=nan"]),
    "text for a number": ([*TRAIN, "--learning-rate", "fast"], ["--learning-rate", "fast"]),
    "fraction": ([*TRAIN, "--num-envs", "1.5"], ["--num-envs", "1.5"]),
    "choice": ([*TRAIN, "--termination", "never"], ["termination='never'", "zero, reset"]),
    "inconsistent": (
        [*TRAIN, "--reset-cost", "1", "--termination", "zero"],
        ["reset_cost=1", "termination='reset' or reset_cost=0"],
    ),
    "sizes": ([*TRAIN, "--hidden-sizes", "0"], ["hidden_sizes=[0]"]),
    "sizes with a comma": (
        [*TRAIN, "--hidden-sizes", "64,32"],
        ["--hidden-sizes: '64,32' is not one whole number; write --hidden-sizes 64 32 (see"],
    ),
    "sizes in words": (
        [*TRAIN, "--hidden-sizes", "64", "many"],
        ["--hidden-sizes: invalid whole number value: 'many'"],
    ),
    "minibatch": ([*TRAIN, "--num-envs", "1", "--rollout-steps", "9"], ["minibatch_size=50"]),
    "steps": ([*TRAIN, "--steps", "0"], ["steps=0"]),
    "seeds": ([*TRAIN, "--seeds", "0"], ["seeds=0"]),
    "seed": ([*TRAIN, "--seed", "-1"], ["seed=-1"]),
    "workers": ([*TRAIN, "--workers", "-1"], ["workers"]),
    "eval steps": ([*TRAIN, "--eval-steps", "0"], ["eval_steps=0"]),
    "infinite steps": ([*TRAIN, "--steps", "inf"], ["--steps", "inf"]),
    "another library's name": (
        [*TRAIN, "--ent-coef=0.1"],
        ["'--ent-coef'", "it is called entropy_coefficient here"],
    ),
    "large seed": ([*TRAIN, "--seed", "99999999999999999999"], ["seed=", "2**32"]),
    "grid twice": (
        [*TRAIN, "--grid", "gae_lambda=0.9", "--grid", "gae_lambda=0.95"],
        ["gae_lambda twice"],
    ),
    "resume without folder": (["train", "--resume"], ["--out"]),
    "resume of nothing": (["train", "--resume", "--out", "nowhere"], ["nowhere"]),
    "resume of nothing by name": (["train", "apo", "--resume", "--out", "nowhere"], ["nowhere"]),
    "evaluate without run": (["evaluate"], ["run"]),
    "evaluate nothing": (["evaluate", "nowhere"], ["nowhere"]),
    "evaluate option": (["evaluate", "nowhere", "--step", "5"], ["--step", "--steps"]),
    "plot without run": (["plot"], ["run"]),
    "plot nothing": (["plot", "nowhere"], ["nowhere"]),
    "plot nothing twice": (["plot", "nowhere", "neither"], ["nowhere"]),
}


@pytest.mark.parametrize("what", REFUSED)
def test_wrong_input_is_refused_in_one_line_and_nothing_is_written(
    what, longrun, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    command, words = REFUSED[what]
    refused(longrun(*command), *words)
    assert list(tmp_path.iterdir()) == []


def test_a_report_of_two_folders_names_what_takes_several(longrun):
    refused(longrun("report", "a", "b"), "a report is about one folder, not 'a' and 'b'", "compare")


def test_an_existing_run_is_not_written_over(longrun, run):
    before = files_of(run)
    refused(
        longrun(*train_arguments(run)),
        f"already holds a run; longrun train --resume --out {run} resumes it",
        str(run),
    )
    assert files_of(run) == before


@pytest.mark.parametrize(
    "name, value, words",
    [
        ("algorithm", "dqn", "is damaged: unknown algorithm 'dqn'"),
        ("gae_lambda", 0.5, "has gae_lambda=0.5, not 0.9 as in its checkpoint"),
        ("hidden_sizes", [32, 32], "has hidden_sizes=[32, 32], not [8] as in its checkpoint"),
        ("replicas", [{"seed": -3}], "is damaged: seed=-3 must be 0 or more"),
    ],
)
def test_a_run_is_not_resumed_under_another_description(longrun, run, tmp_path, name, value, words):
    run = shutil.copytree(run, tmp_path / "run")
    file = run / "config.json"
    content = json.loads(file.read_text())
    (content if name in content else content["options"])[name] = value
    file.write_text(json.dumps(content))
    before = files_of(run)
    refused(
        longrun("train", "--resume", "--out", str(run)),
        f"'{file}' {words}",
    )
    assert files_of(run) == before


def test_runs_are_not_hidden_by_one_beside_them(longrun, run):
    before = files_of(run)
    refused(
        longrun(*train_arguments(run.parent)),
        f"'{run.parent}' holds other runs, such as '{run}'; choose a folder such as",
    )
    assert files_of(run) == before
    assert not (run.parent / "config.json").exists()


def test_another_programs_config_file_does_not_count_as_a_run(longrun, tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text('{"model_type": "bert"}')
    assert longrun(*train_arguments(tmp_path)).status == 0


def test_a_run_is_not_written_into_a_sweep(longrun, tmp_path):
    (tmp_path / "sweep.json").write_text("{}")
    refused(longrun(*train_arguments(tmp_path)), f"'{tmp_path}' holds a sweep; choose another")
    assert list(files_of(tmp_path)) == [tmp_path / "sweep.json"]
    refused(
        longrun(*train_arguments(tmp_path.parent)), f"holds other runs, such as '{tmp_path.parent}"
    )


@pytest.mark.parametrize("command", ["train", "sweep"])
@pytest.mark.parametrize("below", [False, True])
def test_a_file_in_place_of_a_folder_is_refused(command, below, longrun, tmp_path):
    file = tmp_path / "tower.py"
    file.write_text("in the way")
    out = file / "run" if below else file
    arguments = [command, "apo", "--env", "Drift-v0", "--out", out]
    refused(
        longrun(*arguments), f"'{file}' is a file and a folder is needed; choose another folder"
    )
    assert file.read_text() == "in the way"


@pytest.mark.parametrize(
    "change, words",
    [
        (["ppo"], ["'apo'", "'ppo'"]),
        (["apo", "--env", "EndlessDrift-v0"], ["env=EndlessDrift-v0", "the run has Drift-v0"]),
        (["apo", "--gae-lambda", "0.5"], ["gae_lambda=0.5", "0.9"]),
        (["apo", "--hidden-sizes", "9"], ["hidden_sizes=9", "8"]),
        (["apo", "--seeds", "5"], ["seeds=5 cannot be changed on --resume, the run has 2"]),
        (["apo", "--seed", "5"], ["seed"]),
        (["apo", "--grid", "gae_lambda=0,1"], ["grid=", "leave it out"]),
        (["apo", "--steps", "0"], ["steps=0"]),
        (["--gae-lambda=0.5"], ["gae_lambda=0.5 cannot be changed on --resume", "leave it out"]),
        (["--layer-norm"], ["layer_norm=True cannot be changed on --resume"]),
        (["--discount", "0.9"], ["unknown APO option 'discount'; PPO, TRPO have it"]),
        (["--name", "other"], ["name=other cannot be changed on --resume"]),
    ],
    ids=lambda value: " ".join(value),
)
def test_options_of_a_run_cannot_be_changed_on_resume(change, words, longrun, run):
    before = files_of(run)
    refused(longrun("train", *change, "--resume", "--out", run), *words)
    assert files_of(run) == before


def test_tensorboard_without_its_package_is_refused_on_resume(longrun, run, monkeypatch):
    monkeypatch.setattr("longrun.learning.train.experiment_trackers.find_spec", lambda name: None)
    before = files_of(run)
    more = ("--steps", 4 * ITERATION, "--tensorboard")
    refused(longrun("train", "--resume", "--out", run, *more), "pip install tensorboardX")
    assert files_of(run) == before


def test_the_same_options_may_be_repeated_on_resume(longrun, tmp_path):
    command = train_arguments(tmp_path / "run", "--no-eval", "--seeds", "2")
    assert longrun(*command).status == 0
    assert longrun(*command, "--resume").status == 0


def test_a_run_interrupted_before_its_first_checkpoint_starts_over(longrun, run, tmp_path):
    out = tmp_path / "run"
    out.mkdir()
    shutil.copy(run / "config.json", out)
    refused(longrun("evaluate", out), "no checkpoint", str(out))
    assert longrun("train", "--resume", "--out", out).status == 0
    rows, expected = ((p / "evaluations.csv").read_text().splitlines() for p in (out, run))
    assert sorted(rows) == sorted(expected)


def test_a_finished_run_is_left_as_it_is(longrun, run, tmp_path):
    out = tmp_path / "run"
    shutil.copytree(run, out)
    before = files_of(out)
    result = longrun("train", "--resume", "--out", out)
    assert result.status == 0
    assert "give a larger --steps" in result.out
    assert files_of(out) == before


def test_fewer_steps_than_an_interrupted_run_has_done_are_reported(longrun, tmp_path):
    out = tmp_path / "run"
    agent = APO("Drift-v0", num_workers=0, **TINY)
    stopped = {"on_log": lambda progress: progress.step < 2 * ITERATION, "eval_every": 0}
    agent.learn(4 * ITERATION, log_dir=out, **stopped)
    before = files_of(out)
    for steps in (ITERATION, 2 * ITERATION):
        result = longrun("train", "--resume", "--out", out, "--steps", steps)
        assert result.status == 0
        assert f"is at {2 * ITERATION} of {4 * ITERATION} steps, and --steps {steps}" in result.out
        assert f"; longrun train --resume --out {out} finishes it" in result.out
    assert files_of(out) == before
    assert longrun("train", "--resume", "--out", out).status == 0
    assert APO.load(out).steps_ == 4 * ITERATION


def test_a_folder_that_another_process_writes_to_is_refused(longrun, run, tmp_path):
    out = tmp_path / "run"
    shutil.copytree(run, out)
    with FolderLock(out):
        result = longrun("train", "--resume", "--out", out, "--steps", "1e5")
    refused(result, "another process")


def test_a_run_with_a_damaged_checkpoint_is_not_resumed(longrun, run, tmp_path):
    out = tmp_path / "run"
    shutil.copytree(run, out)
    (state,) = (out / "checkpoint").glob("*.safetensors")
    state.write_bytes(state.read_bytes()[:-8])
    before = files_of(out)
    refused(longrun("train", "--resume", "--out", out), "damaged", str(out))
    refused(longrun("evaluate", out), "damaged", str(out))
    assert files_of(out) == before
    (out / "config.json").write_text("{")
    refused(longrun("train", "--resume", "--out", out), "damaged", "config.json")
    refused(longrun("plot", out), "damaged", "config.json")


@pytest.mark.parametrize("command", ["train", "plot"])
def test_an_output_that_cannot_be_written_is_refused(command, longrun, run, tmp_path):
    (tmp_path / "file").write_text("in the way")
    out = tmp_path / "file" / "below.png"
    result = longrun(*(train_arguments(out) if command == "train" else ["plot", run, "--out", out]))
    assert result.status in (1, 2)
    assert result.err.count("\n") == 1
    assert str(tmp_path / "file") in result.err


def test_a_picture_in_an_unknown_format_is_refused(longrun, run, tmp_path):
    result = longrun("plot", run, "--out", tmp_path / "curves.xyz")
    assert result.status == 2
    assert result.err.count("\n") == 1
    assert "curves.xyz" in result.err


def test_a_run_without_evaluations_cannot_be_plotted(longrun, tmp_path):
    assert longrun(*train_arguments(tmp_path / "run", "--no-eval")).status == 0
    refused(longrun("plot", tmp_path / "run", "--out", tmp_path / "curves.png"), "no evaluations")
    assert not (tmp_path / "curves.png").exists()


def test_a_run_that_fails_ends_with_status_1(longrun, tmp_path):
    result = longrun(*train_arguments(tmp_path / "run", "--no-eval", "--learning-rate", "1e38"))
    assert result.status == 1
    assert "non-finite" in result.err
    assert "Traceback" not in result.err


@pytest.mark.parametrize("what", ["command", "algorithm", "option", "out of range", "plot nothing"])
def test_the_program_refuses_wrong_input_with_status_2(what, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command, words = REFUSED[what]
    refused(script(*[a.replace("Drift-v0", "Pendulum-v1") for a in command]), *words)
