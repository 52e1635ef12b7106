"""The examples run at a small size, print what they say, and their environments are sound."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

FOLDER = Path(__file__).parents[1] / "examples"
ARGUMENTS = {
    "cooling": "--steps 400 --rollout-steps 40 --eval-steps 400 --search-steps 4",
    "inventory": "--steps 400 --rollout-steps 100 --eval-steps 400 --search-steps 4",
    "traffic": "--steps 512 --num-envs 8 --n 2 --eval-steps 200 --search-steps 20",
    "queueing_network": "--steps 512 --num-envs 8 --size 4",
    "deploy": "--steps 4096 --eval-steps 400 --out made",
}
EXAMPLES = [
    pytest.param(name, marks=() if name == "cooling" else pytest.mark.guide) for name in ARGUMENTS
]
NUMBER = r"\d+\.\d+"
PRINTED = {
    "cooling": rf"APO, seed 7: {NUMBER} an hour .* \(energy {NUMBER}, heat {NUMBER}\)",
    "inventory": rf"base stock .*: {NUMBER} a day\nAPO, seed 7: {NUMBER} a day \[{NUMBER}",
    "traffic": rf"fixed cycle \(\d+, \d+\): {NUMBER}(.|\n)*APO, seed 7: {NUMBER}",
    "queueing_network": rf"max weight +{NUMBER}\n  APO, seed 7 +{NUMBER}, {NUMBER} % above",
    "deploy": rf"APO, seed 7: {NUMBER}; .* fine-tuned {NUMBER}",
}


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.filterwarnings("ignore:the rewards still change")  # so few steps are all start-up
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs_at_a_small_size(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    if name == "deploy":
        pytest.importorskip("onnxruntime")
    module = example(name)
    module.run(module.parsed(f"{ARGUMENTS[name]} --seed 7 --seeds 1".split()))
    printed = capsys.readouterr().out
    assert re.search(PRINTED[name], printed), printed
    if name == "queueing_network":
        assert (tmp_path / "clinic.png").stat().st_size > 1000
    if name == "deploy":
        onnx, numpy = re.findall(r"orders at stocks of 0 to 20:(.*)", printed)
        assert onnx == numpy and len(onnx.split()) == 21
        assert "JAX was imported: False" in printed


@pytest.mark.parametrize(("name", "kind"), [("cooling", "Cooling"), ("inventory", "Inventory")])
def test_an_environment_keeps_gymnasiums_rules(name, kind):
    check_env(getattr(example(name), kind)(), skip_render_check=True)


def test_no_order_of_the_inventory_exceeds_the_room():
    module = example("inventory")
    env, rng = module.Inventory(), np.random.default_rng(0)
    seen, _ = env.reset(seed=0)
    parts = np.cumsum(module.MOST + 1)[:-1]
    for _ in range(100):
        allowed = [np.flatnonzero(mask) for mask in np.split(seen["action_mask"], parts)]
        seen = env.step(np.array([rng.choice(each) for each in allowed]))[0]
        assert (env.position() <= module.ROOM).all() and (env.stock >= 0).all()
        assert env.observation_space.contains(seen)


def test_vehicles_go_straight_on_and_wait_at_red():
    module = example("traffic")
    grid = module.Grid(2, rates=(0.0, 0.0))
    queues = jnp.zeros((2, 2, 4), jnp.int32).at[0, 0].set(jnp.array([9, 0, 5, 0]))
    state = module.Traffic(queues, jnp.zeros((2, 2), jnp.int32), jnp.int32(0))
    key, south, east = jax.random.key(0), jnp.zeros(4, jnp.int32), jnp.ones(4, jnp.int32)
    after = grid.step(key, state, south).state.queues
    assert after[0, 0].tolist() == [3, 0, 5, 0] and after[1, 0].tolist() == [6, 0, 0, 0]
    after = grid.step(key, state, east).state.queues  # the light changes
    assert after[0, 0].tolist() == [9, 0, 1, 0] and after[0, 1].tolist() == [0, 0, 4, 0]
    full = state._replace(queues=queues.at[1, 0, 0].set(module.LONGEST - 1))
    assert grid.step(key, full, south).state.queues[0, 0, 0] == 8  # one had room
    none = grid.step(key, state._replace(queues=jnp.roll(queues, 1, 0)), south).state.queues
    assert int(none.sum()) == 14 - module.GREEN  # those who leave the grid
