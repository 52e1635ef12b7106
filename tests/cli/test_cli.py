"""The commands train, evaluate and plot: files, output, errors."""

from __future__ import annotations

import csv
import dataclasses
import json
import math
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from command_line import Result, call
from longrun import APO, __version__
from longrun.cli import main
from longrun.config import ALGORITHMS
from longrun.train.run_folder import RunFolder
from tiny_envs import ITERATION, TINY_FLAGS, bits

SCRIPT = Path(sys.executable).parent / "longrun"
COLUMNS = (
    "replica,seed,step,average_reward,average_reward_low,average_reward_high,episode_return,"
    "episode_length"
)


@pytest.fixture
def longrun(capsys):
    """Runs a command in this process."""

    return partial(call, capsys)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seeds of two settings, two iterations each. Tests that change it work on a copy."""
    out = tmp_path_factory.mktemp("runs") / "run"
    assert main(arguments(out, "--seeds", "2", "--grid", "value-constraint=0,0.3")) == 0
    return out


def arguments(out: Path, *more: str) -> list[str]:
    steps = ["--steps", str(2 * ITERATION), "--eval-every", str(ITERATION), "--eval-steps", "100"]
    where = ["train", "apo", "--env", "Drift-v0", "--out", str(out), "--workers", "0"]
    return [*where, *steps, *TINY_FLAGS, *more]


def content(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


# Run folders.


def test_the_configuration_tells_everything_that_made_the_run(run):
    config = json.loads((run / "config.json").read_text())
    assert (config["algorithm"], config["env"], config["steps"]) == ("apo", "Drift-v0", 128)
    assert set(config["options"]) == {f.name for f in dataclasses.fields(ALGORITHMS["apo"])}
    assert config["options"]["hidden_sizes"] == [8]
    assert config["replicas"] == [
        {"seed": seed, "value_constraint": nu} for nu in (0.0, 0.3) for seed in (0, 1)
    ]
    assert {"longrun", "jax", "numpy", "gymnasium", "python"} <= set(config["versions"])
    assert (config["eval_every"], config["eval_steps"], config["num_workers"]) == (64, 100, 0)


def test_metrics_have_one_row_for_each_replica_and_iteration(run):
    rows = read_csv(run / "metrics.csv")
    assert sorted((int(r["replica"]), int(r["seed"]), int(r["step"])) for r in rows) == [
        (replica, replica % 2, step) for replica in range(4) for step in (64, 128)
    ]
    for row in rows:
        assert {"reward", "gain", "value_loss", "steps_per_second"} <= set(row)
        assert all(math.isfinite(float(value)) for value in row.values())


def test_evaluations_have_exactly_the_promised_columns(run):
    assert (run / "evaluations.csv").read_text().splitlines()[0] == COLUMNS
    rows = read_csv(run / "evaluations.csv")
    assert sorted((int(r["replica"]), int(r["step"])) for r in rows) == [
        (replica, step) for replica in range(4) for step in (64, 128)
    ]
    for row in rows:
        low, mean, high = (float(row[f"average_reward{end}"]) for end in ("_low", "", "_high"))
        assert low < mean < high


def test_the_summary_tells_what_the_run_came_to(run):
    summary = json.loads((run / "summary.json").read_text())
    assert (summary["algorithm"], summary["env"]) == ("apo", "Drift-v0")
    assert (summary["steps"], summary["replicas"]) == (128, 4)
    for name in ("steps_per_second", "collect_s", "update_s", "evaluate_s"):
        assert summary[name] >= 0
    last = {r["replica"]: r for r in read_csv(run / "evaluations.csv") if r["step"] == "128"}
    for replica, final in enumerate(summary["final"]):
        assert (final["seed"], final["value_constraint"]) == (replica % 2, (0.0, 0.3)[replica // 2])
        for name in ("average_reward", "episode_return"):
            assert final[name] == pytest.approx(float(last[str(replica)][name]), rel=1e-4)


def test_the_checkpoint_holds_every_replica(run):
    agents = [APO.load(run, replica=replica) for replica in range(4)]
    assert [a.seed for a in agents] == [0, 1, 0, 1]
    assert [a.config.value_constraint for a in agents] == [0.0, 0.0, 0.3, 0.3]
    assert {a.steps_ for a in agents} == {128}


def test_a_seed_or_setting_alone_gives_the_rows_it_gives_among_others(run, tmp_path):
    options = ["--seed", "1", "--value-constraint", "0.3"]
    assert main(arguments(tmp_path / "alone", *options)) == 0
    for name in ("metrics.csv", "evaluations.csv"):
        alone, among = (read_csv(folder / name) for folder in (tmp_path / "alone", run))
        among = [row for row in among if row["replica"] == "3"]
        for row in alone + among:
            row.pop("steps_per_second", None)
            row.pop("replica")
        assert alone == among
    alone, among = APO.load(tmp_path / "alone"), APO.load(run, replica=3)
    assert bits(alone.snapshot) == bits(among.snapshot)


def test_training_prints_the_table_of_the_last_evaluation(longrun, tmp_path):
    result = longrun(*arguments(tmp_path / "run"))
    assert (result.status, result.err) == (0, "")
    assert "final score" in result.out
    assert "Drift-v0" in result.out


def test_a_run_without_evaluations_says_nothing_about_them(longrun, tmp_path):
    result = longrun(*arguments(tmp_path / "run", "--no-eval"))
    assert (result.status, result.err) == (0, "")
    assert result.out == f"writing to {tmp_path / 'run'}, up to 128 steps\n"
    assert not (tmp_path / "run" / "evaluations.csv").exists()
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["final"] == [{"seed": 0, "average_reward": None, "episode_return": None}]


def test_a_never_ending_environment_can_be_trained_evaluated_and_plotted(longrun, tmp_path):
    out = tmp_path / "run"
    assert longrun(*arguments(out, "--env", "EndlessDrift-v0")).status == 0
    assert longrun("evaluate", out, "--steps", 50).status == 0
    assert longrun("plot", out, "--out", tmp_path / "curves.png").status == 0
    summary = json.loads((out / "summary.json").read_text())
    assert summary["final"][0]["episode_return"] is None
    assert math.isfinite(summary["final"][0]["average_reward"])


def test_without_a_folder_a_run_finds_a_free_one(longrun, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = [a for a in arguments(Path("-"), "--no-eval") if a not in ("--out", "-")]
    for name in ("apo-Drift-v0", "apo-Drift-v0-2"):
        assert longrun(*command).status == 0
        assert (tmp_path / "runs" / name / "summary.json").exists()


def test_tensorboard_files_are_written_on_request(longrun, tmp_path):
    assert longrun(*arguments(tmp_path / "run", "--no-eval", "--tensorboard")).status == 0
    assert list((tmp_path / "run").rglob("events.out.tfevents.*"))


# Evaluating and plotting.


def test_evaluate_reports_every_replica(longrun, run):
    before = content(run)
    result = longrun("evaluate", run, "--steps", 100)
    assert (result.status, result.err) == (0, "")
    for replica in range(4):
        assert f"{replica} (seed {replica % 2})" in result.out
    assert content(run) == before


def test_evaluate_takes_a_saved_agent_too(longrun, tmp_path):
    APO("Drift-v0", hidden_sizes=(8,)).save(tmp_path / "agent")
    result = longrun("evaluate", tmp_path / "agent", "--steps", 100)
    assert (result.status, result.err) == (0, "")
    assert "seed 0" in result.out


def test_plot_draws_png_and_svg_and_prints_the_table(longrun, run, tmp_path):
    result = longrun("plot", run, "--out", tmp_path / "deep" / "curves.png")
    assert (result.status, result.err) == (0, "")
    assert (tmp_path / "deep" / "curves.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    table = "".join(character for character in result.out if character not in "│ \n")
    assert "value_constraint=0.0" in table, "what tells settings apart must never be cut short"
    assert "value_constraint=0.3" in table
    assert longrun("plot", run, run, "--out", tmp_path / "curves.svg").status == 0
    assert "<svg" in (tmp_path / "curves.svg").read_text()


# Wrong input: exit status 2, one line, no traceback.


def refused(result: Result, *words: str) -> None:
    assert result.status == 2
    assert result.out == ""
    assert result.err.count("\n") == 1, result.err
    assert result.err.startswith("longrun: ")
    for word in words:
        assert word in result.err


TRAIN = ["train", "apo", "--env", "Drift-v0", "--no-eval", "--workers", "0", "--steps", "64"]
REFUSED: dict[str, tuple[list[str], list[str]]] = {
    "command": (["trian"], ["unknown command 'trian'", "train"]),
    "nothing like a command": (["zzz"], ["train, evaluate, sweep"]),
    "algorithm": (["train", "apoo", "--env", "Drift-v0"], ["algorithm 'apoo'", "apo"]),
    "no algorithm": (["train", "--env", "Drift-v0"], ["algorithm", "apo, ppo, atrpo, trpo"]),
    "environment": (["train", "apo", "--env", "Drfit-v0"], ["'Drfit-v0'", "Drift-v0"]),
    "no environment": (["train", "apo"], ["--env"]),
    "an environment that is not installed": (["train", "apo", "--env", "Hopper-v2"], ["Hopper-v2"]),
    "no value": (["train", "apo", "--env"], ["--env"]),
    "option": ([*TRAIN, "--value-constrain", "1"], ["--value-constrain'", "--value-constraint"]),
    "option with value": ([*TRAIN, "--clip-rage=1"], ["--clip-rage'", "--clip-range"]),
    "other algorithm's option": ([*TRAIN, "--discount", "0.9"], ["--discount"]),
    "short option": ([*TRAIN, "-x"], ["-x"]),
    "stray word": ([*TRAIN, "Drift-v0"], ["Drift-v0"]),
    "preset": ([*TRAIN, "--preset", "papr"], ["preset 'papr'", "paper"]),
    "grid name": ([*TRAIN, "--grid", "value_constrain=1"], ["value_constraint"]),
    "grid of no number": ([*TRAIN, "--grid", "num_envs=1,2"], ["num_envs"]),
    "grid values": ([*TRAIN, "--grid", "gae_lambda=a,b"], ["gae_lambda='a' must be a number"]),
    "grid value twice": ([*TRAIN, "--grid", "gae_lambda=0.9,0.90"], ["lists a value twice"]),
    "grid without values": ([*TRAIN, "--grid", "gae_lambda"], ["gae_lambda"]),
    "grid out of range": ([*TRAIN, "--grid", "gae_lambda=0.5,2"], ["gae_lambda=2", "0 and 1"]),
    "out of range": ([*TRAIN, "--gae-lambda", "2"], ["gae_lambda=2", "0 and 1"]),
    "not a number": ([*TRAIN, "--learning-rate", "nan"], ["learning_rate=nan"]),
    "text for a number": ([*TRAIN, "--learning-rate", "fast"], ["--learning-rate", "fast"]),
    "fraction": ([*TRAIN, "--num-envs", "1.5"], ["--num-envs", "1.5"]),
    "choice": ([*TRAIN, "--termination", "never"], ["termination='never'", "zero, reset"]),
    "inconsistent": ([*TRAIN, "--reset-cost", "1"], ["reset_cost=1", "termination='reset'"]),
    "sizes": ([*TRAIN, "--hidden-sizes", "0"], ["hidden_sizes=[0]"]),
    "minibatch": ([*TRAIN, "--num-envs", "1", "--rollout-steps", "9"], ["minibatch_size=100"]),
    "steps": ([*TRAIN, "--steps", "0"], ["steps=0"]),
    "seeds": ([*TRAIN, "--seeds", "0"], ["seeds=0"]),
    "seed": ([*TRAIN, "--seed", "-1"], ["seed=-1"]),
    "workers": ([*TRAIN, "--workers", "-1"], ["workers"]),
    "eval steps": ([*TRAIN, "--eval-steps", "0"], ["eval_steps=0"]),
    "infinite steps": ([*TRAIN, "--steps", "inf"], ["--steps", "inf"]),
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
def test_wrong_input_is_refused_in_one_line_and_leaves_no_trace(
    what, longrun, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    command, words = REFUSED[what]
    refused(longrun(*command), *words)
    assert list(tmp_path.iterdir()) == []


def test_an_existing_run_is_not_written_over(longrun, run):
    before = content(run)
    refused(longrun(*arguments(run)), "already holds a run", str(run))
    assert content(run) == before


@pytest.mark.parametrize(
    "change, words",
    [
        (["ppo"], ["'apo'", "'ppo'"]),
        (["apo", "--env", "EndlessDrift-v0"], ["'Drift-v0'", "'EndlessDrift-v0'"]),
        (["apo", "--gae-lambda", "0.5"], ["gae_lambda=0.5", "0.95"]),
        (["apo", "--hidden-sizes", "9"], ["hidden_sizes=[9]", "8"]),
        (["apo", "--seeds", "5"], ["--seeds"]),
        (["apo", "--seed", "5"], ["seed"]),
        (["apo", "--grid", "gae_lambda=0,1"], ["--grid"]),
        (["apo", "--steps", "0"], ["steps=0"]),
        (["--gae-lambda", "0.5"], ["--gae-lambda"]),
    ],
    ids=lambda value: " ".join(value),
)
def test_a_run_is_resumed_as_what_it_is_or_not_at_all(change, words, longrun, run):
    before = content(run)
    refused(longrun("train", *change, "--resume", "--out", run), *words)
    assert content(run) == before


def test_the_same_options_may_be_repeated_on_resume(longrun, tmp_path):
    command = arguments(tmp_path / "run", "--no-eval", "--seeds", "2")
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
    before = content(out)
    result = longrun("train", "--resume", "--out", out)
    assert result.status == 0
    assert "give a larger --steps" in result.out
    assert content(out) == before


def test_a_folder_that_another_process_writes_to_is_refused(longrun, run, tmp_path):
    out = tmp_path / "run"
    shutil.copytree(run, out)
    with RunFolder(out).locked():
        result = longrun("train", "--resume", "--out", out, "--steps", "1e5")
    refused(result, "another process")


def test_a_run_with_a_damaged_checkpoint_is_not_resumed(longrun, run, tmp_path):
    out = tmp_path / "run"
    shutil.copytree(run, out)
    (state,) = (out / "checkpoint").glob("*.safetensors")
    state.write_bytes(state.read_bytes()[:-8])
    before = content(out)
    refused(longrun("train", "--resume", "--out", out), "damaged", str(out))
    refused(longrun("evaluate", out), "damaged", str(out))
    assert content(out) == before
    (out / "config.json").write_text("{")
    refused(longrun("train", "--resume", "--out", out), "damaged", "config.json")
    refused(longrun("plot", out), "damaged", "config.json")


@pytest.mark.parametrize("command", ["train", "plot"])
def test_an_output_that_cannot_be_written_is_refused(command, longrun, run, tmp_path):
    (tmp_path / "file").write_text("in the way")
    out = tmp_path / "file" / "below.png"
    result = longrun(*(arguments(out) if command == "train" else ["plot", run, "--out", out]))
    assert result.status in (1, 2)
    assert result.err.count("\n") == 1
    assert str(tmp_path / "file") in result.err


def test_a_picture_in_an_unknown_format_is_refused(longrun, run, tmp_path):
    result = longrun("plot", run, "--out", tmp_path / "curves.xyz")
    assert result.status == 2
    assert result.err.count("\n") == 1
    assert "curves.xyz" in result.err


def test_a_run_without_evaluations_cannot_be_plotted(longrun, tmp_path):
    assert longrun(*arguments(tmp_path / "run", "--no-eval")).status == 0
    refused(longrun("plot", tmp_path / "run", "--out", tmp_path / "curves.png"), "no evaluations")
    assert not (tmp_path / "curves.png").exists()


def test_a_run_that_fails_ends_with_status_1(longrun, tmp_path):
    result = longrun(*arguments(tmp_path / "run", "--no-eval", "--learning-rate", "1e38"))
    assert result.status == 1
    assert "non-finite" in result.err
    assert "Traceback" not in result.err


# Help.


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
    own = [f.name.replace("_", "-") for f in dataclasses.fields(ALGORITHMS[algorithm])]
    run = "env steps seeds seed grid preset out resume workers eval-every eval-steps no-eval"
    for name in [*own, *run.split(), "tensorboard", "quiet"]:
        assert f"--{name} " in result.out.replace(",", " ").replace("\n", " "), name


@pytest.mark.parametrize("command, option", [("evaluate", "--steps"), ("plot", "--out")])
def test_help_of_the_other_commands_mentions_each_option(command, option, longrun):
    result = longrun(command, "--help")
    assert (result.status, result.err) == (0, "")
    assert option in result.out


# The real program.


def script(*command: str) -> Result:
    done = subprocess.run([SCRIPT, *command], capture_output=True, text=True, timeout=120)
    return Result(done.returncode, done.stdout, done.stderr)


def test_the_program_answers_help_and_version():
    assert script("--version") == Result(0, f"{__version__}\n", "")
    result = script("train", "apo", "--help")
    assert (result.status, result.err) == (0, "")
    assert "--value-constraint" in result.out


@pytest.mark.parametrize("what", ["command", "algorithm", "option", "out of range", "plot nothing"])
def test_the_program_refuses_wrong_input_with_status_2(what, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command, words = REFUSED[what]
    refused(script(*[a.replace("Drift-v0", "Pendulum-v1") for a in command]), *words)


def test_the_program_trains_with_workers_and_evaluates(tmp_path):
    out = str(tmp_path / "run")
    command = [*TRAIN, "--env", "Pendulum-v1", "--workers", "2", "--out", out, *TINY_FLAGS]
    result = script(*command)
    assert (result.status, result.err) == (0, "")
    assert len(read_csv(Path(out) / "metrics.csv")) == 1
