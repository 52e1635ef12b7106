"""Different problems are never seeds of one, whatever their environments are called."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fake_runs import change_config, fake_run
from longrun import APO, read_results
from longrun.cli import main
from tiny_envs import ITERATION, TINY, TINY_FLAGS, Drift


def made_with(scale: float) -> Any:
    return lambda: Drift(reward_scale=scale)


def learned(path: Path, env: Any, seed: int, **more: Any) -> Path:
    agent = APO(env, seed=seed, num_workers=0, **TINY, **more)
    agent.learn(ITERATION, log_dir=path, eval_every=ITERATION, eval_steps=50)
    return path


def test_runs_of_different_problems_are_different_tasks(tmp_path: Path) -> None:
    for k, (scale, seed) in enumerate([(0.1, 0), (0.5, 1), (0.1, 2)]):
        learned(tmp_path / str(k), made_with(scale), seed)
    found = {(s.env, s.seeds) for s in read_results(tmp_path)}
    assert found == {("Drift(reward_scale=0.1)", (0, 2)), ("Drift(reward_scale=0.5)", (1,))}


def test_a_name_tells_what_belongs_together(tmp_path: Path) -> None:
    for k, (scale, name) in enumerate([(0.1, "a"), (0.5, "b"), (0.7, "b")]):
        learned(tmp_path / str(k), made_with(scale), k, name=name)
    found = {(s.label, s.seeds) for s in read_results(tmp_path)}
    assert found == {("a", (0,)), ("b", (1, 2))}
    assert APO.load(tmp_path / "0", Drift, num_workers=0).spec.name == "a"


def test_the_same_id_with_other_arguments_is_another_task(tmp_path: Path) -> None:
    for seed, mark in enumerate("aab"):
        run = fake_run(tmp_path / str(seed), {100: 1.0}, seeds=[seed])
        change_config(run, env_source={"identity": mark})
    found = {(s.env, s.seeds) for s in read_results(tmp_path)}
    assert found == {("Drift-v0 #a", (0, 1)), ("Drift-v0 #b", (2,))}


@pytest.mark.parametrize("name", ["", "two\nlines", 3, "x" * 101])
def test_a_name_is_a_short_line(name: Any) -> None:
    with pytest.raises(ValueError, match="name="):
        APO(Drift, name=name, **TINY)


def test_the_command_line_names_a_run(tmp_path: Path) -> None:
    command = ["train", "apo", "--env", "Drift-v0", "--steps", "64", "--out", str(tmp_path / "run")]
    more = ["--eval-steps", "50", "--workers", "0", "--name", "baseline"]
    assert main([*command, *more, *TINY_FLAGS]) == 0
    assert [s.label for s in read_results(tmp_path / "run")] == ["baseline"]
