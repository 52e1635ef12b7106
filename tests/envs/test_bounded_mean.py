"""Policies with a bounded mean, and files of versions before the options existed."""

from __future__ import annotations

import hashlib
import json
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces as gym_spaces

from longrun import APO, ATRPO, PPO
from longrun.cli import main
from longrun.config_options import make_config
from longrun.envs.numpy_policy import NumpyPolicy
from longrun.envs.spaces import Spaces
from longrun.learn import learner
from longrun.learn.acting import act, policy_outputs
from longrun.learn.types import Policy
from longrun.results.read import read_results
from longrun.train.host.replica import flat_weights
from tiny_envs import ITERATION, MORTAL, TINY, Drift, Sampler, bits

LOW, HIGH = np.array([-0.5, 0.0], np.float32), np.array([0.5, 3.0], np.float32)
UNEVEN = Spaces(2, 2, (), tuple(LOW.tolist()), tuple(HIGH.tolist()))
FORGIVING = partial(Drift, limit=9, wall=1.5, forgiving=True)


def bounded_policy(seed: int = 0) -> tuple[Any, Any]:
    config = make_config("ppo", hidden_sizes=(8,), bounded_mean=True)
    state = learner.init(config, UNEVEN, jax.random.key(seed))
    rng = np.random.default_rng(seed)
    params = jax.tree.map(lambda x: jnp.asarray(rng.normal(0, 0.5, x.shape), x.dtype), state.params)
    return config, state._replace(params=params)


def test_numpy_and_jax_agree_on_a_bounded_mean() -> None:
    config, state = bounded_policy()
    obs = np.random.default_rng(1).normal(0, 2, (500, 2)).astype(np.float32)
    numpy_policy = NumpyPolicy(UNEVEN, (8,), False, flat_weights(state), bounded_mean=True)
    mine = numpy_policy.act(obs, None)
    np.testing.assert_allclose(
        mine, act(config, UNEVEN, state, jnp.asarray(obs), None), rtol=1e-5, atol=1e-6
    )
    assert ((mine >= LOW) & (mine <= HIGH)).all()
    assert np.ptp(mine, axis=0).min() > 0.1
    free = NumpyPolicy(UNEVEN, (8,), False, flat_weights(state)).act(obs, None)
    np.testing.assert_allclose(mine, [0, 1.5] + np.array([0.5, 1.5]) * np.tanh(free), rtol=1e-5)


def test_a_gradient_flows_through_the_bounded_mean() -> None:
    policy = Policy(((jnp.zeros((2, 2)), jnp.array([0.0, np.log(3) / 2])),), jnp.zeros(2))
    config = make_config("ppo", bounded_mean=True)

    def means(bias: jax.Array) -> jax.Array:
        changed = policy._replace(layers=((policy.layers[0][0], bias),))
        return policy_outputs(config, UNEVEN, changed, jnp.zeros(2), jnp.zeros(0))

    # reach * (1 - tanh^2): 1/2 and 3/2 * 3/4
    slope = jnp.diagonal(jax.jacobian(means)(policy.layers[0][1]))
    np.testing.assert_allclose(slope, [0.5, 1.125], rtol=1e-5)


@pytest.mark.parametrize("kind", [APO, PPO, pytest.param(ATRPO, marks=pytest.mark.slow)])
def test_a_bounded_mean_is_learned_and_resumed_bit_identically(kind, tmp_path) -> None:
    options = TINY | {"action_bounds": "raw", "bounded_mean": True}
    whole = kind(FORGIVING, num_workers=0, **options).learn(4 * ITERATION)
    kind(FORGIVING, num_workers=0, **options).learn(2 * ITERATION).save(tmp_path)
    loaded = kind.load(tmp_path, FORGIVING, num_workers=2)
    assert (loaded.config.action_bounds, loaded.config.bounded_mean) == ("raw", True)
    loaded.learn(2 * ITERATION)
    assert bits(loaded.snapshot) == bits(whole.snapshot)
    assert abs(whole.predict(np.array([9.0, 9.0], np.float32))[0]) <= 0.5


def test_a_bounded_mean_changes_what_is_learnt() -> None:
    """By the whole loop; tests/learn/test_learner.py has the update of every algorithm."""
    options = TINY | {"action_bounds": "raw", "num_workers": 0}
    agents = [APO(FORGIVING, **options, bounded_mean=bounded) for bounded in (True, False)]
    bounded, free = (bits(agent.learn(4 * ITERATION).snapshot) for agent in agents)
    assert bounded != free


@pytest.mark.parametrize(
    "space",
    [
        gym_spaces.Box(-np.inf, np.inf, (1,), np.float32),
        gym_spaces.Box(-1, np.inf, (1,), np.float32),
    ],
)
def test_a_bounded_mean_needs_bounds(space) -> None:
    env = partial(Sampler, gym_spaces.Box(-1, 1, (2,)), space)
    with pytest.raises(ValueError, match=r"bounded_mean=True needs finite .*bounded_mean=False$"):
        APO(env, bounded_mean=True)
    APO(env, bounded_mean=False)


# --- files of earlier versions ---------------------------------------------------------------


def forget_options(path: Path) -> None:
    """Rewrite a file as an earlier version would have written it."""
    content = json.loads(path.read_text())
    for part in (content, *content["replicas"]):
        for name in ("action_bounds", "bounded_mean"):
            part.get("options", {}).pop(name, None)
    if "sha256" in content:  # a checkpoint; its hash was of the state alone
        state = path.with_name(content["state"]).read_bytes()
        content |= {"format": 2, "sha256": hashlib.sha256(state).hexdigest()}
    path.write_text(json.dumps(content))


def test_an_old_checkpoint_has_a_policy_that_clips_and_has_a_free_mean(tmp_path) -> None:
    agent = APO(MORTAL, num_workers=0, **TINY).learn(ITERATION)
    agent.save(tmp_path)
    forget_options(tmp_path / "checkpoint.json")
    old = APO.load(tmp_path, MORTAL, num_workers=0)
    assert old.config == agent.config
    assert bits(old.learn(ITERATION).snapshot) == bits(agent.learn(ITERATION).snapshot)


@pytest.mark.parametrize("has_checkpoint", [True, False])
def test_an_old_run_resumes_and_is_labelled_with_its_options(has_checkpoint, tmp_path) -> None:
    whole, old, new = (tmp_path / name for name in ("whole", "old", "new"))
    steps = ["--steps", str(2 * ITERATION), "--eval-every", str(ITERATION), "--eval-steps", "50"]
    flags = [*steps, "--workers", "0", "--num-envs", "4", "--rollout-steps", "16"]
    flags += ["--hidden-sizes", "8", "--epochs", "2", "--minibatch-size", "32", "--quiet"]
    command = ["train", "apo", "--env", "Drift-v0", *flags, "--preset", "paper"]
    for path in (whole, old):
        assert main([*command, "--action-bounds", "clip", "--out", str(path)]) == 0
    if has_checkpoint:
        forget_options(old / "checkpoint" / "checkpoint.json")
    else:
        for file in (*(old / "checkpoint").iterdir(), old / "metrics.csv", old / "evaluations.csv"):
            file.unlink()
    forget_options(old / "config.json")
    for path in (whole, old):
        more = str((3 if has_checkpoint else 2) * ITERATION)
        assert main(["train", "--resume", "--out", str(path), "--quiet", "--steps", more]) == 0
    assert bits(APO.load(old).snapshot) == bits(APO.load(whole).snapshot)

    command[3] = "KindDrift-v0"
    assert main([*command, "--out", str(new)]) == 0
    labels = [setting.label for setting in read_results([old, new])]
    assert "action_bounds=clip" in labels[0]
    assert "action_bounds=raw" in labels[1]
    assert read_results([old])[0].label == read_results([whole])[0].label
