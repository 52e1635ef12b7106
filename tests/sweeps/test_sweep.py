"""Sweeps from start to end, and runs that fail."""

from __future__ import annotations

import json

import gymnasium
import pytest

from fake_workers import (
    ENV,
    ITERATIONS,
    InlineWorkers,
    content,
    evaluations,
    metric_rows,
    run_of,
    sweep_arguments,
)
from longrun.base.files import FolderLock
from longrun.cli import main
from longrun.lab.sweeps import run_sweep as start
from longrun.lab.sweeps.local_workers import LocalWorkers
from longrun.lab.sweeps.sweep_folder import SweepFolder
from tiny_envs import ITERATION, TINY_FLAGS, Drift, Faulty

gymnasium.register("Broken-v0", lambda: Faulty("raise"))


# One pass.


def test_a_sweep_leaves_ordinary_run_folders(whole):
    assert sorted(path.name for path in whole.iterdir()) == ["runs", "sweep.json", "workers"]
    for seed in (0, 1):
        files = {path.name for path in run_of(whole, seed).iterdir()}
        wanted = {"config.json", "metrics.csv", "evaluations.csv", "summary.json", "checkpoint"}
        assert files == wanted
        config = json.loads((run_of(whole, seed) / "config.json").read_text())
        assert (config["replicas"], config["num_workers"]) == ([{"seed": seed}], 0)
        assert (config["eval_every"], config["eval_steps"]) == (2 * ITERATION, 50)


def test_a_worker_has_one_thread_and_does_not_use_the_gpu(tmp_path):
    folder = SweepFolder.create(tmp_path / "sweep", [])
    found = LocalWorkers(folder, slots=2, native=False).variables
    assert {found[name] for name in ("OMP_NUM_THREADS", "NPROC")} == {"1"}
    assert found["JAX_PLATFORMS"] == "cpu"
    assert LocalWorkers(folder, slots=1, native=True).variables == {}


def test_the_same_command_again_changes_nothing(copy, capsys, monkeypatch):
    monkeypatch.setattr(start, "LocalWorkers", InlineWorkers)
    monkeypatch.setattr(InlineWorkers, "start", lambda *_: pytest.fail("a run was started"))
    before = content(copy)
    for command in (sweep_arguments(copy), ["sweep", "--resume", "--out", str(copy), "--quiet"]):
        assert main(command) == 0
        assert content(copy) == before
        assert f"2 of 2 runs are finished in {copy}" in capsys.readouterr().out


def test_an_extended_sweep_leaves_finished_runs_as_they_are(copy, inline, capsys):
    before = {seed: content(run_of(copy, seed)) for seed in (0, 1)}
    assert main(sweep_arguments(copy, "--seeds", "3")) == 0
    assert {seed: content(run_of(copy, seed)) for seed in (0, 1)} == before
    assert json.loads((run_of(copy, 2) / "summary.json").read_text())["steps"] == 640
    assert f"3 of 3 runs are finished in {copy}" in capsys.readouterr().out


def test_more_steps_are_trained_from_the_checkpoints(copy, inline):
    before = (run_of(copy, 0) / "evaluations.csv").read_text()
    assert main([*sweep_arguments(copy), "--steps", "704"]) == 0
    after = (run_of(copy, 0) / "evaluations.csv").read_text()
    assert after.startswith(before) and ",704," in after.removeprefix(before)
    assert json.loads((run_of(copy, 0) / "summary.json").read_text())["steps"] == 704


def test_a_sweep_without_evaluations_has_none(tmp_path, inline):
    out = tmp_path / "sweep"
    command = ["sweep", "apo", "--env", ENV, "--steps", "64", "--no-eval", "--out", str(out)]
    assert main([*command, *TINY_FLAGS]) == 0
    assert not (run_of(out, 0) / "evaluations.csv").exists()
    assert (run_of(out, 0) / "summary.json").exists()


def test_native_environments_share_a_run_on_a_device(tmp_path, inline, monkeypatch):
    monkeypatch.setattr(start, "default_backend", lambda: "gpu")
    out = tmp_path / "sweep"
    small = ["--num-envs", "4", "--rollout-steps", "8", "--hidden-sizes", "4", "--epochs", "1"]
    small += ["--minibatch-size", "16", "--steps", "64", "--no-eval", "--seeds", "2"]
    small += ["--workers", "1"]
    command = ["sweep", "apo", "--env", "jax:access-control", "--grid", "gae_lambda=0.8,0.9"]
    assert main([*command, *small, "--out", str(out), "--quiet"]) == 0
    (run,) = (out / "runs").iterdir()
    assert run.name == "jax-access-control_apo_4-replicas"
    summary = json.loads((run / "summary.json").read_text())
    assert (summary["replicas"], summary["steps"]) == (4, 64)
    assert [(final["seed"], final["gae_lambda"]) for final in summary["final"]] == [
        (0, 0.8),
        (0, 0.9),
        (1, 0.8),
        (1, 0.9),
    ]


# Failures.


def test_a_failed_run_is_listed_until_it_is_finished_and_the_others_are_trained(
    tmp_path, inline, capsys, monkeypatch
):
    out = tmp_path / "sweep"
    command = sweep_arguments(out)
    command[command.index(ENV) : command.index(ENV) + 1] = ["Broken-v0", ENV]
    command[command.index("--seeds") + 1] = "1"
    assert main(command) == 1
    printed = capsys.readouterr().out
    again = "0 of 2 runs finished  Broken-v0_apo_seed0: failed, will be retried"
    assert again in printed
    assert "1 of 2 runs are finished" in printed
    error = (
        "EnvironmentFailure: environment 0 of replica 0 failed at step 4 of iteration 0:"
        " ArithmeticError: the motor jammed ("
    )
    assert f"failed after 2 attempts: Broken-v0_apo_seed0: {error}" in printed
    assert f"longrun sweep --resume --out {out} --trust tries them again" in printed
    (failure,) = json.loads((out / "failures.json").read_text())
    assert "ArithmeticError: the motor jammed" in failure.pop("traceback")
    assert failure.pop("error").startswith(error)
    assert failure == {"run": "Broken-v0_apo_seed0", "attempts": 2}

    assert main(["sweep", "--resume", "--out", str(out), "--retries", "0"]) == 1
    assert f"failed after 1 attempt: Broken-v0_apo_seed0: {error}" in capsys.readouterr().out

    done = content(run_of(out, 0))
    monkeypatch.setattr(Faulty, "step", Drift.step)
    assert main(["sweep", "--resume", "--out", str(out)]) == 0
    assert content(run_of(out, 0)) == done
    assert not (out / "failures.json").exists()


def test_a_damaged_run_is_not_retried_and_the_others_are_trained(copy, inline, capsys):
    for seed in (0, 1):
        (run_of(copy, seed) / "summary.json").unlink()
    damaged = run_of(copy, 0) / "checkpoint" / "checkpoint.json"
    damaged.write_text("{")
    assert main(sweep_arguments(copy, "--retries", "3")) == 1
    printed = capsys.readouterr().out
    assert f"{run_of(copy, 1).name}: done" not in printed  # --quiet
    assert "1 of 2 runs are finished" in printed
    expected = f"{run_of(copy, 0).name}: FolderError: '{damaged}' is damaged or not readable"
    assert f"failed after 1 attempt: {expected}" in printed


@pytest.mark.parametrize(
    "content",
    ["", "[]", {"steps": "many"}, {"replicas": [{}]}, {"replicas": 5}, {"options": []}],
)
def test_a_run_whose_configuration_is_damaged_fails_alone(copy, inline, capsys, content):
    (run_of(copy, 0) / "summary.json").unlink()
    config = run_of(copy, 0) / "config.json"
    if isinstance(content, dict):
        content = json.dumps(json.loads(config.read_text()) | content)
    config.write_text(content)
    assert main(sweep_arguments(copy)) == 1
    printed = capsys.readouterr().out
    assert f"{run_of(copy, 0).name}: FolderError: '{config}' is damaged" in printed
    assert "1 of 2 runs are finished" in printed


def test_a_damaged_summary_is_written_again(copy, whole, inline):
    summary = run_of(copy, 0) / "summary.json"
    summary.write_text('{"steps"')
    assert main(sweep_arguments(copy)) == 0
    final, expected = (
        json.loads((run_of(out, 0) / "summary.json").read_text())["final"] for out in (copy, whole)
    )
    assert final == expected
    assert evaluations(run_of(copy, 0)) == evaluations(run_of(whole, 0))


def test_a_full_disk_ends_the_sweep_in_one_line_and_keeps_what_is_finished(copy, inline, capsys):
    path = run_of(copy, 2)
    path.mkdir()
    (path / "metrics.csv").symlink_to("/dev/full")
    before = {seed: content(run_of(copy, seed)) for seed in (0, 1)}
    assert main(sweep_arguments(copy, "--seeds", "4")) == 1
    assert capsys.readouterr().err == (
        "longrun: the disk is full; free some space and run the same command again: 2 of 4 runs"
        " are finished\n"
    )
    assert {seed: content(run_of(copy, seed)) for seed in (0, 1)} == before
    (path / "metrics.csv").unlink()
    assert main(sweep_arguments(copy, "--seeds", "4")) == 0
    assert metric_rows(path) == 1 + ITERATIONS


def test_a_run_folder_of_another_sweep_is_left_alone(copy, inline, capsys):
    config = run_of(copy, 0) / "config.json"
    facts = json.loads(config.read_text())
    facts["options"]["gae_lambda"] = 0.5
    config.write_text(json.dumps(facts))
    before = content(copy)
    assert main(sweep_arguments(copy)) == 2
    assert capsys.readouterr().err == (
        f"longrun: '{run_of(copy, 0)}' belongs to another sweep: it has gae_lambda=0.5, not 0.9;"
        " move it away or choose another --out\n"
    )
    assert content(copy) == before


def test_a_folder_is_locked_while_a_sweep_runs(copy, inline, capsys):
    before = content(copy)
    with FolderLock(copy):
        for more in ([], ["--seeds", "3"]):
            assert main(sweep_arguments(copy, *more)) == 2
            assert capsys.readouterr().err == (
                f"longrun: '{copy}' is being written by another process\n"
            )
    assert content(copy) == before
