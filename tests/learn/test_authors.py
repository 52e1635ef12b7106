"""Differences of the authors' code from the paper: each option alone, and all of them."""

from __future__ import annotations

import dataclasses
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats
from test_learner import (
    BOX,
    SMALL,
    fresh,
    iterate,
    leaves,
    quick_update,
    random_rollout,
    shuffles,
    two_steps,
)

from longrun import APO, PPO
from longrun.learning.envs.spaces import Spaces
from longrun.learning.learn import learner, preparation
from longrun.learning.learn.types import Networks, Rollout
from longrun.learning.learn.weights import weighted_mean
from longrun.learning.options.config import APOConfig
from longrun.learning.options.presets import PRESETS
from longrun.learning.train.host.replica import Replica
from paper_config import paper_config
from quick import QUICK
from tiny_envs import ITERATION, TINY, Drift, bits

FORGIVING = partial(Drift, limit=9, wall=1.5, forgiving=True)
CUT_OFF = {"time_limit": "as_termination"}


# --- the list --------------------------------------------------------------------------------


def test_the_authors_preset_is_the_papers_and_five_options() -> None:
    paper, authors = paper_config("apo"), paper_config("apo", "authors")
    changed = {"bounded_mean", "time_limit", "initialisation", "joint_optimizer"}
    assert {
        o.name
        for o in dataclasses.fields(paper)
        if getattr(paper, o.name) != getattr(authors, o.name)
    } == changed
    assert set(PRESETS["authors"]) == changed | {"action_bounds"}
    # The trust-region step has no gradient to join; the authors have two optimisers there, too.
    assert paper_config("atrpo", "authors").time_limit == "as_termination"


@pytest.mark.parametrize("kind", [APO, PPO])
def test_an_agent_with_all_options_resumes_bit_identically(kind: Any, tmp_path: Path) -> None:
    options: dict[str, Any] = TINY | {"preset": "authors", "num_workers": 0}
    whole = kind(FORGIVING, **options).learn(4 * ITERATION)
    kind(FORGIVING, **options).learn(2 * ITERATION).save(tmp_path)
    loaded = kind.load(tmp_path, FORGIVING, num_workers=2).learn(2 * ITERATION)
    assert bits(loaded.snapshot) == bits(whole.snapshot)
    assert loaded.state.opt_state.value == ()


def test_time_limits_as_terminations_exclude_continuing_through_resets() -> None:
    with pytest.raises(ValueError, match=r"time_limit='as_termination' .*termination='zero'$"):
        APOConfig(time_limit="as_termination", termination="reset")


# --- samples at time limits count in no loss -------------------------------------------------


def test_a_weighted_mean() -> None:
    values, weights = jnp.asarray([1.0, 2.0, 9.0]), jnp.asarray([[1.0], [1.0], [0.0]])
    assert float(weighted_mean(values, weights)) == 1.5
    assert float(weighted_mean(values, weights[:, :0])) == 4.0
    assert float(weighted_mean(values, 0 * weights)) == 0.0  # none counts: no loss, and no NaN


@pytest.mark.parametrize("algorithm", ["apo", "atrpo"])
@pytest.mark.parametrize("time_limit", ["bootstrap", "as_termination"])
def test_targets_at_a_time_limit_matter_only_where_it_bootstraps(
    algorithm: str, time_limit: str
) -> None:
    config = paper_config(algorithm, **SMALL, time_limit=time_limit)
    rollout, orders = random_rollout(0, config, BOX), shuffles(0, config)
    batch, state, _ = preparation.prepare(config, BOX, fresh(config, BOX), rollout)
    cut_off = np.asarray(rollout.truncated).ravel()
    assert cut_off.any()
    lied_to = batch._replace(
        advantage=jnp.where(cut_off, 50.0, batch.advantage),
        value_target=jnp.where(cut_off, 50.0, batch.value_target),
    )
    for train in (
        lambda b: learner.improve_policy(config, BOX, state, b, orders.policy, 0.0).params,
        lambda b: learner.fit_value(config, state, b, orders.value, 0.0).params,
    ):
        same = all(map(np.array_equal, leaves(train(batch)), leaves(train(lied_to))))
        assert same == (time_limit == "as_termination")


def test_losses_are_means_over_the_samples_that_count() -> None:
    config, state, rollout = two_steps(learning_rate=0.0, **CUT_OFF)
    no, yes = np.zeros((2, 1), bool), np.array([[False], [True]])
    rollout = rollout._replace(terminated=no, truncated=yes)
    spaces = Spaces(1, 1, (2,))
    batch, state, _ = preparation.prepare(config, spaces, state, rollout)
    # Gain 2; TD errors 4 - 2 + 2 - 1 = 3 and 0 - 2 + 0 - 2 = -4; the first advantage is 3 - 4/2.
    assert batch.advantage.tolist() == [1, -4]
    assert batch.weight.tolist() == [[1], [0]]
    order = np.tile(np.arange(2, dtype=np.int32), (config.epochs, 1))
    _, _, metrics = learner.fit_value(config, state, batch, order, 0.0)
    assert float(metrics["value_loss"]) == 0.03125  # 1 + 1 - .75 against 1: .25^2 / 2, of one alone
    policy, _, metrics = learner.improve_policy(config, spaces, state, batch, order, 0.0)
    assert float(metrics["policy_loss"]) == -1.0
    entropies = entropies_of(policy, batch.features)
    assert abs(entropies[0] - entropies[1]) > 0.01
    assert float(metrics["entropy"]) == pytest.approx(entropies[0], rel=1e-5)


def entropies_of(policy: Any, features: Any) -> np.ndarray:
    """[n] of a policy with one choice and no hidden layer."""
    ((weights, bias),) = policy.layers
    return np.asarray(stats.entropy(special.softmax(features @ weights + bias, axis=1), axis=1))


def test_a_trust_region_reports_the_entropy_where_samples_count() -> None:
    config, spaces = paper_config("atrpo", **SMALL, **CUT_OFF), Spaces(3, 1, (4,))
    rollout, order = random_rollout(0, config, spaces), shuffles(0, config).policy
    batch, state, _ = preparation.prepare(config, spaces, fresh(config, spaces), rollout)
    policy, _, metrics = learner.improve_policy(config, spaces, state, batch, order, 0.0)
    entropies = entropies_of(policy, batch.features)[~rollout.truncated.ravel()]
    assert float(metrics["entropy"]) == pytest.approx(entropies.mean(), rel=1e-5)


def test_advantages_are_standardised_by_the_samples_that_count() -> None:
    config = paper_config("ppo", **SMALL, **CUT_OFF, normalize_advantages=True)
    rollout = random_rollout(0, config, BOX)
    batch, _, _ = preparation.prepare(config, BOX, fresh(config, BOX), rollout)
    counted = np.asarray(batch.advantage)[~rollout.truncated.ravel()]
    assert counted.mean() == pytest.approx(0, abs=1e-6)
    assert counted.std() == pytest.approx(1, rel=1e-5)
    assert np.asarray(batch.advantage).std() != pytest.approx(1, rel=1e-3)


# --- PyTorch's initial weights ---------------------------------------------------------------


def test_initial_weights_as_torch_draws_them() -> None:
    config = paper_config("apo", hidden_sizes=(400, 900), initialisation="torch")
    params = learner.init(config, BOX, jax.random.key(0)).params
    for layers, outputs in ((params.policy.layers, 2), (params.value, 1)):
        assert [w.shape for w, _ in layers] == [(3, 400), (400, 900), (900, outputs)]
        for weights, bias in layers:
            reach = weights.shape[0] ** -0.5
            for drawn in (np.asarray(weights), np.asarray(bias)):
                assert np.abs(drawn).max() <= reach
                if drawn.size > 300:  # uniform: of this standard deviation, up to the edges
                    assert drawn.std() == pytest.approx(reach / np.sqrt(3), rel=0.1)
                    assert np.abs(drawn).max() > 0.98 * reach
        assert len({float(bias[0]) for _, bias in layers}) == 3


# --- one optimiser for both networks ---------------------------------------------------------


def one_step(joint: bool, norm: float) -> tuple[Any, Any]:
    """The state after a single minibatch, with the same order of samples for both networks."""
    options = SMALL | {"epochs": 1, "minibatch_size": 16, "max_grad_norm": norm}
    config = paper_config("ppo", **options, joint_optimizer=joint)
    order = shuffles(0, config).policy
    rollout = random_rollout(0, config, BOX)
    return quick_update(config, BOX, fresh(config, BOX), rollout, Networks(order, order), 0.0)


def momentum(opt_state: Any) -> Any:
    """Adam's first moment after one step: a tenth of the clipped gradient."""
    [mu] = [
        s.mu
        for s in jax.tree.leaves(opt_state, is_leaf=lambda s: hasattr(s, "mu"))
        if hasattr(s, "mu")
    ]
    return np.asarray(mu) * 10


def test_a_joint_optimiser_clips_by_the_norm_of_both_gradients() -> None:
    free, _ = one_step(joint=False, norm=1e9)
    gradients = [momentum(part) for part in free.opt_state]
    both = np.linalg.norm(np.concatenate(gradients))
    alone, _ = one_step(joint=False, norm=0.125)
    for part in alone.opt_state:
        assert np.linalg.norm(momentum(part)) == pytest.approx(0.125, rel=1e-4)
    joint, metrics = one_step(joint=True, norm=0.125)
    assert joint.opt_state.value == ()
    clipped = momentum(joint.opt_state.policy)
    assert np.linalg.norm(clipped) == pytest.approx(0.125, rel=1e-4)
    np.testing.assert_allclose(
        clipped, np.concatenate(gradients) * 0.125 / both, rtol=1e-4, atol=1e-6
    )
    assert {"policy_loss", "value_loss", "policy_finite", "value_finite"} <= set(metrics)


def test_a_joint_optimiser_that_never_clips_is_two_on_the_same_minibatches() -> None:
    options = SMALL | {"max_grad_norm": 1e9}
    after = []
    for joint in (True, False):
        config = paper_config("apo", **options, joint_optimizer=joint)
        state = fresh(config, BOX)
        for seed in range(3):
            order = shuffles(seed, config).policy
            rollout = random_rollout(seed, config, BOX)
            state, _ = quick_update(config, BOX, state, rollout, Networks(order, order), 0.0)
        after.append(leaves(state.params))
    for one, other in zip(*after, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_a_joint_optimiser_recomputes_targets_too() -> None:
    options = SMALL | {"max_grad_norm": 1e9, "recompute_advantages": True, "epochs": 3}
    after = []
    for joint in (True, False):
        config = paper_config("apo", **options, joint_optimizer=joint)
        order = shuffles(0, config).policy
        rollout = random_rollout(0, config, BOX)
        start = fresh(config, BOX)
        state, _ = quick_update(config, BOX, start, rollout, Networks(order, order), 0.0)
        after.append(leaves(state.params))
    for one, other in zip(*after, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    once = paper_config("apo", **options | {"recompute_advantages": False}, joint_optimizer=True)
    state, _ = quick_update(
        once, BOX, fresh(once, BOX), random_rollout(0, once, BOX), Networks(order, order), 0.0
    )
    assert (
        max(np.abs(a - b).max() for a, b in zip(after[0], leaves(state.params), strict=True)) > 1e-4
    )


def test_the_host_trains_both_in_one_program(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any) -> Any:
        raise AssertionError("the networks are trained apart")

    monkeypatch.setattr(learner, "fit_value", never)
    monkeypatch.setattr(learner, "improve_policy", never)
    together: list[Rollout] = []
    improve = Replica._improve_both

    def spied(self: Replica, rollout: Rollout, *others: Any) -> Any:
        together.append(rollout)
        return improve(self, rollout, *others)

    monkeypatch.setattr(Replica, "_improve_both", spied)
    APO(FORGIVING, num_workers=0, **TINY, joint_optimizer=True).learn(3 * ITERATION)
    assert len(together) == 3


def test_replicas_with_a_joint_optimiser_can_be_vmapped() -> None:
    configs = [paper_config("ppo", **SMALL, joint_optimizer=True, max_grad_norm=n) for n in (1, 9)]
    alone = [iterate(config, BOX, fresh(config, BOX), seed=0)[0] for config in configs]

    def stack(trees: Any) -> Any:
        return jax.tree.map(lambda *x: jnp.stack(x), *trees)

    together = jax.jit(
        jax.vmap(lambda c, s, r, o: learner.update(c, BOX, s, r, o)), compiler_options=QUICK
    )
    facts = [random_rollout(0, configs[0], BOX)] * 2, [shuffles(0, configs[0])] * 2
    states = [fresh(config, BOX) for config in configs]
    found, _ = together(*(stack(x) for x in (configs, states, *facts)))
    for one, other in zip(leaves(found), leaves(stack(alone)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
