"""Run folders: one process writes at a time, leftovers are removed, full disks name the file."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fake_workers import launch
from longrun import APO, FolderError, InputError
from longrun.base.errors import EnvironmentFailure
from longrun.base.files import FolderLock, named_errors
from longrun.cli import main
from tiny_envs import GATE, ITERATION, TINY, TINY_FLAGS, Drift, wait_until

STEPS = 10 * ITERATION


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def trained(run: Path) -> APO:
    return APO(Drift, num_workers=0, **TINY).learn(3 * ITERATION, log_dir=run)


@pytest.mark.parametrize("what", ["learn", "save"])
def test_an_agent_changes_nothing_in_a_folder_that_another_process_writes(tmp_path, what):
    run = tmp_path / "run"
    trained(run)
    agent = APO.load(run, Drift, num_workers=0)
    before = contents(run)
    with FolderLock(run), pytest.raises(FolderError, match="is being written by another process"):
        agent.learn(ITERATION, log_dir=run) if what == "learn" else agent.save(run)
    assert contents(run) == before
    assert agent.steps_ == 3 * ITERATION


def test_a_run_that_another_agent_has_trained_meanwhile_is_refused(tmp_path):
    run = tmp_path / "run"
    trained(run)
    first, second = (APO.load(run, Drift, num_workers=0) for _ in range(2))
    first.learn(ITERATION, log_dir=run)
    before = contents(run)
    with pytest.raises(FolderError, match="has been trained by another process; load it again"):
        second.learn(2 * ITERATION, log_dir=run)
    assert contents(run) == before
    first.learn(ITERATION, log_dir=run)
    assert first.steps_ == 5 * ITERATION


def test_saving_to_the_own_run_folder_does_not_count_as_another_process(tmp_path):
    run = tmp_path / "run"
    agent = trained(run)
    agent.learn(ITERATION).save(run)
    agent.learn(ITERATION, log_dir=run)
    assert APO.load(run, Drift, num_workers=0).steps_ == 5 * ITERATION
    agent.learn(ITERATION, on_log=lambda _: agent.save(run))  # without a run folder
    agent.learn(ITERATION, log_dir=run)
    assert APO.load(run, Drift, num_workers=0).steps_ == 7 * ITERATION


def test_an_agent_does_not_replace_the_checkpoint_of_a_run_that_it_does_not_continue(tmp_path):
    run = tmp_path / "run"
    trained(run)
    before = contents(run)
    others = APO(Drift, num_workers=0, **TINY), APO.load(run, Drift, num_workers=0, epochs=1)
    for other in others:
        with pytest.raises(FolderError, match="holds a run that this agent does not continue"):
            other.save(run)
    assert contents(run) == before


def test_what_is_left_of_a_run_without_its_description_is_not_taken_for_a_new_one(tmp_path):
    run = tmp_path / "run"
    trained(run)
    (run / "config.json").unlink()
    before = contents(run)
    with pytest.raises(FolderError, match=r"has metrics.csv and .* of a run whose config.json is"):
        trained(run)
    assert contents(run) == before


def test_a_trained_checkpoint_without_rows_is_not_replaced_by_a_new_run(tmp_path):
    for missing in (["metrics.csv"], ["metrics.csv", "config.json"]):
        run = tmp_path / str(len(missing))
        trained(run)
        for name in [*missing, "evaluations.csv"]:
            (run / name).unlink(missing_ok=True)
        before = contents(run)
        with pytest.raises(FolderError, match=r"already holds a run|has checkpoint of a run whose"):
            trained(run)
        assert contents(run) == before


def test_files_of_another_program_beside_a_new_run_are_kept(tmp_path):
    other = tmp_path / "checkpoint" / "model.pt"
    other.parent.mkdir()
    other.write_bytes(b"weights")
    trained(tmp_path)
    assert other.read_bytes() == b"weights"


def test_a_run_that_failed_before_it_learned_anything_can_be_started_again(tmp_path):
    run = tmp_path / "run"

    class Broken(Drift):
        def step(self, action):
            raise RuntimeError("no connection")

    with pytest.raises(EnvironmentFailure, match="no connection"):
        APO(Broken, num_workers=0, **TINY).learn(ITERATION, log_dir=run)
    assert (run / "config.json").exists()
    trained(run)
    assert APO.load(run, Drift, num_workers=0).steps_ == 3 * ITERATION


@pytest.mark.slow
def test_the_command_line_changes_nothing_in_a_run_that_is_being_trained(tmp_path, gate, capsys):
    run = tmp_path / "run"
    command = ["train", "apo", "--env", "tiny_envs:GatedDrift-v0", *TINY_FLAGS, "--out", str(run)]
    command += ["--steps", str(STEPS), "--workers", "0", "--no-eval"]
    process = launch(command, **{GATE: str(gate)})
    metrics = run / "metrics.csv"
    wait_until(lambda: metrics.exists() and metrics.read_text().count("\n") >= 3)
    before = contents(run)
    for arguments in (command, ["train", "--resume", "--out", str(run), "--steps", "100000"]):
        assert main(arguments) == 2
        assert "is being written by another process" in capsys.readouterr().err
    assert contents(run) == before
    gate.unlink()
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert metrics.read_text().count("\n") == 1 + 10


def test_a_folder_whose_lock_is_released_in_time_is_waited_for(tmp_path):
    lock = FolderLock(tmp_path)
    with pytest.raises(FolderError):
        FolderLock(tmp_path, wait=0.1)
    lock.release()
    lock.release()
    FolderLock(tmp_path, wait=0.1).release()


def test_temporary_files_of_killed_processes_are_removed_when_a_run_is_resumed(tmp_path):
    run = tmp_path / "run"
    agent = trained(run)
    leftovers = [".metrics.csv.123", ".config.json.7", ".summary.json.99999"]
    others = [".notes", ".metrics.csv.bak", "metrics.csv.123"]
    for name in (*leftovers, *others):
        (run / name).touch()
    agent.learn(ITERATION, log_dir=run)
    assert not any((run / name).exists() for name in leftovers)
    assert all((run / name).exists() for name in others)


def test_temporary_files_of_a_process_that_was_killed_at_once_are_removed(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / ".config.json.123").touch()
    trained(run)
    assert not (run / ".config.json.123").exists()


def test_a_folder_that_is_removed_while_it_is_trained_does_not_come_back(tmp_path):
    run = tmp_path / "run"
    agent = APO(Drift, num_workers=0, **TINY)

    def on_log(progress: object) -> bool:
        shutil.rmtree(run)
        return False

    with pytest.raises(FolderError, match="was removed while it was trained"):
        agent.learn(5 * ITERATION, log_dir=run, on_log=on_log)
    assert not run.exists()
    assert agent.steps_ == ITERATION


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_names_the_file():
    full = Path("/dev/full")
    with pytest.raises(OSError, match="No space left on device: 'a'"), named_errors(Path("a")):
        full.write_text("x" * 100_000)


def test_iterations_are_counted_in_32_bits():
    with pytest.raises(InputError, match=r"are 2,147,483,648 iterations of 64 steps; give at most"):
        APO(Drift, num_workers=0, **TINY).learn(2**31 * ITERATION)
