"""Files of others: loading them imports nothing, reads nothing elsewhere, and always returns."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import safetensors.numpy

from fake_workers import short_runs
from longrun import APO, FolderError, InputError, read_results
from longrun.base.files import read_bytes, read_json
from longrun.cli import main
from longrun.lab.sweeps.design import Design
from longrun.lab.sweeps.sweep_folder import SweepFolder
from longrun.learning.runs.checkpoint_files import digest_of
from longrun.learning.train import checkpoint
from tiny_envs import ITERATION, TINY

EVIL = """
import pathlib
pathlib.Path(__file__).with_name("imported").touch()
import gymnasium
gymnasium.register("Evil-v0", "gymnasium.envs.classic_control:PendulumEnv", max_episode_steps=200)
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "run"
    agent = APO("Pendulum-v1", num_workers=0, **TINY)
    return (
        agent.learn(2 * ITERATION, log_dir=path, eval_every=2 * ITERATION, eval_steps=50) and path
    )


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


def change_header(folder: Path, **changes: Any) -> None:
    """Change checkpoint.json so that its hash still fits; `described` is of the run itself."""
    file = folder / "checkpoint" / "checkpoint.json"
    header = json.loads(file.read_text())
    header["run"] |= changes.pop("described", {})
    header |= changes
    state = folder / "checkpoint" / str(header["state"])
    content = state.read_bytes() if state.is_file() else b""
    header["sha256"] = digest_of(header, content)
    file.write_text(json.dumps(header))


# Modules.


@pytest.fixture
def evil(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run that names a module in the working directory; the file that tells of its import."""
    (tmp_path / "evil_module.py").write_text(EVIL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "evil_module", raising=False)
    gymnasium.registry.pop("Evil-v0", None)
    change_header(run, described={"env": "evil_module:Evil-v0"})
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps(config | {"env": "evil_module:Evil-v0"}))
    return tmp_path / "imported"


@pytest.mark.parametrize(
    "command",
    [
        ["evaluate", "run", "--steps", "50"],
        ["train", "--resume", "--out", "run", "--steps", str(4 * ITERATION)],
    ],
)
def test_a_command_imports_what_a_file_names_only_if_it_is_trusted(evil, capsys, command):
    assert main(command) == 2
    assert "imports the module 'evil_module', which runs its code" in capsys.readouterr().err
    assert not evil.exists()
    assert main([*command, "--trust"]) == 0
    assert evil.exists()


def test_an_agent_imports_what_a_file_names_only_if_env_says_so(evil):
    with pytest.raises(InputError, match=r"runs its code: give --trust, or env= in Python"):
        APO.load("run")
    assert not evil.exists()
    assert APO.load("run", env="evil_module:Evil-v0").steps_ == 2 * ITERATION
    assert evil.exists()


def test_a_report_films_what_a_file_names_only_if_it_is_trusted(evil):
    assert main(["report", "run", "--out", "page.html"]) == 0
    assert not evil.exists()
    assert "which runs its code" in Path("page.html").read_text()


def hostile_sweep(path: Path, *, name: str = "a", **changes: Any) -> dict[str, Any]:
    """The content of a sweep.json with a run of which something was changed."""
    [run] = short_runs(1)
    folder = SweepFolder.create(path, [run])
    content = json.loads((path / "sweep.json").read_text())
    content["runs"] = {name: content["runs"][run.name] | changes}
    (folder.path / "sweep.json").write_text(json.dumps(content))
    return content


def test_a_sweep_is_resumed_with_modules_only_if_it_is_trusted(evil, tmp_path, capsys):
    hostile_sweep(tmp_path / "sweep", env="evil_module:Evil-v0")
    assert main(["sweep", "--resume", "--out", "sweep", "--quiet"]) == 2
    assert "imports the module 'evil_module'" in capsys.readouterr().err
    assert not evil.exists()


def test_a_search_is_resumed_with_modules_only_if_it_is_trusted(evil, tmp_path, capsys):
    """Its environments are not those of its runs, which are suggested later."""
    hostile, grid = "evil_module:Evil-v0", {"epochs": [1, 2]}
    search = Design(algorithms=["apo"], envs=[hostile], steps=64, search="optuna", grid=grid)
    SweepFolder.create(tmp_path / "sweep", [], search=search)
    assert main(["sweep", "--resume", "--out", "sweep", "--quiet"]) == 2
    assert "imports the module 'evil_module'" in capsys.readouterr().err
    assert not evil.exists()
    command = SweepFolder.open(tmp_path / "sweep").resume_command()
    assert command == f"longrun sweep --resume --out {tmp_path / 'sweep'} --trust"


@pytest.mark.parametrize(
    "search",
    [None, 5, [None], {"envs": []}, {"envs": {}}, {"algorithms": 5, "envs": ["x"], "steps": 1}],
)
def test_a_search_that_lacks_something_is_damaged(tmp_path, capsys, search):
    content = hostile_sweep(tmp_path) | {"search": search}
    (tmp_path / "sweep.json").write_text(json.dumps(content))
    assert main(["sweep", "--resume", "--out", str(tmp_path), "--quiet"]) == 2
    errors = capsys.readouterr().err
    assert "sweep.json' is damaged: " in errors and errors.count("\n") == 1


# Names and sizes of files.


@pytest.mark.parametrize("name", ["../elsewhere", "/elsewhere", "..", ".", "", "a/b"])
def test_the_runs_of_a_sweep_are_in_its_folder(tmp_path, capsys, name):
    hostile_sweep(tmp_path, name=name)
    assert main(["sweep", "--resume", "--out", str(tmp_path), "--quiet"]) == 2
    assert "sweep.json' is damaged: the name of a run is" in capsys.readouterr().err


@pytest.mark.parametrize("env", [5, None, {}, []])
def test_the_runs_of_a_sweep_have_an_environment(tmp_path, capsys, env):
    hostile_sweep(tmp_path, env=env)
    assert main(["sweep", "--resume", "--out", str(tmp_path), "--quiet"]) == 2
    assert "sweep.json' is damaged: it has no valid 'env'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "state", ["/dev/zero", "../../../etc/passwd", "state-0.safetensors", 5, None, "", "."]
)
def test_the_state_of_a_checkpoint_is_a_file_that_longrun_writes(run, state):
    change_header(run, state=state)
    with pytest.raises(FolderError, match="is damaged: its state is"):
        APO.load(run)


@pytest.mark.parametrize("kind", ["link", "pipe", "device", "folder", "large"])
def test_only_regular_files_of_a_sensible_size_are_read(tmp_path, kind):
    file = tmp_path / "content.json"
    if kind == "link":
        (tmp_path / "other.json").write_text("{}")
        file.symlink_to(tmp_path / "other.json")
    elif kind == "pipe":
        os.mkfifo(file)
    elif kind == "device":
        file = Path("/dev/zero")
    elif kind == "folder":
        file.mkdir()
    else:
        with file.open("wb") as content:
            content.truncate(2**40)  # a sparse file
    with pytest.raises(FolderError, match=r"cannot be read: it is|more than 1,073,741,824"):
        read_json(file)


def test_a_size_in_the_header_that_no_file_can_have_is_harmless(run):
    change_header(run, bytes=2**70)
    assert APO.load(run).steps_ == 2 * ITERATION


@pytest.mark.parametrize("replicas", [[], {}, None, "x", [[]], [{}]])
def test_a_checkpoint_has_replicas(run, replicas):
    change_header(run, described={"replicas": replicas})
    with pytest.raises(FolderError, match="is damaged"):
        APO.load(run)


def changed_episodes() -> dict[str, Any]:
    return {
        "another array": lambda arrays: arrays.update(x=np.zeros(3)),
        "an array less": lambda arrays: arrays.pop("begun"),
        "fewer environments": lambda arrays: arrays.update(number=arrays["number"][1:]),
        "another type": lambda arrays: arrays.update(number=arrays["number"].astype(np.float32)),
        "longer states": lambda arrays: arrays.update(state_size=arrays["state_size"] + 1),
        "negative sizes": lambda arrays: arrays.update(state_size=arrays["state_size"] - 10**6),
        "negative numbers": lambda arrays: arrays.update(number=arrays["number"] - 10),
        "observations that are NaN": lambda arrays: arrays["obs"].fill(np.nan),
    }


@pytest.mark.parametrize("what", changed_episodes())
def test_the_episodes_of_a_checkpoint_have_to_fit(run, what, capsys):
    saved = checkpoint.load(run)
    arrays = {name: array.copy() for name, array in saved.snapshots[0].environments.items()}
    changed_episodes()[what](arrays)
    snapshots = [saved.snapshots[0]._replace(environments=arrays)]
    checkpoint.save(run / "checkpoint", dataclasses.replace(saved, snapshots=snapshots))
    steps = ["--steps", str(4 * ITERATION), "--quiet", "--workers", "0"]
    assert main(["train", "--resume", "--out", str(run), *steps]) == 2
    errors = capsys.readouterr().err
    assert errors.startswith("longrun: the saved environments are damaged: ")
    assert errors.count("\n") == 1


def test_a_file_of_just_the_size_is_read(tmp_path):
    file = tmp_path / "content"
    file.write_bytes(b"12345")
    assert read_bytes(file, 5) == b"12345"
    with pytest.raises(FolderError, match="has 5 bytes, more than 4"):
        read_bytes(file, 4)


def test_the_file_of_a_state_that_is_larger_than_its_header_says_is_refused(run):
    header = json.loads((run / "checkpoint" / "checkpoint.json").read_text())
    with (run / "checkpoint" / header["state"]).open("ab") as state:
        state.write(b"more")
    with pytest.raises(FolderError, match="more than"):
        APO.load(run)


# Contents.


def test_json_that_is_nested_too_deeply_is_damaged(tmp_path):
    (tmp_path / "deep.json").write_text("[" * 100_000)
    with pytest.raises(FolderError, match="is damaged"):
        read_json(tmp_path / "deep.json")


def changed_headers() -> dict[str, Any]:
    """Each changes one entry, and leaves the hash as it was."""
    return {
        "seed": lambda header: header["run"]["replicas"][0].update(seed=9),
        "option": lambda header: header["run"]["options"].update(gae_lambda=0.5),
        "env": lambda header: header["run"].update(env="MountainCarContinuous-v0"),
        "algorithm": lambda header: header["run"].update(algorithm="ppo"),
    }


@pytest.mark.parametrize("what", changed_headers())
def test_the_hash_covers_the_header(run, what):
    file = run / "checkpoint" / "checkpoint.json"
    header = json.loads(file.read_text())
    changed_headers()[what](header)
    file.write_text(json.dumps(header))
    with pytest.raises(FolderError, match="does not match its hash"):
        APO.load(run)


def test_checkpoints_of_another_format_are_refused_with_the_fix(run):
    change_header(run, format=2)
    with pytest.raises(FolderError, match=r"another version .*format 2, not 4\); train it again$"):
        APO.load(run)


def test_a_file_without_one_of_the_options_is_refused_with_the_fix(run):
    """Of a version that did not have it: what it did then is not guessed."""
    header = json.loads((run / "checkpoint" / "checkpoint.json").read_text())
    del header["run"]["options"]["gae_lambda"]
    change_header(run, described=header["run"])
    fix = "it has no option 'gae_lambda'; train it again$"
    with pytest.raises(FolderError, match=fix):
        APO.load(run)
    config = json.loads((run / "config.json").read_text())
    del config["options"]["gae_lambda"]
    (run / "config.json").write_text(json.dumps(config))
    with pytest.raises(FolderError, match=fix):
        read_results(run)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("0.state.iteration", -5, "its iteration is -5"),
        ("0.state.criterion.gain", np.nan, "values that are not finite"),
        ("0.state.params.policy.log_std", np.inf, "values that are not finite"),
    ],
)
def test_a_state_of_impossible_values_is_refused_though_its_hash_fits(run, name, value, message):
    change_tensor(run, name, value)
    with pytest.raises(FolderError, match=message):
        APO.load(run)


@pytest.mark.parametrize("value", [-0.1, 1.1])
def test_a_lambda_that_is_none_is_refused(tmp_path, value):
    options = TINY | {"rollout_steps": 100, "minibatch_size": 100}
    agent = APO("EndlessDrift-v0", num_workers=0, **options)
    agent.learn(400, log_dir=tmp_path / "run", eval_every=0)
    change_tensor(tmp_path / "run", "0.state.trace.gae_lambda", value)
    with pytest.raises(FolderError, match=f"its lambda is {value}"):
        APO.load(tmp_path / "run")


def change_tensor(run, name, value):
    """Of a checkpoint, whose hash is made to fit."""
    header = json.loads((run / "checkpoint" / "checkpoint.json").read_text())
    state = run / "checkpoint" / header["state"]
    tensors = {k: v.copy() for k, v in safetensors.numpy.load(state.read_bytes()).items()}
    tensors[name][...] = value
    state.write_bytes(safetensors.numpy.save(tensors))
    change_header(run, bytes=state.stat().st_size)


@pytest.mark.parametrize("content", ["[]", "3", '"text"', "null", "{}", "[" * 10_000])
@pytest.mark.parametrize("name", ["config.json", "checkpoint/checkpoint.json"])
def test_damaged_files_are_one_line_for_every_command(run, capsys, content, name):
    (run / name).write_text(content)
    for command in (
        ["evaluate", str(run), "--steps", "50"],
        ["train", "--resume", "--out", str(run), "--steps", str(4 * ITERATION)],
        ["compare", str(run)],
        ["plot", str(run), "--out", str(run.parent / "curves.png")],
        ["report", str(run), "--no-frames"],
    ):
        status = main(command)
        assert status in (0, 1, 2)
        errors = capsys.readouterr().err
        assert status == 0 or (errors.startswith("longrun: ") and errors.count("\n") == 1)


@pytest.mark.parametrize(
    "change",
    [
        {"replicas": []},
        {"replicas": [{}]},
        {"replicas": [{"seed": "x"}]},
        {"replicas": {"seed": 0}},
        {"options": []},
        {"env": 5},
        {"steps": "many"},
        {"algorithm": None},
    ],
)
def test_entries_of_the_wrong_type_are_named(run, capsys, change):
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps(config | change))
    for command in (["train", "--resume", "--out", str(run)], ["compare", str(run)]):
        assert main(command) == 2
        assert f"has no valid '{next(iter(change))}'" in capsys.readouterr().err
