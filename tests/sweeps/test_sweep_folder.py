"""The folder of a sweep: extensions, other sweeps, files of other versions."""

from __future__ import annotations

import dataclasses
import json

import pytest

from fake_workers import ENV, some_runs
from longrun.base.errors import LongrunError
from longrun.base.files import FolderLock
from longrun.lab.sweeps import run_sweep as start
from longrun.lab.sweeps.design import Design
from longrun.lab.sweeps.sweep_folder import SweepFolder
from longrun.learning.runs.run_folder import RunFolder


def names(folder: SweepFolder) -> list[str]:
    return list(folder.runs)


def test_a_sweep_is_extended_by_new_runs(tmp_path):
    first = SweepFolder.create(tmp_path / "sweep", some_runs(seeds=[0]))
    grid = {"apo.gae_lambda": [0.8, 0.9]}
    both = Design(algorithms=["apo", "ppo"], envs=[ENV], steps=128, seeds=[0, 1], grid=grid)
    grown = SweepFolder.create(tmp_path / "sweep", both.runs())
    assert names(grown) == [
        *names(first),
        "tiny_envs-Drift-v0_ppo_seed0",
        "tiny_envs-Drift-v0_apo_gae_lambda=0.8_seed1",
        "tiny_envs-Drift-v0_apo_gae_lambda=0.9_seed1",
        "tiny_envs-Drift-v0_ppo_seed1",
    ]
    assert grown.token == first.token
    opened = SweepFolder.open(tmp_path / "sweep")
    assert opened.runs == grown.runs


def test_a_sweep_is_extended_in_steps_unless_the_learning_rate_decays(tmp_path):
    for decays in (False, True):
        path = tmp_path / f"sweep{int(decays)}"
        fixed = {"learning_rate_decay": decays}
        SweepFolder.create(path, some_runs(fixed=fixed))
        longer = some_runs(steps=256, fixed=fixed)
        if decays:
            hint = r"has steps=128, not 256 \(a run that decays, or whose lambda adapts only if"
            with pytest.raises(ValueError, match=hint):
                SweepFolder.create(path, longer)
        else:
            SweepFolder.create(path, longer)
        wanted = 128 if decays else 256
        assert {run.steps for run in SweepFolder.open(path).runs.values()} == {wanted}


def test_a_sweep_whose_lambda_adapts_is_extended_in_steps_if_lambda_adapts_in_both(tmp_path):
    sizes = {"num_envs": 1, "rollout_steps": 100, "minibatch_size": 50}
    fixed = {"learning_rate_decay": False, "adaptive_lambda": True, **sizes}

    def extend(name, steps):
        runs = some_runs(steps=steps, fixed=fixed)
        return SweepFolder.create(tmp_path / name, runs)

    extend("short", 20_000)
    extend("short", 29_900)
    hint = r"has steps=29900, not 30000 \(a run that decays, or whose lambda adapts only if it is"
    with pytest.raises(ValueError, match=hint):
        extend("short", 30_000)
    extend("long", 30_000)
    assert {run.steps for run in extend("long", 60_000).runs.values()} == {60_000}


def test_replicas_are_joined_only_on_a_device(tmp_path, monkeypatch):
    runs = some_runs(env="jax:tandem", grid={}, seeds=[0, 1])
    folder = SweepFolder.create(tmp_path / "sweep", runs)
    assert names(folder) == ["jax-tandem_apo_seed0", "jax-tandem_apo_seed1"]
    for backend, on_device in (("cpu", False), ("gpu", True)):
        monkeypatch.setattr(start, "default_backend", lambda backend=backend: backend)
        assert start.on_device(["Swimmer-v5", "jax:tandem"]) == on_device
        assert not start.on_device(["Swimmer-v5"])


def test_a_device_that_does_not_answer_is_one_line(monkeypatch):
    monkeypatch.setattr(start, "DEVICE_SECONDS", 0.01)
    start.default_backend.cache_clear()
    with pytest.raises(LongrunError, match=r"^JAX has not found its devices within 0.01 seconds; "):
        start.default_backend()


def test_a_joined_sweep_is_extended_by_separate_runs(tmp_path):
    for seeds in ([0, 1], [0, 1, 2, 3], [0, 1, 2, 3, 4], [0, 1, 2, 3, 4]):
        runs = some_runs(env="jax:tandem", grid={}, seeds=seeds)
        folder = SweepFolder.create(tmp_path / "sweep", runs, batched=True)
    assert names(folder) == [
        "jax-tandem_apo_2-replicas",
        "jax-tandem_apo_2-replicas-2",
        "jax-tandem_apo_seed4",
    ]
    assert [run.seeds for run in folder.runs.values()] == [(0, 1), (2, 3), (4,)]


def test_a_sweep_that_was_killed_while_its_folder_was_made_can_be_started_again(tmp_path):
    (tmp_path / ".sweep.json.123").touch()
    SweepFolder.create(tmp_path, some_runs())
    assert not (tmp_path / ".sweep.json.123").exists()


def test_a_folder_of_something_else_is_not_changed(tmp_path):
    (tmp_path / "notes").touch()
    (tmp_path / ".sweep.json.123").touch()
    with pytest.raises(ValueError, match="is not empty and is not a sweep folder"):
        SweepFolder.create(tmp_path, some_runs())
    assert sorted(path.name for path in tmp_path.iterdir()) == [".sweep.json.123", "notes"]


def test_a_folder_where_another_process_makes_a_sweep_is_refused(tmp_path):
    with FolderLock(tmp_path), pytest.raises(ValueError, match="is being written by another"):
        SweepFolder.create(tmp_path, some_runs())
    assert not (tmp_path / "sweep.json").exists()


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"steps": 64}, "seed0' has steps=128, not 64"),
        ({"fixed": {"num_envs": 8}}, "seed0' has num_envs=4, not 8"),
        ({"eval_every": 64}, "seed0' has eval_every=None, not 64"),
        ({"seeds": [1]}, "gae_lambda=0.8_seed0' is not part of this one"),
        ({"grid": {}}, "gae_lambda=0.8_seed0' is not part of this one"),
    ],
)
def test_another_sweep_in_the_folder_is_not_changed(changes, why, tmp_path):
    SweepFolder.create(tmp_path, some_runs(fixed={"num_envs": 4}))
    before = (tmp_path / "sweep.json").read_bytes()
    with pytest.raises(ValueError) as caught:
        SweepFolder.create(tmp_path, some_runs(**{"fixed": {"num_envs": 4}} | changes))
    assert f"{tmp_path}' holds another sweep: " in str(caught.value)
    assert why in str(caught.value)
    resume = f"resume it with longrun sweep --resume --out {tmp_path}"
    assert f"choose another --out, or {resume}" in str(caught.value)
    assert (tmp_path / "sweep.json").read_bytes() == before


def test_a_sweep_by_another_preset_is_refused_and_says_which(tmp_path):
    SweepFolder.create(tmp_path, some_runs(preset="paper", seeds=[0]))
    before = (tmp_path / "sweep.json").read_bytes()
    with pytest.raises(ValueError) as caught:
        SweepFolder.create(tmp_path, some_runs(seeds=[0]))
    assert "holds another sweep: " in str(caught.value) and "\n" not in str(caught.value)
    hint = "gae_lambda=0.8_seed0' has preset=paper, not tuned; choose"
    assert hint in str(caught.value)
    assert (tmp_path / "sweep.json").read_bytes() == before


def test_a_joined_run_of_another_preset_is_refused_by_its_preset_too(tmp_path):
    """Its name is none of those of its replicas."""
    runs = {p: some_runs(env="jax:tandem", grid={}, preset=p) for p in ("paper", "tuned")}
    SweepFolder.create(tmp_path, runs["paper"], batched=True)
    for batched in (True, False):
        with pytest.raises(ValueError, match=r"2-replicas' has preset=paper, not tuned; ch"):
            SweepFolder.create(tmp_path, runs["tuned"], batched=batched)
    grown = SweepFolder.create(tmp_path, runs["paper"], batched=True)
    assert names(grown) == ["jax-tandem_apo_paper_2-replicas"]


def test_a_run_never_takes_the_folder_of_another(tmp_path):
    """An ablation of what the first sweep had in all of its runs has a setting of that name."""
    SweepFolder.create(tmp_path, some_runs(settings=[{}], fixed={"epochs": 3}))
    ablation = some_runs(settings=[{}, {"epochs": 3}], fixed={})
    with pytest.raises(ValueError, match=r"'tiny_envs-Drift-v0_apo_seed0' is a run with other opt"):
        SweepFolder.create(tmp_path, ablation)


@pytest.mark.parametrize("changes", [{"format": 3}, {"format": 5}, {"format": None, "meaning": 4}])
def test_a_sweep_of_another_version_is_refused(changes, tmp_path):
    SweepFolder.create(tmp_path, some_runs())
    content = json.loads((tmp_path / "sweep.json").read_text())
    (tmp_path / "sweep.json").write_text(json.dumps(content | changes))
    with pytest.raises(LongrunError, match=r"of another version of longrun; choose another --out"):
        SweepFolder.open(tmp_path)


def test_an_option_with_the_presets_value_may_be_given_or_not(tmp_path):
    first = SweepFolder.create(tmp_path, some_runs("ppo")).runs
    for fixed in ({}, {"adaptive_lambda": False}):
        assert SweepFolder.create(tmp_path, some_runs("ppo", fixed=fixed)).runs == first
    other = {"adaptive_lambda": True, "rollout_steps": 100}
    with pytest.raises(ValueError, match="has adaptive_lambda=False, not True"):
        SweepFolder.create(tmp_path, some_runs("ppo", fixed=other))


def test_a_run_folder_belongs_only_to_a_sweep_with_its_options(tmp_path):
    new = SweepFolder.create(tmp_path, some_runs(preset="paper", seeds=[0]))
    [(name, run), *_] = new.runs.items()
    clips = dataclasses.replace(run.configs[0], action_bounds="clip")
    there = dataclasses.replace(run, configs=(clips,))
    RunFolder.create(new.folder(name), there, {"identity": run.env})
    with pytest.raises(ValueError, match="another sweep: it has action_bounds=clip, not raw"):
        new.require_own(name)
    new.runs[name] = there
    new.require_own(name)
