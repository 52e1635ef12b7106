"""Environments and models of the user, named as module:function on the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from longrun import APO, read_results
from longrun.cli import main
from longrun.learning.envs import env_strings
from tiny_envs import TINY, TINY_FLAGS

MODULE = '''
"""Somebody's plant."""
import numpy as np
from longrun.tabular import MDP
from tiny_envs import Drift

class Plant(Drift):
    def __init__(self, limit=9, wall=1.5):
        super().__init__(limit=limit, wall=wall)

def make(limit: int = 9):
    return Drift(limit=limit, wall=1.5)

def native():
    from longrun.learning.envs.builtin_envs import make_builtin
    return make_builtin("access-control", {})

def model(stay: float = 0.5, rewards: tuple[float, ...] = (0.0, 1.0), lazy: bool = False):
    """Two states; action 1 moves."""
    law = np.array([[[1, 0], [stay, 1 - stay]], [[0, 1], [1 - stay, stay]]])
    return MDP(law, [[rewards[0]] * 2, [rewards[1] - lazy] * 2], name="two")

def unannotated(stay=0.5):
    return model(stay)

def needed(stay):
    return model(stay)

def boxed(size=8):
    """A queue and a flag: 2 (size + 1) states in a row."""
    def successors(state, action):
        n, flag = state
        return [(0.4, (min(n + 1, size), 1 - flag), -n), (0.6, (max(n - 1, 0), flag), -n)]

    return MDP.from_function(successors, [(n, f) for n in range(size + 1) for f in (0, 1)], 1)

def listed(size=(3, 4)):
    return model()

def wrong():
    return 3

MODEL = model()
NUMBER = 7
'''


@pytest.fixture
def plant(tmp_path: Path, monkeypatch: Any) -> Iterator[Path]:
    import sys

    (tmp_path / "own_plant.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("own_plant", None)


def train(plant: Path, env: str, *more: str, algorithm: str = "apo") -> Path:
    out = plant / "run"
    command = ["train", algorithm, "--env", env, "--steps", "64", "--eval-steps", "50"]
    assert main([*command, "--out", str(out), *TINY_FLAGS, *more]) == 0
    return out


@pytest.mark.parametrize(
    "name, workers", [("Plant", "0"), pytest.param("make", "1", marks=pytest.mark.slow)]
)
def test_a_function_or_class_is_an_environment(plant: Path, name: str, workers: str) -> None:
    out = train(plant, f"own_plant:{name}", "--env-args", "limit=7", "--workers", workers)
    assert json.loads((out / "config.json").read_text())["env"] == f"own_plant:{name}?limit=7"
    assert main(["train", "--resume", "--out", str(out), "--steps", "128", "--quiet"]) == 0
    (setting,) = read_results(out)
    assert setting.env == f"own_plant:{name}?limit=7"


def test_models_and_jax_environments_are_made_by_functions_too(plant: Path) -> None:
    assert APO("own_plant:model", num_workers=0, **TINY).evaluate(50).steps == 50
    agent = APO("own_plant:native", **TINY)
    assert agent.loop.name == "own_plant:native"
    agent.save(plant / "agent")
    assert APO.load(plant / "agent").loop.name == "own_plant:native"


def test_a_map_of_an_environment_of_a_module(plant: Path, capsys: Any) -> None:
    """It may have an exact model, so that the message does not say that it has none."""
    APO("own_plant:model", num_workers=0, **TINY).save(plant / "agent")
    assert main(["map", str(plant / "agent")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("longrun: no map is drawn of 'own_plant:model'")
    assert (
        "in Python, longrun.lab.policy_map.exact_comparison.compare_policies(mdp, policy)" in line
    )


def test_a_module_that_a_file_names_is_not_imported_without_trust(
    plant: Path, capsys: Any, monkeypatch: Any
) -> None:
    import sys

    out = train(plant, "own_plant:make", "--workers", "0")
    sys.modules.pop("own_plant")
    assert main(["evaluate", str(out), "--steps", "50"]) == 2
    assert "--trust" in capsys.readouterr().err
    assert "own_plant" not in sys.modules
    assert main(["evaluate", str(out), "--steps", "50", "--trust"]) == 0


SOLVED = {
    "own_plant:MODEL": 1.0,
    "own_plant:model": 1.0,
    "own_plant:model --rewards 0 3 --stay 0.25": 3.0,
    "own_plant:model --lazy": 0.0,
    "own_plant:unannotated --stay 0.25": 1.0,
    "own_plant:needed --stay 0.25": 1.0,
}


@pytest.mark.parametrize("command", SOLVED)
def test_a_model_of_ones_own_is_solved(plant: Path, command: str, capsys: Any) -> None:
    assert main(["solve", *command.split(), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["gain"] == pytest.approx(SOLVED[command], abs=1e-6)


@pytest.mark.parametrize(("more", "sizes"), [([], [4, 6, 8]), (["--size", "16"], [8, 12, 16])])
def test_the_size_of_a_model_is_its_argument(
    plant: Path, more: list[str], sizes: list[int], capsys: Any
) -> None:
    """Not the length of a side: its states need not be arranged as a box."""
    command = ["solve", "own_plant:boxed", *more, "--check-truncation", "--json"]
    assert main(command) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["states"] == 2 * (sizes[-1] + 1)
    assert report["truncation"]["sizes"] == sizes
    assert report["truncation"]["gains"][-1] == report["gain"]


WRONG = {
    "solve own_plant:listed --check-truncation": "--check-truncation is for models with a --size",
    "solve own_plant:nothing": "module 'own_plant' has no 'nothing'; it has",
    "solve own_plant:NUMBER": "'own_plant:NUMBER' is 7; it must be an MDP",
    "solve own_plant:wrong": "solve needs an MDP, and 3 is a int; give a model",
    "solve own_plant:needed": "--stay",
    "solve own_plant:model --stay much": "--stay",
    "solve no_such_plant:model": "No module named 'no_such_plant'",
    "train apo --env own_plant:nothing": "has no 'nothing'",
    "train apo --env own_plant:NUMBER": "is 7; it must be an environment",
    "train apo --env own_plant:wrong": "makes a int",
    "train apo --env own_plant:make --env-args lmit=3": "unexpected keyword argument 'lmit'",
    "train apo --env no_such_plant:make": "No module named 'no_such_plant'; start in the folder",
    "train apo --env no_such_plant:Plant-v0": "start in the folder that has no_such_plant.py, or",
    "train apo --env own_plant:Plant-v0": "exist; write own_plant:Plant, or register the id",
    "train apo --env own_plant:Tree-v0": "write own_plant:Class, or register the id",
    "train apo --env own_plant": "unknown environment 'own_plant'; for an environment of your own",
}


@pytest.mark.parametrize("command", WRONG)
def test_wrong_names_are_one_line(plant: Path, command: str, capsys: Any) -> None:
    assert main(command.split()) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert WRONG[command] in line
    assert len(line) < 300


def test_the_working_directory_hides_no_module(plant: Path) -> None:
    (plant / "json.py").write_text("raise RuntimeError('hidden')")
    assert env_strings.named_object("json:dumps") is json.dumps
