"""Checkpoints are bit-exact, refuse other content, and survive crashes."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import safetensors.numpy
from gymnasium import spaces

from longrun import APO, ATRPO, PPO, TRPO, NonFiniteError, load_policy
from longrun.base.errors import FolderError
from longrun.learning.envs.spaces import describe
from longrun.learning.options.config_options import saved_config
from longrun.learning.runs.checkpoint_files import digest_of
from longrun.learning.train import checkpoint
from longrun.learning.train.checkpoint import Checkpoint
from longrun.learning.train.open_run import open_env
from run_specs import spec_of
from tiny_envs import ITERATION, MORTAL, MORTAL_DISCRETE, TINY, Drift, Sampler, bits


@pytest.fixture(scope="module")
def agent() -> APO:
    return APO("Drift-v0", seed=3, num_workers=0, value_constraint=0.2, **TINY).learn(2 * ITERATION)


@pytest.fixture
def saved(agent: APO, tmp_path: Path) -> Path:
    agent.save(tmp_path / "saved")
    return tmp_path / "saved"


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def state_file(folder: Path) -> Path:
    (path,) = folder.glob("state-*.safetensors")
    return path


def test_a_loaded_agent_is_bit_identical(agent, saved):
    loaded = APO.load(saved, num_workers=0)
    assert bits(loaded.snapshot) == bits(agent.snapshot)
    assert loaded.config == agent.config
    assert (loaded.seed, loaded.steps_, loaded.gain_) == (3, 2 * ITERATION, agent.gain_)
    assert repr(loaded.evaluate(50)) == repr(agent.evaluate(50))
    obs = np.array([0.3, 0.1], np.float32)
    assert loaded.predict(obs)[0] == agent.predict(obs)[0]


def test_observation_moments_are_part_of_the_model(agent, saved):
    moments = APO.load(saved).state.obs_moments
    assert bits(moments) == bits(agent.state.obs_moments)
    assert bits(moments) != bits(APO("Drift-v0", **TINY).state.obs_moments)


@pytest.mark.parametrize("kind", [APO, PPO, ATRPO, TRPO])
@pytest.mark.parametrize("env", [MORTAL, MORTAL_DISCRETE])
def test_every_algorithm_and_kind_of_action_can_be_saved_before_learning(kind, env, tmp_path):
    fresh = kind(env, **TINY)
    fresh.save(tmp_path)
    loaded = kind.load(tmp_path, env)
    assert bits(loaded.snapshot) == bits(fresh.snapshot)
    assert loaded.config == fresh.config


def test_a_checkpoint_is_json_and_safetensors_and_no_pickle(saved):
    files = content(saved)
    assert sorted(Path(name).suffix for name in files) == [".json", ".safetensors"]
    header = json.loads(files["checkpoint.json"])
    assert header["run"]["algorithm"] == "apo"
    assert header["run"]["env"] == "Drift-v0"
    tensors = safetensors.numpy.load(state_file(saved).read_bytes())
    assert tensors["0.state.params.policy.log_std"].shape == (1,)
    for name, data in files.items():
        assert not data.startswith(b"\x80"), f"{name} looks like a pickle"
        assert b"PK\x03\x04" not in data[:4], f"{name} is a zip, as torch writes them"


def test_unbounded_spaces_are_valid_json(tmp_path):
    unbounded = spaces.Box(-np.inf, np.inf, (1,), np.float32)
    env = partial(Sampler, spaces.Box(-1, 1, (2,)), unbounded)
    APO(env, **TINY).save(tmp_path)

    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    json.loads((tmp_path / "checkpoint.json").read_text(), parse_constant=refuse)
    assert APO.load(tmp_path, env).spaces == describe(env())


def test_saving_again_replaces_the_old_checkpoint(agent, saved):
    other = APO("Drift-v0", num_workers=0, **TINY)
    other.save(saved)
    assert len(content(saved)) == 2
    assert bits(APO.load(saved).snapshot) == bits(other.snapshot)


@pytest.mark.parametrize("crashes_at", ["state", "checkpoint.json"])
def test_a_crash_while_saving_leaves_the_old_checkpoint_intact(
    agent, saved, crashes_at, monkeypatch
):
    def crash(self, target):
        if Path(target).name.startswith(crashes_at):
            raise SystemError("power cut")
        return rename(self, target)

    rename = Path.replace
    monkeypatch.setattr(Path, "replace", crash)
    with pytest.raises(SystemError, match="power cut"):
        APO("Drift-v0", num_workers=0, **TINY).save(saved)
    monkeypatch.undo()
    assert bits(APO.load(saved).snapshot) == bits(agent.snapshot)
    agent.save(saved)
    assert len(content(saved)) == 2, "the next save deletes the leftover file"


def truncate(folder: Path) -> None:
    path = state_file(folder)
    path.write_bytes(path.read_bytes()[:-100])


def flip_a_byte(folder: Path) -> None:
    path = state_file(folder)
    data = bytearray(path.read_bytes())
    data[-50] ^= 1
    path.write_bytes(data)


def empty_the_state(folder: Path) -> None:
    state_file(folder).write_bytes(b"")


def remove_the_state(folder: Path) -> None:
    state_file(folder).unlink()


def remove_the_header(folder: Path) -> None:
    (folder / "checkpoint.json").unlink()


def remove_everything(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


def garbage(text: str) -> Any:
    def damage(folder: Path) -> None:
        (folder / "checkpoint.json").write_text(text)

    return damage


def edit(changes: dict[str, Any] = {}, **run: Any) -> Any:  # noqa: B006
    """Change entries of the header or of the run's description, and the hash with them."""

    def damage(folder: Path) -> None:
        header = json.loads((folder / "checkpoint.json").read_text()) | changes
        header["run"] |= run
        digest = digest_of(header, state_file(folder).read_bytes())
        (folder / "checkpoint.json").write_text(json.dumps(header | {"sha256": digest}))

    return damage


EVERY_OPTION = dataclasses.asdict(saved_config("apo", TINY))
DAMAGES = {
    "truncated state": (truncate, "damaged"),
    "flipped byte": (flip_a_byte, "damaged"),
    "empty state": (empty_the_state, "damaged"),
    "no state": (remove_the_state, "damaged"),
    "no header": (remove_the_header, "no checkpoint"),
    "no folder": (remove_everything, "no checkpoint"),
    "garbage": (garbage("\x00{]"), "damaged"),
    "half a header": (garbage('{"format": 1, "algori'), "damaged"),
    "empty header": (garbage(""), "damaged"),
    "list": (garbage("[1, 2]"), "damaged"),
    "number": (garbage("7"), "damaged"),
    "missing key": (garbage('{"format": 4}'), "damaged.*state"),
    "other format": (edit({"format": 99}), "format 99"),
    "unknown algorithm": (edit(algorithm="dqn"), "unknown algorithm 'dqn'"),
    "strange spaces": (edit({"spaces": [1]}), "damaged"),
    "strange replicas": (edit(replicas=3), "damaged"),
    "unknown option": (
        edit(options=EVERY_OPTION | {"x": 1}),
        "unknown APO option",
    ),
    "other shape": (
        edit(options=EVERY_OPTION | {"hidden_sizes": [5]}),
        "damaged",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_checkpoint_is_refused_in_one_line_and_not_changed(name, saved):
    damage, message = DAMAGES[name]
    damage(saved)
    before = content(saved)
    with pytest.raises(ValueError, match=message) as caught:
        APO.load(saved)
    assert "\n" not in str(caught.value)
    assert str(saved) in str(caught.value) or "unknown" in str(caught.value)
    assert content(saved) == before


def test_another_algorithm_is_refused(saved):
    with pytest.raises(ValueError, match=r"holds algorithm 'apo', not 'ppo'"):
        PPO.load(saved)


def test_another_environment_is_refused_by_name_and_by_its_spaces(saved, tmp_path):
    with pytest.raises(ValueError, match=r"holds environment 'Drift-v0', not 'Pendulum-v1'"):
        APO.load(saved, "Pendulum-v1")

    def env():
        return Drift()

    APO(env, **TINY).save(tmp_path / "factory")

    def env():
        return Drift(discrete=True)

    with pytest.raises(ValueError, match=r"was made for Spaces.*but 'env' now has Spaces"):
        APO.load(tmp_path / "factory", env)


def test_an_environment_without_an_id_must_be_given_again(tmp_path):
    APO(lambda: Drift(), **TINY).save(tmp_path)
    with pytest.raises(ValueError, match=r"env="):
        APO.load(tmp_path)
    assert APO.load(tmp_path, lambda: Drift()).steps_ == 0


def test_a_replica_is_chosen_by_its_number(tmp_path):
    configs = [APO(MORTAL, value_constraint=nu, **TINY).config for nu in (0.0, 0.5)]
    loop = open_env(MORTAL)
    snapshots = [loop.fresh_snapshot(c, s) for c, s in zip(configs, (4, 7), strict=True)]
    spec = replace(spec_of(configs, [4, 7], 0), env="Drift-v0")
    checkpoint.save(tmp_path, Checkpoint(spec, loop.spaces, snapshots))
    second = APO.load(tmp_path, replica=1)
    assert (second.seed, second.config.value_constraint) == (7, 0.5)
    assert bits(second.snapshot) == bits(snapshots[1])
    with pytest.raises(ValueError, match=r"replica=2 is not in .* which has 2"):
        APO.load(tmp_path, replica=2)


@pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered:RuntimeWarning")
@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize(
    "options, env",
    [({"learning_rate": 1e30}, MORTAL), ({}, partial(MORTAL, reward_scale=1e37))],
    ids=["learning rate", "reward"],
)
def test_non_finite_parameters_stop_the_run_and_the_last_finite_ones_are_kept(
    options, env, num_workers, tmp_path
):
    agent = APO(env, num_workers=num_workers, **TINY, **options)
    with pytest.raises(NonFiniteError, match=r"became non-finite in iteration \d+.*learning_rate"):
        agent.learn(30 * ITERATION, log_dir=tmp_path, eval_every=0)
    loaded = APO.load(tmp_path, env)
    assert bits(loaded.snapshot) == bits(agent.snapshot)
    for name, leaf in jax.tree_util.tree_leaves_with_path(loaded.snapshot):
        assert np.isfinite(np.asarray(leaf)).all(), jax.tree_util.keystr(name)


@pytest.mark.parametrize(
    ("places", "named"),
    [
        (["b/checkpoint", "a/checkpoint"], "; give one of the runs in it: F/a, F/b"),
        (["agent"], "; give one of the runs in it: F/agent"),
        (["runs/a/checkpoint"], "; give one of the runs in it: F/runs/a"),
        (
            [f"{n}/checkpoint" for n in range(7)],
            "; give one of the runs in it: F/0, F/1, F/2, F/3, F/4 and 2 more",
        ),
        ([], ""),
    ],
)
def test_of_a_folder_of_runs_one_is_needed(places, named, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for place in places:
        (tmp_path / "F" / place).mkdir(parents=True)
        (tmp_path / "F" / place / "checkpoint.json").touch()
    with pytest.raises(FolderError) as caught:
        load_policy("F")
    assert str(caught.value) == f"there is no checkpoint in 'F'{named}"
