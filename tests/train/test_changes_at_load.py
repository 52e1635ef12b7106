"""Fine-tuning: options and arguments of the environment that are changed when an agent is loaded;
networks of one's own, which have to be given again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from longrun import APO, ATRPO, PPO, FolderError, InputError, load_policy
from longrun.learning.agent import Agent
from tiny_envs import ITERATION, TINY, Sampler, bits


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "run"
    APO("EndlessDrift-v0", num_workers=0, **TINY).learn(3 * ITERATION, log_dir=path, eval_every=0)
    return path


def test_an_option_changed_at_load_is_used_and_the_rest_is_kept(
    saved: Path, tmp_path: Path
) -> None:
    plain, tuned = APO.load(saved, num_workers=0), APO.load(saved, num_workers=0, learning_rate=0.0)
    assert tuned.config.learning_rate == 0.0
    assert bits(tuned.snapshot) == bits(plain.snapshot)
    before = bits(tuned.state.params)
    tuned.learn(ITERATION, log_dir=tmp_path / "tuned", eval_every=0)
    assert bits(tuned.state.params) == before
    assert tuned.steps_ == 4 * ITERATION
    plain.learn(ITERATION)
    assert bits(plain.state.params) != before
    assert APO.load(tmp_path / "tuned").config.learning_rate == 0.0
    with pytest.raises(FolderError, match="already holds a run"):
        APO.load(saved, num_workers=0, learning_rate=1e-4).learn(ITERATION, log_dir=saved)


def test_another_number_of_environments(saved: Path) -> None:
    """As for a plant of which there is one, after training on many simulated ones."""
    agent = APO.load(saved, num_workers=0, num_envs=1, minibatch_size=16, scale_rewards=True)
    assert agent.steps_ == 3 * ITERATION
    assert agent.learn(32).steps_ == 3 * ITERATION + 32
    assert agent.state.criterion.reward_sum.shape == (1,)


def test_another_number_of_environments_with_limits(tmp_path: Path) -> None:
    options = TINY | {"limits": {"action_energy": 0.1}, "scale_rewards": True}
    APO("EndlessDrift-v0", num_workers=0, **options).learn(ITERATION).save(tmp_path)
    agent = APO.load(tmp_path, num_workers=0, num_envs=2).learn(32)
    (cost,) = agent.state.limits.criteria
    assert agent.state.criterion.reward_sum.shape == cost.reward_sum.shape == (2,)


def test_options_that_may_adapt_start_where_they_are_changed_to(tmp_path: Path) -> None:
    options = TINY | {"limits": {"action_energy": 0.1}, "termination": "reset"}
    APO("EndlessDrift-v0", num_workers=0, **options).learn(ITERATION).save(tmp_path)
    before = APO.load(tmp_path, learning_rate=1e-4).state.criterion
    assert float(before.reset_cost) == 0
    state = APO.load(tmp_path, reset_cost=5.0, reset_cost_step_size=0).state
    assert float(state.criterion.reset_cost) == 5
    (cost,) = state.limits.criteria
    assert float(cost.reset_cost) == 0


def test_a_lambda_can_be_freed_and_fixed(saved: Path, tmp_path: Path) -> None:
    assert APO.load(saved).state.trace is None  # rollouts are too short
    freed = APO.load(saved, num_workers=0, rollout_steps=200)
    assert float(freed.state.trace.gae_lambda) == pytest.approx(0.9)
    freed.learn(800, log_dir=tmp_path / "freed", eval_every=0)
    trace = APO.load(tmp_path / "freed").state.trace  # what was learned needs no longer one
    assert float(trace.gae_lambda) == pytest.approx(0.9) and int(trace.undecided) == 0
    fixed = APO.load(tmp_path / "freed", num_workers=0, adaptive_lambda=False)
    assert fixed.state.trace is None
    assert fixed.learn(400).state.trace is None
    given = APO.load(tmp_path / "freed", gae_lambda=0.8)
    assert given.state.trace is None and given.config.gae_lambda == 0.8


@pytest.fixture
def short_runs_adapt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("longrun.learning.options.config.FEWEST_ITERATIONS", 0)


@pytest.mark.filterwarnings("ignore:observations drift")  # they do
@pytest.mark.usefixtures("short_runs_adapt")
@pytest.mark.parametrize("kind", [APO, PPO])
def test_a_lambda_that_adapts_resumes_to_the_bit(kind: type[Agent], tmp_path: Path) -> None:
    """Stopped before lambda is chosen."""
    options = TINY | {"rollout_steps": 200, "minibatch_size": 200, "adaptive_lambda": True}
    whole, parts = (kind("EndlessDrift-v0", num_workers=0, seed=1, **options) for _ in range(2))
    size = whole.config.steps_per_iteration
    whole.learn(17 * size)
    parts.learn(8 * size, log_dir=tmp_path / "run", eval_every=0)
    parts = kind.load(tmp_path / "run", num_workers=0)
    assert int(parts.state.trace.undecided) == 7 and float(parts.state.trace.own) > 0
    parts.learn(9 * size)
    assert bits(parts.state) == bits(whole.state)
    assert int(whole.state.trace.undecided) == 0


@pytest.mark.parametrize(
    "options", [{"hidden_sizes": (9,)}, {"activation": "relu"}, {"normalize_observations": False}]
)
def test_what_the_networks_compute_cannot_be_changed(saved: Path, options: dict[str, Any]) -> None:
    (name,) = options
    with pytest.raises(InputError, match=f"{name}=.* cannot be changed at load: .* has {name}="):
        APO.load(saved, **options)
    same = {name: getattr(APO.load(saved).config, name)}
    assert APO.load(saved, **same).steps_ == 3 * ITERATION


def test_wrong_options_are_refused_as_elsewhere(saved: Path) -> None:
    with pytest.raises(InputError, match="it is called learning_rate here"):
        APO.load(saved, lr=1e-4)
    with pytest.raises(InputError, match="minibatch_size=999"):
        APO.load(saved, minibatch_size=999)


def test_the_same_environment_with_other_arguments(saved: Path, tmp_path: Path) -> None:
    agent = APO.load(saved, env_args={"reward_scale": 0.0}, num_workers=0)
    assert agent.loop.name == "EndlessDrift-v0?reward_scale=0.0"
    assert bits(agent.state) == bits(APO.load(saved).state)
    assert agent.evaluate(50).average_reward == 0.0
    agent.learn(ITERATION)
    assert agent.steps_ == 4 * ITERATION
    agent.save(tmp_path)
    assert APO.load(tmp_path).loop.name == agent.loop.name
    with pytest.raises(FolderError, match="was made for"):
        APO.load(saved, env_args={"discrete": True})
    with pytest.raises(InputError, match="cannot be made"):
        APO.load(saved, env_args={"colour": 1})


@pytest.mark.usefixtures("short_runs_adapt")
def test_a_native_environment_with_other_arguments(tmp_path: Path) -> None:
    options = {"num_envs": 2, "rollout_steps": 100, "minibatch_size": 100, "hidden_sizes": (8,)}
    agent = APO("jax:access-control", **options).learn(1200)
    assert float(agent.state.trace.own) > 0  # halves are compared on the device, too
    agent.save(tmp_path)
    other = APO.load(tmp_path, env_args={"servers": 10, "free_probability": 0.5})
    assert "free_probability=0.5" in other.loop.name
    assert bits(other.state) == bits(agent.state)
    assert agent.snapshot.environments and not other.snapshot.environments  # they start anew


# Networks of one's own.


def init(key: jax.Array, inputs: int, outputs: int) -> Any:
    one, two = jax.random.split(key)
    return {
        "in": 0.5 * jax.random.normal(one, (inputs, 6)),
        "out": [0.1 * jax.random.normal(two, (6, outputs)), jnp.zeros(outputs)],
    }


def apply(params: Any, x: jax.Array) -> jax.Array:
    weights, bias = params["out"]
    return jnp.sin(x @ params["in"]) @ weights + bias


OWN = {"policy_network": (init, apply), "value_network": (init, apply)}


@pytest.mark.parametrize(
    ("kind", "num_workers"),
    [(APO, 0), pytest.param(APO, 1, marks=pytest.mark.slow), (ATRPO, 0)],
)
def test_own_networks_learn_save_and_load(kind: Any, num_workers: int, tmp_path: Path) -> None:
    agent = kind("Drift-v0", num_workers=num_workers, **TINY | OWN)
    start = bits(agent.state.params)
    agent.learn(2 * ITERATION, log_dir=tmp_path / "run", eval_every=ITERATION, eval_steps=50)
    after = bits(agent.state.params)
    assert set(after) == set(start)
    assert all(after[name] != start[name] for name in after)
    name = f"{__name__}.apply"
    with pytest.raises(FolderError, match=f"policy_network '{name}'.*policy_network=.init, apply"):
        kind.load(tmp_path / "run")
    with pytest.raises(InputError, match="a function in JAX"):
        load_policy(tmp_path / "run")
    with pytest.raises(InputError, match="a function in JAX"):
        agent.export(tmp_path / "policy.onnx")
    again = kind.load(tmp_path / "run", **OWN)
    assert bits(again.snapshot) == bits(agent.snapshot)
    obs = np.ones(2, np.float32)
    assert np.array_equal(again.predict(obs)[0], agent.predict(obs)[0])


def test_own_networks_act_as_they_learn_and_row_by_row() -> None:
    agent = APO("Drift-v0", num_workers=0, **TINY | OWN)
    rows = np.random.default_rng(0).normal(size=(5, 2)).astype(np.float32)
    expected = np.clip(apply(agent.state.params.policy.layers, rows), -0.5, 0.5)
    found = agent.predict(rows)[0]
    # Another program, with the products of one row at a time.
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert found.tolist() == [agent.predict(row)[0].tolist() for row in rows]


@pytest.mark.slow
def test_workers_do_not_change_what_own_networks_learn() -> None:
    one, two = (APO("Drift-v0", num_workers=n, **TINY | OWN).learn(2 * ITERATION) for n in (0, 1))
    assert bits(one.state) == bits(two.state)


def test_own_networks_on_a_device() -> None:
    options = {"num_envs": 4, "rollout_steps": 16, "minibatch_size": 32}
    agent = APO("jax:criss-cross", **options | OWN)
    before = bits(agent.state.params)
    assert bits(agent.learn(64).state.params) != before


WRONG = {
    "a name": ("policy_network", "cnn", "must be 'mlp' or a pair of functions"),
    "three": ("value_network", (init, apply, apply), "must be 'mlp' or a pair of functions"),
    "shape": ("policy_network", (init, lambda params, x: x), r"it must map \[n, inputs\]"),
    "double": (
        "policy_network",
        (lambda key, i, o: jnp.zeros((i, o), jnp.int32), apply),
        "makes parameters of int32",
    ),
    "empty": ("value_network", (lambda key, i, o: (), apply), "makes parameters of no arrays"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_networks_are_refused_in_one_line(name: str) -> None:
    option, value, words = WRONG[name]
    with pytest.raises(InputError, match=words) as caught:
        APO("Drift-v0", **TINY | {option: value})
    assert "\n" not in str(caught.value)


def test_networks_that_a_checkpoint_does_not_have_are_refused(saved: Path) -> None:
    with pytest.raises(FolderError, match="has no policy_network of its own"):
        APO.load(saved, policy_network=(init, apply))


# Images.

IMAGE = spaces.Box(0, 255, (36, 30, 3), np.uint8)
BUTTONS = spaces.Discrete(2)


def test_an_image_is_refused_unless_the_networks_are_the_users(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is an image; give policy_network and value_network"):
        APO(lambda: Sampler(IMAGE, BUTTONS), **TINY)
    agent = APO(lambda: Sampler(IMAGE, BUTTONS), num_workers=0, **TINY | OWN)
    assert agent.evaluate(20).steps == 20
    agent.save(tmp_path)
    assert APO.load(tmp_path, lambda: Sampler(IMAGE, BUTTONS), **OWN).steps_ == 0


def test_a_small_board_is_no_image() -> None:
    APO(lambda: Sampler(spaces.Box(0, 255, (7, 7, 3), np.uint8), BUTTONS), **TINY)
