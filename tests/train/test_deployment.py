"""Policies without JAX and Gymnasium, and as ONNX files: equal to `agent.predict`."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

import longrun
from longrun import PPO, FolderError, InputError, load_policy
from longrun.cli import main
from longrun.learning.algorithms import agent_of
from longrun.learning.envs.flat_spaces import row_writer, width
from longrun.learning.envs.spaces import form_of, interface_of
from longrun.learning.policy.onnx_export import run_rows
from longrun.learning.runs.checkpoint_files import digest_of
from tiny_envs import ITERATION, MORTAL, TINY, Sampler

UNIT = spaces.Box(-1, 1, (2,), np.float32)
CHOICES = spaces.Dict(
    {"observation": spaces.Box(-9, 9, (3,)), "action_mask": spaces.Box(0, 1, (5,), np.int8)}
)
CASES: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "clipped": (UNIT, spaces.Box(-1.5, 1.5, (1,), np.float32), {}),
    "raw": (UNIT, spaces.Box(-0.5, 0.5, (1,), np.float32), {"action_bounds": "raw"}),
    "bounded mean": (
        UNIT,
        spaces.Box(np.float32([[-0.1, 0]]), np.float32([[0.2, 5]])),
        {"algorithm": "apo-authors", "preset": "paper"},
    ),
    "float64": (spaces.Box(-9, 9, (2, 2), np.float64), spaces.Box(-0.1, 0.1, (1,), np.float64), {}),
    "scalar": (spaces.Box(-9, 9, ()), spaces.Box(0, np.inf, (2,), np.float32), {}),
    "discrete from -1": (UNIT, spaces.Discrete(3, start=-1), {"activation": "relu"}),
    "multi-discrete": (
        UNIT,
        spaces.MultiDiscrete([[3, 2], [2, 2]], start=[[1, 0], [0, -2]]),
        {"activation": "silu"},
    ),
    "multi-binary": (UNIT, spaces.MultiBinary(3), {"layer_norm": True}),
    "masked": (CHOICES, spaces.MultiDiscrete([3, 2]), {"normalize_observations": True}),
    "no hidden layer": (UNIT, spaces.Box(-1, 1, (2,), np.float32), {"hidden_sizes": ()}),
    "dict": (
        spaces.Dict(
            {"b": spaces.Discrete(3, start=2), "a": spaces.Tuple((UNIT, spaces.MultiBinary(2)))}
        ),
        spaces.Discrete(4),
        {"layer_norm": True, "activation": "silu"},
    ),
}


def shaken(agent: Any) -> Any:
    """With weights, moments and a deviation as after some learning, without the time it takes."""
    rng = np.random.default_rng(3)
    params, moments = agent.state.params, agent.state.obs_moments
    layers = [
        tuple(np.asarray(x + 0.5 * rng.standard_normal(x.shape), np.float32) for x in layer)
        for layer in params.policy.layers
    ]
    size = moments.mean.shape
    state = agent.state._replace(
        params=params._replace(policy=params.policy._replace(layers=tuple(layers))),
        obs_moments=moments._replace(
            mean=rng.normal(size=size).astype(np.float32),
            variance=rng.uniform(0.1, 4, size).astype(np.float32),
        ),
    )
    agent.snapshot = agent.snapshot._replace(state=state)
    return agent


def case_agent(name: str) -> Any:
    observation, action, options = CASES[name]
    kind = agent_of(options.get("algorithm", "apo"))
    options = {name: value for name, value in options.items() if name != "algorithm"}
    return shaken(kind(partial(Sampler, observation, action), **TINY | options))


def sampled(space: Any, count: int) -> list[Any]:
    space.seed(0)
    rows = [space.sample() for _ in range(count)]
    for row in rows:
        if isinstance(row, dict) and "action_mask" in row:
            row["action_mask"][[0, 4]] = 1  # a choice of each component is allowed
    return rows


def require_equal(found: Any, expected: Any) -> None:
    """Choices are equal. Continuous actions may differ by rounding: the inverse deviation is
    computed by JAX in one and by NumPy in the other, a unit in the last place of float32."""
    assert np.asarray(found).dtype == np.asarray(expected).dtype
    assert np.shape(found) == np.shape(expected)
    if np.asarray(expected).dtype.kind == "f":
        np.testing.assert_allclose(found, expected, rtol=2e-6, atol=2e-6)
    else:
        assert np.array_equal(found, expected)


@pytest.mark.parametrize("name", CASES)
def test_a_policy_of_numpy_alone_acts_as_the_agent(name: str, tmp_path: Path) -> None:
    agent = case_agent(name)
    agent.save(tmp_path)
    policy = load_policy(tmp_path)
    observations = sampled(CASES[name][0], 30)
    actions = [agent.predict(obs)[0] for obs in observations]
    assert len({str(action) for action in actions}) > 1
    for obs, action in zip(observations, actions, strict=True):
        found, state = policy.predict(obs)
        assert state is None
        assert type(found) is type(action)
        require_equal(found, action)
    if isinstance(CASES[name][0], spaces.Box):
        batch = np.stack(observations)
        require_equal(policy.predict(batch)[0], agent.predict(batch)[0])


def test_stochastic_actions_are_those_of_the_agent_with_the_same_seed(tmp_path: Path) -> None:
    agent = case_agent("clipped")
    agent.save(tmp_path)
    policy, other = load_policy(tmp_path, seed=agent.seed), load_policy(tmp_path, seed=5)
    obs = np.zeros(2, np.float32)
    drawn = [[p.predict(obs, deterministic=False)[0] for _ in range(20)] for p in (policy, agent)]
    require_equal(np.array(drawn[0]), np.array(drawn[1]))
    assert other.predict(obs, deterministic=False)[0] != drawn[0][0]


@pytest.mark.parametrize("name", CASES)
def test_an_onnx_file_acts_as_the_agent(name: str, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    agent = case_agent(name)
    file = tmp_path / "policy.onnx"
    agent.export(file)
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    space = CASES[name][0]
    observations = sampled(space, 30)
    rows = np.zeros((30, agent.spaces.observation_size), np.float32)
    for obs, row in zip(observations, rows, strict=True):
        row_writer(form_of(space))(obs, row)
    found = run_rows(session, agent.spaces, interface_of(agent.loop), rows)
    expected = np.array([agent.predict(obs)[0] for obs in observations])
    assert found.dtype == expected.dtype
    if expected.dtype.kind == "f":  # sums of a few dozen products in another order
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    else:
        assert np.array_equal(found, expected)
    for info, shape in zip(session.get_outputs(), [agent.action_space.shape], strict=True):
        assert info.shape[1:] == list(shape or ())


def test_an_onnx_file_that_differs_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxruntime")
    monkeypatch.setattr(longrun.learning.policy.onnx_export, "OBSERVATION_LIMIT", 0.1)
    with pytest.raises(longrun.LongrunError, match="does not act as the policy"):
        case_agent("clipped").export(tmp_path / "policy.onnx")
    assert not list(tmp_path.iterdir())


def test_the_command_exports_a_replica(tmp_path: Path, capsys: Any) -> None:
    pytest.importorskip("onnxruntime")
    case_agent("discrete from -1").save(tmp_path / "agent")
    out = tmp_path / "p.onnx"
    assert main(["export", str(tmp_path / "agent"), "--out", str(out)]) == 0
    assert out.stat().st_size > 500
    assert main(["export", str(tmp_path / "agent"), "--replica", "3"]) == 2
    assert "replica=3 is not in" in capsys.readouterr().err


@pytest.mark.parametrize("missing", ["onnx", "onnxruntime"])
def test_a_missing_package_is_named_in_one_line(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(InputError, match="pip install onnx onnxruntime"):
        case_agent("clipped").export(tmp_path / "policy.onnx")


def test_a_policy_needs_neither_jax_nor_gymnasium(tmp_path: Path) -> None:
    """Of the replica of a run, in a process in which importing them fails."""
    agent = PPO(MORTAL, num_workers=0, **TINY)
    agent.learn(ITERATION, log_dir=tmp_path / "run", eval_every=0)
    code = f"""
import sys
for name in ("jax", "gymnasium", "scipy", "optax"):
    sys.modules[name] = None
import longrun
print(longrun.load_policy({str(tmp_path / "run")!r}).predict([0.5, 1.0])[0].tolist())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    require_equal(
        np.float32(json.loads(done.stdout)), agent.predict(np.array([0.5, 1.0], np.float32))[0]
    )


@pytest.mark.parametrize("name", ["clipped", "float64", "scalar", "masked", "dict"])
def test_rows_are_flat_as_those_of_gymnasium(name: str) -> None:
    space = CASES[name][0]
    form = json.loads(json.dumps(form_of(space)))
    row = np.ones(width(form), np.float32)
    for obs in sampled(space, 10):
        row_writer(form)(obs, row)
        assert row.tolist() == spaces.flatten(space, obs).astype(np.float32).tolist()


WRONG_OBSERVATIONS = {
    "clipped": np.zeros(3),
    "dict": {"a": (np.zeros(2), np.zeros(2))},
    "masked": np.zeros(8),
}


@pytest.mark.parametrize("name", WRONG_OBSERVATIONS)
def test_a_wrong_observation_is_one_line(name: str, tmp_path: Path) -> None:
    agent = case_agent(name)
    agent.save(tmp_path)
    for policy in (load_policy(tmp_path), agent):
        with pytest.raises(InputError, match="an observation"):
            policy.predict(WRONG_OBSERVATIONS[name])


BOTH = {"action_mask": np.ones(5, np.int8), "observation": np.array([0, 0, np.nan], np.float32)}
NOT_FINITE = {
    "clipped": ([0, np.nan], "component 1 of the observation is nan; .* replace"),
    "scalar": (-np.inf, "component 0 of the observation is -inf"),
    "no hidden layer": (np.array([[0, 1], [np.inf, 0]]), "component 0 of row 1 of .* is inf"),
    "masked": (BOTH, "component 7 of the observation is nan"),
    "dict": ([{"a": ([0, np.nan], [0, 1]), "b": 3}], "component 1 of row 0 of .* is nan"),
}


@pytest.mark.parametrize("name", NOT_FINITE)
def test_an_observation_that_is_not_finite_gets_no_action(name: str, tmp_path: Path) -> None:
    agent = case_agent(name)
    agent.save(tmp_path)
    obs, words = NOT_FINITE[name]
    for policy in (load_policy(tmp_path), agent):
        for deterministic in (True, False):
            with pytest.raises(InputError, match=words):
                policy.predict(obs, deterministic)


def test_a_mask_that_forbids_every_choice_gets_no_action(tmp_path: Path) -> None:
    """Of one component, too: the choices of the case are 3 and 2."""
    agent = case_agent("masked")
    agent.save(tmp_path)
    wrong = {
        (0, 0, 0, 0, 0): "the observation forbids every choice of component 0; let each mask",
        (0, 0, 1, 0, 0): "the observation forbids every choice of component 1; let each mask",
    }
    for policy in (load_policy(tmp_path), agent):
        for mask, words in wrong.items():
            obs = {"action_mask": np.int8(mask), "observation": np.zeros(3, np.float32)}
            fine = obs | {"action_mask": np.int8([0, 1, 0, 0, 1])}
            for deterministic in (True, False):
                with pytest.raises(InputError, match=f"the action mask of {words}"):
                    policy.predict(obs, deterministic)
                assert policy.predict(fine, deterministic)[0].tolist() == [1, 1]
            with pytest.raises(InputError, match="the action mask of row 1 of the observations"):
                policy.predict([fine, obs])


@pytest.mark.parametrize("name", CASES)
def test_what_reset_returns_is_no_observation(name: str, tmp_path: Path) -> None:
    agent = case_agent(name)
    agent.save(tmp_path)
    (obs,) = sampled(CASES[name][0], 1)
    for policy in (load_policy(tmp_path), agent):
        with pytest.raises(
            InputError, match=r"reset\(\) returns \(obs, info\): .* pass obs"
        ) as found:
            policy.predict((obs, {}))
        assert "\n" not in str(found.value)


@pytest.mark.parametrize("obs", [{"a": 1}, None, "abc", [1, [2, 3]], ["a", "b"]])
def test_an_observation_that_is_no_array_is_named_by_its_type(obs: Any, tmp_path: Path) -> None:
    agent = case_agent("clipped")
    agent.save(tmp_path)
    words = f"of type {type(obs).__name__} is not an array of numbers; .* shape \\(2,\\)$"
    for policy in (load_policy(tmp_path), agent):
        with pytest.raises(InputError, match=words):
            policy.predict(obs)


@pytest.mark.parametrize("obs", [{"a": 1}, None, "abc", np.nan, 3, -1])
def test_a_wrong_choice_is_refused(obs: Any) -> None:
    with pytest.raises(InputError, match="is not in its Discrete space"):
        row_writer({"kind": "Discrete", "n": 3, "start": 0})(obs, np.zeros(3, np.float32))


def test_a_wrong_part_of_an_observation_is_named() -> None:
    form = form_of(spaces.Dict(level=spaces.Box(0, 1, (2,)), mode=spaces.Discrete(3)))
    write, row = row_writer(form), np.zeros(5, np.float32)
    with pytest.raises(InputError, match=r"an observation 7 is not in .* \(in 'mode'\)$"):
        write({"level": np.zeros(2), "mode": 7}, row)
    with pytest.raises(InputError, match=r"shape \(3,\) does not fit .* \(in 'level'\)$"):
        write({"level": np.zeros(3), "mode": 1}, row)


def test_a_policy_says_what_it_is(tmp_path: Path) -> None:
    case_agent("clipped").save(tmp_path)
    assert repr(load_policy(tmp_path)).startswith("Policy('")
    assert repr(load_policy(tmp_path)).endswith(", algorithm='apo')")


def rewritten(folder: Path, **changes: Any) -> None:
    """A header with other entries, and a hash that fits."""
    header = json.loads((folder / "checkpoint.json").read_text()) | changes
    header["sha256"] = digest_of(header, (folder / header["state"]).read_bytes())
    (folder / "checkpoint.json").write_text(json.dumps(header))


BOX = {"kind": "Box", "shape": [2], "dtype": "float32"}
DAMAGED = {
    "no spaces": ({"interface": None}, "damaged"),
    "wide": ({"interface": {"observation": BOX, "action": BOX}}, "do not fit"),
    "object": (
        {"interface": {"observation": BOX, "action": BOX | {"shape": [1], "dtype": "O"}}},
        "do not fit",
    ),
    "nothing": ({"interface": {}}, "is missing"),
    "text": ({"interface": "Box"}, "damaged"),
    "other file": ({"state": "../state-0123456789abcdef.safetensors"}, "its state is"),
    "format": ({"format": 9}, "format 9, not 4"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_checkpoint_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    case_agent("clipped").save(tmp_path)
    changes, words = DAMAGED[name]
    if name == "other file":
        header = json.loads((tmp_path / "checkpoint.json").read_text()) | changes
        (tmp_path / "checkpoint.json").write_text(json.dumps(header))
    else:
        rewritten(tmp_path, **changes)
    with pytest.raises(FolderError, match=words):
        load_policy(tmp_path)


def test_other_networks_than_the_options_say_are_refused(tmp_path: Path) -> None:
    case_agent("clipped").save(tmp_path)
    header = json.loads((tmp_path / "checkpoint.json").read_text())
    header["run"]["options"]["hidden_sizes"] = [9]
    rewritten(tmp_path, run=header["run"])
    with pytest.raises(FolderError, match=r"layers\[0\]\[0\] is float32\(2, 8\)"):
        load_policy(tmp_path)
