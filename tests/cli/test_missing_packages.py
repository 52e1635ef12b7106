"""Without the extras `plot` and `mujoco` the rest works, and what needs them says so in a line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from longrun import cli


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A process in which neither Matplotlib nor MuJoCo can be imported; an empty folder."""
    for name in [*sys.modules, "matplotlib", "mujoco"]:
        if name.split(".")[0] in ("matplotlib", "mujoco"):
            monkeypatch.setitem(sys.modules, name, None)
    for name in list(sys.modules):  # modules of ours that imported them before
        if name in DRAWING:
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


DRAWING = (
    "longrun.base.picture_files",
    "longrun.lab.paper.figures",
    "longrun.lab.policy_map.picture",
    "longrun.lab.results.plot_style",
    "longrun.lab.results.plots",
)
TRAIN = "train apo --env CartPole-v1 --steps 8 --num-envs 2 --rollout-steps 4 --minibatch-size 4"


def test_training_tables_and_exact_solutions_need_neither(bare: Path) -> None:
    words = f"{TRAIN} --hidden-sizes 2 --epochs 1 --eval-steps 4 --workers 0 --out run --quiet"
    assert cli.main(words.split()) == 0
    for words in (
        "evaluate run --steps 10",
        "compare run",
        "solve riverswim",
        "report run --no-frames",
    ):
        assert cli.main(words.split()) == 0, words


@pytest.mark.parametrize(
    "words",
    [
        "plot nowhere",
        "map nowhere",
        "solve criss-cross --size 3 --map policy.png",
        "reproduce figure1 --scale smoke --out figures",
    ],
)
def test_figures_name_their_extra(
    words: str, bare: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(words.split()) == 2
    error = capsys.readouterr().err
    assert error == "longrun: figures need a package; pip install matplotlib\n"
    assert not (bare / "figures").exists()


def test_robots_name_their_extra(bare: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = "train apo --env Swimmer-v5 --steps 10 --workers 0 --out run"
    assert cli.main(words.split()) == 2
    error = capsys.readouterr().err
    assert "environment 'Swimmer-v5' cannot be made" in error
    assert error.endswith("pip install 'gymnasium[mujoco]'\n")
    assert error.count("\n") == 1
