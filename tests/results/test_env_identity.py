"""Different problems are never seeds of one, whatever their environments are called."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fake_runs import change_config, fake_run
from longrun import APO, read_results
from longrun.cli import main
from longrun.envs.env_source import env_source
from longrun.queueing import Network, QueueingEnv
from tiny_envs import ITERATION, TINY, TINY_FLAGS, Drift

SCALE = 1.0


def source(env: Any) -> dict[str, Any]:
    return env_source(env, env() if callable(env) else env)


def made_with(scale: float) -> Any:
    return lambda: Drift(reward_scale=scale)


class Other(Drift):
    def step(self, action: Any) -> Any:
        obs, reward, *rest = super().step(action)
        return obs, reward - 1.0, *rest


def of_a_global() -> Drift:
    return Drift(reward_scale=SCALE)


def shop(cost: float) -> Any:
    return QueueingEnv(
        Network(
            name="shop",
            arrivals=(0.3,),
            stations=(((0, 1.0),),),
            routing=((),),
            holding_costs=(cost,),
        ),
        idling=True,
    )


DIFFERENT = {
    "network": lambda: (shop(1.0), shop(2.0)),
    "partial": lambda: (partial(Drift, reward_scale=0.1), partial(Drift, reward_scale=0.5)),
    "lambda": lambda: (lambda: Drift(reward_scale=0.1), lambda: Drift(reward_scale=0.5)),
    "closure": lambda: (made_with(0.1), made_with(0.5)),
    "instance": lambda: (Drift(reward_scale=0.1), Drift(reward_scale=0.5)),
    "class": lambda: (Drift, type("Drift", (Other,), {})),
}


@pytest.mark.parametrize("kind", DIFFERENT)
def test_what_was_made_differently_has_another_fingerprint(kind: str) -> None:
    one, other = DIFFERENT[kind]()
    assert source(one)["fingerprint"] != source(other)["fingerprint"]
    again, _ = DIFFERENT[kind]()
    assert source(one)["fingerprint"] == source(again)["fingerprint"]


def test_a_global_number_is_part_of_the_fingerprint(monkeypatch: Any) -> None:
    before = source(of_a_global)["fingerprint"]
    monkeypatch.setitem(globals(), "SCALE", 2.0)
    assert source(of_a_global)["fingerprint"] != before


def test_the_source_names_what_made_an_environment() -> None:
    found = source(partial(Drift, 9, wall=1.5))
    assert found["made_by"] == "tiny_envs.Drift"
    assert found["arguments"] == ["9", "wall=1.5"]
    assert found["attributes"]["wall"] == 1.5
    json.dumps(found)


def test_anything_may_be_in_an_environment() -> None:
    odd = Drift()
    odd.itself = odd  # type: ignore[attr-defined]
    odd.file, odd.set = open, {1, 2}  # type: ignore[attr-defined]
    odd.bad = type("Bad", (), {"__repr__": lambda self: 1 / 0})()  # type: ignore[attr-defined]
    odd.token = "secret"  # type: ignore[attr-defined]
    assert "secret" not in json.dumps(source(odd))


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
    assert APO.load(tmp_path / "0", Drift, num_workers=0).name == "a"


def test_runs_of_earlier_versions_without_an_id_are_not_merged(tmp_path: Path) -> None:
    for seed in (0, 1):
        fake_run(tmp_path / f"named-{seed}", {100: 1.0}, seeds=[seed])
        fake_run(tmp_path / f"queue-{seed}", {100: 1.0}, seeds=[seed], env="Queue")
    found = {(s.env, s.seeds) for s in read_results(tmp_path)}
    assert found == {("Drift-v0", (0, 1)), ("Queue (queue-0)", (0,)), ("Queue (queue-1)", (1,))}


def test_an_id_from_before_there_were_fingerprints_is_the_same(tmp_path: Path) -> None:
    for seed in (0, 1):
        fake_run(tmp_path / str(seed), {100: 1.0}, seeds=[seed])
    change_config(tmp_path / "1", env_source={"fingerprint": "a"})
    assert [(s.env, s.seeds) for s in read_results(tmp_path)] == [("Drift-v0", (0, 1))]


def test_the_same_id_with_other_arguments_is_another_task(tmp_path: Path) -> None:
    for seed, mark in enumerate("aab"):
        run = fake_run(tmp_path / str(seed), {100: 1.0}, seeds=[seed])
        change_config(run, env_source={"fingerprint": mark})
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
