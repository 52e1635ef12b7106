"""APO and PPO as the code of the paper's authors has them: two algorithms beside the four."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats
from test_advantages import ROLLOUT, ZERO_VALUES, columns, criterion_targets, rows
from test_advantages import fresh as start_of_criterion
from test_learner import (
    BOX,
    SMALL,
    fresh,
    leaves,
    quick_update,
    random_rollout,
    shuffles,
    two_steps,
)

from longrun.lab.paper.authors import weighted_mean
from longrun.learning.algorithms import agent_of
from longrun.learning.envs.spaces import Spaces
from longrun.learning.learn import learner
from longrun.learning.learn.types import Networks
from paper_config import paper_config
from quick import QUICK
from tiny_envs import ITERATION, TINY, Drift, bits

FORGIVING = partial(Drift, limit=9, wall=1.5, forgiving=True)
BOTH: Any = pytest.mark.parametrize("algorithm", ["apo", "ppo"])


# --- the algorithms --------------------------------------------------------------------------


@BOTH
def test_an_agent_resumes_bit_identically(algorithm: str, tmp_path: Path) -> None:
    kind = agent_of(f"{algorithm}-authors")
    options: dict[str, Any] = TINY | {"preset": "paper", "num_workers": 0}
    whole = kind(FORGIVING, **options).learn(4 * ITERATION)
    kind(FORGIVING, **options).learn(2 * ITERATION).save(tmp_path)
    loaded = kind.load(tmp_path, FORGIVING, num_workers=2).learn(2 * ITERATION)
    assert bits(loaded.snapshot) == bits(whole.snapshot)
    assert loaded.state.opt_state.value == ()


def test_what_the_authors_code_does_not_have_is_refused() -> None:
    for name, value in (("termination", "reset"), ("limits", {"fuel": 0.1})):
        with pytest.raises(ValueError, match=rf"^{name}=.* is not in the authors' code"):
            paper_config("apo-authors", **{name: value})


# --- criteria --------------------------------------------------------------------------------


@BOTH
def test_a_time_limit_is_a_termination(algorithm: str) -> None:
    options = {"gae_lambda": 0.5} | ({"discount": 0.5} if algorithm == "ppo" else {})
    config = paper_config(f"{algorithm}-authors", **options)
    values = ZERO_VALUES._replace(successor=rows([2, 99, 5], [2, 99, 5], [2, 3, 5]))
    targets, _ = criterion_targets(config, start_of_criterion(config), ROLLOUT, values)
    # The first two environments have the same numbers, as worked out in test_advantages.py.
    terminated = {"apo": [-1, -4, 4], "ppo": [1.5, -2, 3.5]}[algorithm]
    going_on = {"apo": [1.5, 1, 4], "ppo": [2.09375, 0.375, 3.5]}[algorithm]
    assert columns(targets.advantage) == [terminated, terminated, going_on]


def test_a_discount_besides_the_gain() -> None:
    config = paper_config("apo-authors", gae_lambda=0.5, value_discount=0.5, value_constraint=0.25)
    targets, state = criterion_targets(config, start_of_criterion(config), ROLLOUT, ZERO_VALUES)
    # gain 2. First row: 2 - 2 + 2/2 - 1 = 0.   Last row: 4 - 2 + 5/2 - 3 = 1.5.
    # Second row: terminated or time limit -2 - 2 = -4; else -2 + 3/2 - 2 = -2.5.
    # Later advantages weigh 1/4.
    # ended:      1.5 | -4                       | 0 - 4/4 = -1
    # continuing: 1.5 | -2.5 + 1.5/4 = -2.125    | 0 - 2.125/4 = -.53125
    expected = [[-1, -4, 1.5], [-1, -4, 1.5], [-0.53125, -2.125, 1.5]]
    assert columns(targets.advantage) == expected
    assert (float(state.gain), float(state.offset)) == (2, 2)


def test_apo_with_the_gain_frozen_at_0_is_ppo_to_the_bit() -> None:
    options = {"gain_step_size": 0, "value_constraint": 0, "value_discount": 0.9}
    apo, ppo = paper_config("apo-authors", **options), paper_config("ppo-authors", discount=0.9)
    frozen = start_of_criterion(apo)._replace(started=jnp.ones((), bool))
    average, _ = criterion_targets(apo, frozen, ROLLOUT, ZERO_VALUES)
    discounted, _ = criterion_targets(ppo, start_of_criterion(ppo), ROLLOUT, ZERO_VALUES)
    assert np.array_equal(average.advantage, discounted.advantage)
    assert np.array_equal(average.value_target, discounted.value_target)


# --- samples at time limits count in no loss -------------------------------------------------


def test_a_weighted_mean() -> None:
    values, weights = jnp.asarray([1.0, 2.0, 9.0]), jnp.asarray([1.0, 1.0, 0.0])
    assert float(weighted_mean(values, weights)) == 1.5
    assert float(weighted_mean(values, 0 * weights)) == 0.0  # none counts: no loss, and no NaN


def test_losses_are_means_over_the_samples_that_count() -> None:
    config, state, rollout = two_steps("apo-authors", learning_rate=0.0)
    no, yes = np.zeros((2, 1), bool), np.array([[False], [True]])
    rollout = rollout._replace(terminated=no, truncated=yes)
    spaces = Spaces(1, 1, (2,))
    orders = Networks(*2 * [np.tile(np.arange(2, dtype=np.int32), (config.epochs, 1))])
    after, metrics = quick_update(config, spaces, state, rollout, orders, 0.0)
    # Gain 2; TD errors 4 - 2 + 2 - 1 = 3 and 0 - 2 + 0 - 2 = -4; the first advantage is 3 - 4/2.
    assert float(metrics["value_loss"]) == 0.03125  # 1 + 1 - .75 against 1: .25^2 / 2, of one alone
    assert float(metrics["policy_loss"]) == -1.0
    ((weights, bias),) = after.params.policy.layers
    logits = rollout.obs[:, 0] @ np.asarray(weights) + np.asarray(bias)
    entropies = np.asarray(stats.entropy(special.softmax(logits, axis=1), axis=1))
    assert abs(entropies[0] - entropies[1]) > 0.01
    assert float(metrics["entropy"]) == pytest.approx(entropies[0], rel=1e-5)


# --- PyTorch's initial weights ---------------------------------------------------------------


def test_initial_weights_as_torch_draws_them() -> None:
    config = paper_config("apo-authors", hidden_sizes=(400, 900))
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


def one_step(scale: float) -> tuple[Any, Any]:
    """The state after a single minibatch, with rewards of this scale."""
    config = paper_config("ppo-authors", **SMALL | {"epochs": 1, "minibatch_size": 16})
    orders, rollout = shuffles(0, config), random_rollout(0, config, BOX)
    rollout = rollout._replace(reward=np.float32(scale) * rollout.reward)
    return quick_update(config, BOX, fresh(config, BOX), rollout, orders, 0.0)


def gradient(opt_state: Any) -> Any:
    """The clipped gradient of the first step: Adam's first moment is a tenth of it."""
    [moments] = [x for x in opt_state if hasattr(x, "mu")]
    return np.asarray(moments.mu) * 10


def test_a_joint_optimiser_clips_by_the_norm_of_both_gradients() -> None:
    free, metrics = one_step(scale=0.1)
    assert free.opt_state.value == ()
    assert 0 < np.linalg.norm(gradient(free.opt_state.policy)) < 10
    clipped, _ = one_step(scale=1e4)
    found = gradient(clipped.opt_state.policy)
    assert np.linalg.norm(found) == pytest.approx(10, rel=1e-4)
    sizes = [sum(x.size for x in leaves(part)) for part in free.params]
    assert found.size == sum(sizes)
    assert {"policy_loss", "value_loss", "policy_finite", "value_finite"} <= set(metrics)


def test_the_host_trains_both_in_one_program(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any) -> Any:
        raise AssertionError("the networks are trained apart")

    monkeypatch.setattr(learner, "fit_value", never)
    monkeypatch.setattr(learner, "improve_policy", never)
    together, update = [], learner.update

    def spied(*given: Any) -> Any:
        together.append(given)
        return update(*given)

    monkeypatch.setattr(learner, "update", spied)
    agent_of("apo-authors")(FORGIVING, num_workers=0, preset="paper", **TINY).learn(3 * ITERATION)
    assert len(together) == 1 + 3  # the first compiles


def test_replicas_with_a_joint_optimiser_can_be_vmapped() -> None:
    configs = [paper_config("ppo-authors", **SMALL, discount=x) for x in (0.5, 0.9)]
    orders, rollout = shuffles(0, configs[0]), random_rollout(0, configs[0], BOX)
    alone = [quick_update(c, BOX, fresh(c, BOX), rollout, orders, 0.0)[0] for c in configs]

    def stack(trees: Any) -> Any:
        return jax.tree.map(lambda *x: jnp.stack(x), *trees)

    together = jax.jit(
        jax.vmap(lambda c, s, r, o: learner.update(c, BOX, s, r, o)), compiler_options=QUICK
    )
    states = [fresh(config, BOX) for config in configs]
    found, _ = together(*(stack(x) for x in (configs, states, [rollout] * 2, [orders] * 2)))
    for one, other in zip(leaves(found), leaves(stack(alone)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
