"""A stopped, interrupted or killed run that is resumed equals an uninterrupted one to the bit."""

from __future__ import annotations

import csv
import json
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fake_workers import launch
from longrun import APO, ATRPO
from longrun.cli import main
from longrun.learning.learn import advantages, minibatches
from longrun.learning.options.config_options import make_config
from longrun.learning.runs.run_folder import RunFolder
from longrun.learning.train import training
from longrun.learning.train.open_run import extended, saved_run
from run_specs import spec_of
from tiny_envs import (
    ENDLESS,
    GATE,
    ITERATION,
    MORTAL,
    MORTAL_DISCRETE,
    TINY,
    TINY_FLAGS,
    bits,
    wait_until,
)

EVALUATION = {"eval_every": 2 * ITERATION, "eval_steps": 50}
EVALUATION_FLAGS = ["--eval-every", str(2 * ITERATION), "--eval-steps", "50"]
ITERATIONS = 6
DECAYS: dict[str, Any] = TINY | {"num_workers": 0, "learning_rate_decay": True}


@pytest.mark.parametrize("env", [MORTAL, MORTAL_DISCRETE, ENDLESS])
def test_learning_in_two_parts_with_or_without_a_file_between_equals_learning_in_one(env, tmp_path):
    """Three iterations are 48 steps of each environment: endless ones are in mid-episode."""
    whole = APO(env, num_workers=0, **TINY).learn(6 * ITERATION)
    halves = APO(env, num_workers=0, **TINY).learn(3 * ITERATION)
    halves.save(tmp_path)
    halves.learn(3 * ITERATION)
    loaded = APO.load(tmp_path, env, num_workers=2).learn(3 * ITERATION)
    assert bits(halves.snapshot) == bits(whole.snapshot)
    assert bits(loaded.snapshot) == bits(whole.snapshot)
    assert whole.steps_ == halves.steps_ == loaded.steps_ == 6 * ITERATION


def test_the_trust_region_step_resumes_bit_identically(tmp_path):
    options = TINY
    whole = ATRPO(MORTAL, num_workers=0, **options).learn(2 * ITERATION)
    ATRPO(MORTAL, num_workers=0, **options).learn(ITERATION).save(tmp_path)
    loaded = ATRPO.load(tmp_path, MORTAL, num_workers=0).learn(ITERATION)
    assert bits(loaded.snapshot) == bits(whole.snapshot)


# On the command line.


def rows_of(run: Path, name: str) -> list[dict[str, str]]:
    """Rows of a CSV in order of replica and step, without the column that measures time."""
    with (run / name).open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row.pop("steps_per_second", None)
    return sorted(rows, key=lambda row: (int(row["replica"]), int(row["step"])))


def assert_same_run(run: Path, other: Path) -> None:
    for name in ("metrics.csv", "evaluations.csv"):
        assert rows_of(run, name) == rows_of(other, name), name
    final, other_final = (
        json.loads((r / "summary.json").read_text())["final"] for r in (run, other)
    )
    assert final == other_final


def arguments(out: Path, *more: str, env: str = "Drift-v0") -> list[str]:
    steps = str(ITERATIONS * ITERATION)
    run = ["train", "apo", "--env", env, "--steps", steps, "--seeds", "2", "--out", str(out)]
    return [*run, "--workers", "2", *EVALUATION_FLAGS, *TINY_FLAGS, *more]


def resume(out: Path, *more: str) -> None:
    assert main(["train", "--resume", "--out", str(out), "--quiet", *more]) == 0


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "uninterrupted"
    assert main(arguments(out)) == 0
    return out


def start(out: Path, gate: Path, checkpoint_seconds: float) -> subprocess.Popen[str]:
    """The same run in a process of its own, returned when it waits in its fourth iteration."""
    patches = f"""
import tiny_envs
from longrun.learning.learn import advantages
from longrun.learning.train import training
advantages.UNROLL = {advantages.UNROLL}  # as in the process that resumes it: the same bits
training.CHECKPOINT_SECONDS = {checkpoint_seconds}
"""
    command = arguments(out, env="GatedDrift-v0")
    process = launch(command, patches, **{GATE: str(gate)})
    metrics = out / "metrics.csv"
    wait_until(lambda: metrics.exists() and metrics.read_text().count("\n") >= 1 + 2 * 3)
    return process


def assert_in_the_middle(out: Path) -> None:
    steps = [int(row["step"]) for row in rows_of(out, "metrics.csv")]
    assert ITERATION <= max(steps) < ITERATIONS * ITERATION


@pytest.mark.slow
def test_a_run_that_was_killed_resumes_from_its_checkpoint(tmp_path, gate, uninterrupted):
    out = tmp_path / "killed"
    process = start(out, gate, checkpoint_seconds=0.0)
    process.kill()
    process.communicate()
    assert_in_the_middle(out)
    resume(out)
    assert_same_run(out, uninterrupted)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "status", "word"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")],
)
def test_a_run_stopped_by_a_signal_says_so_and_resumes(
    tmp_path, gate, uninterrupted, number, status, word
):
    out = tmp_path / "stopped"
    process = start(out, gate, checkpoint_seconds=1000.0)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == status
    assert errors == f"longrun: {word}; longrun train --resume --out {out} resumes it\n"
    assert_in_the_middle(out)
    resume(out)
    assert_same_run(out, uninterrupted)


def test_a_run_stopped_by_on_log_resumes_on_the_command_line(tmp_path):
    options: dict[str, Any] = TINY | {"num_workers": 0}
    APO("Drift-v0", **options).learn(
        ITERATIONS * ITERATION, log_dir=tmp_path / "whole", **EVALUATION
    )
    APO("Drift-v0", **options).learn(
        ITERATIONS * ITERATION,
        log_dir=tmp_path / "stopped",
        on_log=lambda progress: progress.step < 3 * ITERATION,
        **EVALUATION,
    )
    assert_in_the_middle(tmp_path / "stopped")
    resume(tmp_path / "stopped")
    assert_same_run(tmp_path / "stopped", tmp_path / "whole")
    resumed, whole = (APO.load(tmp_path / name) for name in ("stopped", "whole"))
    assert bits(resumed.snapshot) == bits(whole.snapshot)


@pytest.mark.parametrize("what", ["add_metrics", "add_evaluations"])
def test_an_interrupt_while_a_row_is_being_written_neither_loses_nor_repeats_one(
    what, tmp_path, monkeypatch
):
    options: dict[str, Any] = TINY | {"num_workers": 0}
    steps = ITERATIONS * ITERATION
    APO("Drift-v0", **options).learn(steps, log_dir=tmp_path / "whole", **EVALUATION)
    write = getattr(RunFolder, what)

    def interrupt(self, rows):
        rows = list(rows)
        places = [row if what == "add_metrics" else row[0] for row in rows]
        if any(place["step"] == 4 * ITERATION for place in places):
            raise KeyboardInterrupt
        write(self, rows)

    monkeypatch.setattr(RunFolder, what, interrupt)
    with pytest.raises(KeyboardInterrupt):
        APO("Drift-v0", **options).learn(steps, log_dir=tmp_path / "cut", **EVALUATION)
    monkeypatch.undo()
    resume(tmp_path / "cut")
    assert_same_run(tmp_path / "cut", tmp_path / "whole")


def test_a_decaying_learning_rate_continues_after_a_resume(tmp_path):
    for name, until in (("whole", ITERATIONS), ("stopped", 3)):
        APO("Drift-v0", **DECAYS).learn(
            ITERATIONS * ITERATION,
            log_dir=tmp_path / name,
            on_log=lambda progress, until=until: progress.step < until * ITERATION,
            **EVALUATION,
        )
    resume(tmp_path / "stopped")
    assert_same_run(tmp_path / "stopped", tmp_path / "whole")


@pytest.fixture(scope="module")
def twice(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two calls of `learn` to one folder, each of three iterations over which the rate decays."""
    out = tmp_path_factory.mktemp("runs") / "twice"
    agent = APO("Drift-v0", **DECAYS)
    for _ in range(2):
        agent.learn(3 * ITERATION, log_dir=out, **EVALUATION)
    return out


def test_a_decaying_learning_rate_starts_anew_in_each_call_of_learn(twice):
    """The second call is that of an agent with the weights of the first, and the full rate."""
    rates: list[float] = []
    agent = APO("Drift-v0", **DECAYS)
    rate = minibatches.learning_rate
    assert [float(rate(agent.config, k / 3)) for k in range(3)] == pytest.approx(
        [agent.config.learning_rate * x for x in (1, 2 / 3, 1 / 3)]
    )
    for begins in (0, 3):
        steps = {"begins": begins * ITERATION, "steps": (begins + 3) * ITERATION}
        spec = spec_of([agent.config], [0], **steps)
        rates += [spec.progress(k) for k in range(begins, begins + 3)]
    assert rates == pytest.approx([0, 1 / 3, 2 / 3] * 2)
    whole = APO("Drift-v0", **DECAYS).learn(6 * ITERATION)
    assert bits(whole.snapshot) != bits(APO.load(twice).snapshot)
    assert json.loads((twice / "config.json").read_text())["begins"] == 3 * ITERATION


def test_more_steps_after_a_decay_are_what_another_call_of_learn_is(tmp_path, twice, capsys):
    out, steps = tmp_path / "longer", ["--steps", str(ITERATIONS * ITERATION)]
    APO("Drift-v0", **DECAYS).learn(3 * ITERATION, log_dir=out, **EVALUATION)
    resume(out)
    assert "starts anew" not in capsys.readouterr().out
    resume(out, *steps)
    assert "such as the learning rate, starts anew for the steps to come" in capsys.readouterr().out
    assert_same_run(out, twice)
    assert bits(APO.load(out).snapshot) == bits(APO.load(twice).snapshot)


def test_a_second_training_that_was_stopped_resumes_its_own_decay(tmp_path, twice):
    out = tmp_path / "stopped"
    agent = APO("Drift-v0", **DECAYS).learn(3 * ITERATION, log_dir=out, **EVALUATION)
    agent.learn(3 * ITERATION, log_dir=out, on_log=lambda p: p.step < 5 * ITERATION, **EVALUATION)
    resume(out)
    assert_same_run(out, twice)
    assert bits(APO.load(out).snapshot) == bits(APO.load(twice).snapshot)


def test_more_steps_of_an_unfinished_run_make_its_decay_longer(tmp_path):
    """As if the run had been started with them, from the checkpoint on."""
    out = tmp_path / "stopped"
    APO("Drift-v0", **DECAYS).learn(
        3 * ITERATION, log_dir=out, on_log=lambda p: p.step < 2 * ITERATION, **EVALUATION
    )
    saved = saved_run(out)
    assert (saved.done, saved.spec.begins) == ([2 * ITERATION], 0)
    assert [extended(saved, k * ITERATION).spec.begins for k in (3, 6)] == [0, 0]
    resume(out, "--steps", str(ITERATIONS * ITERATION))
    assert json.loads((out / "config.json").read_text())["begins"] == 0


def test_a_beginning_that_cannot_be_is_not_believed(tmp_path, twice):
    shutil.copytree(twice, tmp_path, dirs_exist_ok=True)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"begins": 10**9}))
    saved = saved_run(tmp_path)
    assert extended(saved, saved.spec.steps).spec.begins == 6 * ITERATION


def test_a_run_by_the_default_options_resumes_bit_identically(tmp_path):
    """With everything that the default preset keeps besides the networks; episodes terminate."""
    sizes = {name: TINY[name] for name in ("num_envs", "rollout_steps", "minibatch_size")}
    runs = []
    for until in (5, 2):
        out = tmp_path / str(until)
        APO("Drift-v0", num_workers=0, **sizes, hidden_sizes=(8,)).learn(
            5 * ITERATION,
            log_dir=out,
            on_log=lambda progress, until=until: progress.step < until * ITERATION,
            **EVALUATION,
        )
        runs.append(out)
    resume(runs[1])
    assert_same_run(*runs)
    whole, resumed = (APO.load(run) for run in runs)
    assert bits(whole.snapshot) == bits(resumed.snapshot)
    assert whole.config == make_config("apo", **sizes, hidden_sizes=(8,))


def test_more_steps_on_resume_equal_a_longer_run(tmp_path, uninterrupted):
    out = tmp_path / "longer"
    assert main(arguments(out, "--steps", str(4 * ITERATION))) == 0
    resume(out, "--steps", str(ITERATIONS * ITERATION))
    assert_same_run(out, uninterrupted)


def test_resuming_a_finished_run_changes_none_of_its_results(tmp_path, uninterrupted):
    out = tmp_path / "finished"
    shutil.copytree(uninterrupted, out)
    resume(out)
    assert_same_run(out, uninterrupted)
    state = next((uninterrupted / "checkpoint").glob("*.safetensors"))
    assert (out / "checkpoint" / state.name).read_bytes() == state.read_bytes()


def test_an_agent_loaded_from_a_killed_run_drops_what_came_after_the_checkpoint(tmp_path):
    run, old = tmp_path / "run", tmp_path / "old"
    agent = APO("Drift-v0", num_workers=0, **TINY)
    agent.learn(2 * ITERATION, log_dir=run, **EVALUATION)
    shutil.copytree(run / "checkpoint", old)
    agent.learn(2 * ITERATION, log_dir=run, **EVALUATION)
    expected = rows_of(run, "metrics.csv"), rows_of(run, "evaluations.csv")
    shutil.rmtree(run / "checkpoint")
    shutil.copytree(old, run / "checkpoint")  # as if it had been killed before it saved
    APO.load(run, num_workers=0).learn(2 * ITERATION, log_dir=run, **EVALUATION)
    assert (rows_of(run, "metrics.csv"), rows_of(run, "evaluations.csv")) == expected


def test_a_table_whose_rows_were_all_dropped_gets_its_header_again(tmp_path):
    folder = RunFolder(tmp_path)
    row = {"replica": 0, "seed": 0, "step": ITERATION, "reward": 1.5}
    folder.add_metrics([row])
    folder.drop_rows_after([0])
    folder.add_metrics([row])
    assert (tmp_path / "metrics.csv").read_text() == "replica,seed,step,reward\n0,0,64,1.5\n"


def test_a_row_that_a_crash_cut_short_is_left_out(tmp_path, uninterrupted):
    shutil.copytree(uninterrupted, tmp_path, dirs_exist_ok=True)
    with (tmp_path / "metrics.csv").open("a") as file:
        file.write("1,1,64,12")
    RunFolder(tmp_path).drop_rows_after([ITERATIONS * ITERATION] * 2)
    assert rows_of(tmp_path, "metrics.csv") == rows_of(uninterrupted, "metrics.csv")


def test_a_run_has_a_checkpoint_from_its_start(tmp_path, monkeypatch):
    """A run that is killed in its first seconds can be resumed as well."""
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", 1e9)  # no later one
    steps = []

    def look(progress):
        steps.append(APO.load(tmp_path).steps_)
        return False

    APO("Drift-v0", num_workers=0, **TINY).learn(3 * ITERATION, log_dir=tmp_path, on_log=look)
    assert steps == [0]
