"""Limits on costs while learning: multipliers, combined advantages, a policy that keeps them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from longrun import APO, ATRPO, TRPO
from longrun.base.errors import InputError
from longrun.cli import main
from longrun.exact.tabular.models import access_control
from longrun.learning.envs.native import Step
from longrun.learning.envs.native.control import AccessControl
from longrun.learning.envs.native.to_gymnasium import as_gymnasium
from longrun.learning.learn import limits
from longrun.learning.learn.criteria import Targets, Values
from longrun.learning.learn.limits import (
    combined,
    cost_batch,
    init_limits,
    learn_limits,
    prices,
    with_spread,
)
from longrun.learning.learn.moments import Moments
from longrun.learning.learn.types import Rollout
from longrun.tabular import solve
from one_state_env import OneState
from paper_config import paper_config
from tiny_envs import ITERATION, TINY, Drift, bits


def rollout_with(cost: float, steps: int = 2) -> Rollout:
    """Steps of two environments that never end, with a constant cost."""
    facts = np.zeros((steps, 2, 1), np.float32)
    flags = np.zeros((steps, 2), bool)
    reward = np.zeros((steps, 2), np.float32)
    costs = np.full((steps, 2, 1), cost, np.float32)
    return Rollout(facts, facts, reward, facts, flags, flags, facts[0], costs)


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain dual ascent, without the proportional part."""
    monkeypatch.setattr(limits, "PROPORTIONAL", 0.0)


@pytest.fixture
def proportional(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """The proportional part alone, of 2: options for it."""
    monkeypatch.setattr(limits, "PROPORTIONAL", 2e6)
    return {"limit_step_size": 1e-6}


def controlled(rates: list[float], steps: int = 2, **options: Any) -> tuple[list[float], Any]:
    """The multiplier after batches with these rates, under a limit of 0.5; the last state."""
    sizes = {"num_envs": 2, "rollout_steps": steps, "minibatch_size": 2}
    config = paper_config("apo", limits={"cost": 0.5}, **sizes, **options)
    state, found = init_limits(config), []
    zeros = jnp.zeros((steps, 2))
    for rate in rates:
        rollout = rollout_with(rate, steps)
        state = learn_limits(config, state, rollout, [Values(zeros, zeros, zeros)])
        found.append(float(state.controller.multiplier[0]))
    return found, state


@pytest.mark.usefixtures("plain")
def test_dual_ascent_rises_above_the_limit_and_falls_below_to_zero():
    rates = [0.75, 0.75, 0.5, 0.25, 0.0, 0.0, 0.75]
    found, state = controlled(rates, limit_step_size=0.1)
    # What is far below a limit for long gives no credit for later.
    assert found == pytest.approx([0.05, 0.1, 0.1, 0.05, 0.0, 0.0, 0.05])
    gain = 0.75
    for rate in rates[1:]:
        gain = 0.9 * gain + 0.1 * rate  # gain_step_size
    assert float(state.criteria[0].gain) == pytest.approx(gain)


def test_a_controller_reacts_to_the_size_of_the_average_violation(proportional):
    """The average starts with the first batch; of each further one a tenth counts."""
    found, _ = controlled([0.75, 0.25, 0.0], **proportional)
    assert found == pytest.approx([1.0, 2 * (0.45 - 0.05), 2 * (0.36 - 0.1)], rel=1e-5)


def test_the_proportional_part_is_twenty_times_the_step_size():
    found, _ = controlled([0.75], limit_step_size=0.1)
    assert found == pytest.approx([0.05 + 2.0 * 0.5])


def test_a_batch_with_many_events_counts_by_itself(proportional):
    """Of a largest cost of 0.75, the limit allows a third of 1000 in 500 samples, all in 2000."""
    third, _ = controlled([0.75, 0.25], steps=250, **proportional)
    assert third == pytest.approx([1.0, 2 * (0.25 - 0.5 / 3) / 0.5], rel=1e-5)
    alone, _ = controlled([0.75, 0.625], steps=1000, **proportional)
    assert alone == pytest.approx([1.0, 0.5], rel=1e-5)


@pytest.mark.usefixtures("plain")
def test_multipliers_are_bounded_and_one_batch_has_a_bounded_effect(monkeypatch):
    found, _ = controlled([1e6], limit_step_size=0.1)
    assert found == pytest.approx([0.1])
    monkeypatch.setattr(limits, "HIGHEST", 2.5)
    found, _ = controlled([1e6] * 4, limit_step_size=1.0)
    assert found == [1, 2, 2.5, 2.5]


@jax.jit
def rates_under_control(config: Any, state: Any, draws: jax.Array) -> jax.Array:
    """Rates of batches of 2000 steps with rare events, rarer with the multiplier."""

    def batch(state: Any, drawn: jax.Array) -> tuple[Any, jax.Array]:
        count = (drawn < 0.1 * jnp.exp(-state.controller.multiplier[0])).sum()
        costs = (jnp.arange(2000.0) < count).astype(jnp.float32).reshape(200, 10, 1)
        zeros = jnp.zeros((200, 10))
        never, none = jnp.zeros((200, 10), bool), jnp.zeros((200, 10, 0))
        rollout = Rollout(none, none, zeros, none, never, never, none[0], costs)
        return learn_limits(config, state, rollout, [Values(zeros, zeros, zeros)]), count / 2000

    return jax.lax.scan(batch, state, draws)[1]


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("limit", [1e-4, 1e-3, 1e-2])
def test_dual_ascent_holds_the_rate_of_rare_events_at_any_limit(limit):
    """The lowest allows one event in five batches of 2000 steps.

    There are 400 events or more: a tenth is two standard deviations.
    """
    config = paper_config("apo", limits={"cost": limit}, limit_step_size=0.05)
    rng = np.random.default_rng(0)
    most = 64  # of 2000 uniform numbers the smallest, as sums of exponential ones
    sums = rng.exponential(size=(4000, most)).cumsum(axis=1)
    draws = jnp.asarray(sums / (sums[:, -1:] + rng.gamma(2001 - most, size=(4000, 1))), jnp.float32)
    start = init_limits(config)
    balance = jnp.full(1, -np.log(limit / 0.1), jnp.float32)
    start = start._replace(
        controller=start.controller._replace(integral=balance, multiplier=balance)
    )
    rates = rates_under_control(config, start, draws)
    assert float(rates[200:].mean()) == pytest.approx(limit, rel=0.1)


@pytest.mark.usefixtures("plain")
def test_batches_far_above_the_others_count_in_full():
    """Of five batches one has nearly all the cost, as where episodes start together."""
    shares = np.resize([3.6, 0.5, 0.1, 0.5, 0.3], 3000)  # 1 in the mean
    options = {"num_envs": 10, "rollout_steps": 200, "limit_step_size": 0.02}
    config = paper_config("apo", limits={"cost": 0.025}, **options)

    def batch(state: Any, share: jax.Array) -> tuple[Any, jax.Array]:
        rate = 0.2 * jnp.exp(-state.controller.multiplier[0]) * share
        costs = jnp.full((200, 10, 1), rate)
        zeros, never = jnp.zeros((200, 10)), jnp.zeros((200, 10), bool)
        none = jnp.zeros((200, 10, 0))
        rollout = Rollout(none, none, zeros, none, never, never, none[0], costs)
        return learn_limits(config, state, rollout, [Values(zeros, zeros, zeros)]), rate

    _, rates = jax.lax.scan(batch, init_limits(config), jnp.asarray(shares, jnp.float32))
    # The step size makes multipliers of one round of five differ by a few percent.
    assert float(rates[-1000:].mean()) == pytest.approx(0.025, rel=0.02)


def test_a_trust_region_holds_a_margin_that_integrates_the_excess():
    """A quarter of the share that a step corrects; it is from 0 to half of the limit.

    If it could be negative, batches below a limit that does not bind would allow later ones to
    exceed it.
    """
    sizes = {"num_envs": 2, "rollout_steps": 2, "minibatch_size": 2}
    config = paper_config("atrpo", limits={"cost": 0.5}, limit_step_size=0.4, **sizes)
    state, found = init_limits(config), []
    zeros = jnp.zeros((2, 2))
    for rate in (0.6, 0.7, 0.0, 1.0, 1.0, 0.4, 0.4, *[1.0] * 20):
        state = learn_limits(config, state, rollout_with(rate), [Values(zeros, zeros, zeros)])
        found.append(float(state.margin[0]))
    assert found[:7] == pytest.approx([0.01, 0.03, 0.0, 0.05, 0.1, 0.09, 0.08], abs=1e-6)
    assert found[-1] == 0.25
    assert state.controller is None


@pytest.mark.usefixtures("plain")
def test_combined_advantages_by_hand():
    _, state = controlled([0.75], limit_step_size=1.0)  # a multiplier of 0.5
    reward = Targets(jnp.array([[1.0, -1.0]]), jnp.array([[3.0, 4.0]]))
    cost = Targets(jnp.array([[10.0, -10.0]]), jnp.array([[5.0, 6.0]]))
    # Prices are in units of the advantages' standard deviations, 1 and 10.
    controller = with_spread(state.controller, [reward.advantage, cost.advantage])
    assert np.asarray(prices(controller)) == pytest.approx([0.05])
    found = combined(controller, reward, [cost])
    assert np.asarray(found) == pytest.approx(np.array([[0.5, -0.5]]) / 1.5)
    # In a batch without an event the price is that of a tenth less, and errors stay small.
    later = with_spread(controller, [reward.advantage, 0.01 * cost.advantage])
    assert np.asarray(prices(later)) == pytest.approx([0.5 / 9.01])


def test_what_a_trust_region_gets_of_costs_by_hand():
    """Advantages of mean 0 in the cost's own unit, and the excess of the batch and the margin."""
    sizes = {"num_envs": 2, "rollout_steps": 2, "minibatch_size": 2}
    config = paper_config("atrpo", limits={"cost": 0.5}, scale_rewards=True, **sizes)
    state, rollout = init_limits(config), rollout_with(0.75)
    sums = Moments(jnp.zeros(()), jnp.asarray(4.0), jnp.asarray(9.0))
    (own,) = state.criteria
    state = state._replace(criteria=(own._replace(reward_sums=sums),), margin=jnp.array([0.125]))
    targets = Targets(jnp.array([[1.0, 2.0], [3.0, 6.0]]), jnp.zeros((2, 2)))
    found = cost_batch(config, rollout, state, [targets], 3.0)
    # The mean is 3; a value of 1 stands for costs of 2, the standard deviation of their sums.
    assert found.advantage[:, 0].tolist() == pytest.approx([-4, -2, 0, 6])
    assert found.excess.tolist() == pytest.approx([0.75 - 0.5 + 0.125])
    assert float(found.reward_unit) == 3


@dataclass(frozen=True)
class Toll(OneState):
    """Two choices in one state: 0 pays nothing, 1 pays 1 and costs 1."""

    def step(self, key: jax.Array, state: Any, action: jax.Array) -> Step:
        paid = action[0].astype(jnp.float32)
        return Step(state, jnp.ones(1), paid, False, {"toll": paid})


def test_a_limit_is_kept_and_used():
    """The optimum pays in 30 % of all steps; without the limit it would pay in all.

    Plain dual ascent oscillates here between 2 % and 87 %.
    """
    sizes = {"num_envs": 16, "minibatch_size": 128}
    options = {**TINY, **sizes, "preset": "paper", "normalize_observations": False}
    agent = APO(Toll(), seed=100, limits={"toll": 0.3}, learning_rate=0.01, **options)
    costs: list[float] = []
    agent.learn(120 * 16 * 16, on_log=lambda p: costs.append(p.metrics["cost_toll"]))
    assert np.mean(costs[-40:]) == pytest.approx(0.3, abs=0.03)
    assert max(costs[:20]) > 0.45


@pytest.mark.parametrize("host", [pytest.param(False, marks=pytest.mark.slow), True])
def test_with_limits_evaluations_draw_actions(host):
    """The untrained policy pays in about half of the steps, or in all or none of them."""

    def rates(**given: Any) -> list[float]:
        env = partial(as_gymnasium, Toll()) if host else Toll()
        agent = APO(env, seed=3, learning_rate=0.0, num_workers=0, **TINY, **given)
        log: list[Any] = []
        agent.learn(ITERATION, eval_every=ITERATION, eval_steps=200, on_log=log.append)
        reports = (log[-1].evaluation, agent.evaluate(200))
        other = agent.evaluate(200, deterministic=bool(given["limits"]))
        return [report.costs["toll"].rate for report in (*reports, other)]

    *drawn, likely = rates(limits={"toll": 0.3})
    assert all(0.3 < rate < 0.7 for rate in drawn)  # 5 standard deviations
    assert likely in (0, 1)
    *likely, drawn = rates(limits={}, costs=["toll"])
    assert set(likely) <= {0, 1}
    assert 0.3 < drawn < 0.7


@pytest.mark.slow
def test_a_trust_region_finds_the_constrained_optimum():
    """Three servers for customers who pay 1 or 4, of which 1.2 may be busy on average.

    Mean reward and cost of the last 30 iterations, whose standard errors are below half a percent.
    benchmarks/limits.py evaluates the last policies exactly.
    """
    env = AccessControl(servers=3, free_probability=0.3, priorities=(1.0, 4.0))
    limits = {"busy": 1.2}
    model = access_control(servers=3, free_probability=0.3, priorities=(1.0, 4.0))
    best = solve(model, limits=limits)
    sizes = {"num_envs": 64, "rollout_steps": 64, "minibatch_size": 1024, "hidden_sizes": (16,)}
    options = {"preset": "paper", "epochs": 2, "learning_rate": 0.01, "gae_lambda": 0.9}
    agent = ATRPO(env, seed=100, limits=limits, **sizes, **options)
    log: list[Any] = []
    agent.learn(80 * 64 * 64, on_log=lambda p: log.append(p.metrics))
    late = {name: np.mean([row[name] for row in log[-30:]]) for name in log[0]}
    assert late["reward"] == pytest.approx(best.gain, rel=0.02)
    assert late["cost_busy"] <= 1.02 * 1.2
    assert late["multiplier_busy"] == pytest.approx(best.multipliers["busy"], rel=0.3)


@pytest.mark.parametrize("algorithm", [APO, TRPO])
def test_training_is_saved_and_resumed(algorithm, tmp_path):
    """Host environments, with a cost that is recorded as well; both halves are the whole."""
    options = {
        **TINY,
        "limits": {"terminated": 0.01, "action_energy": 0.02},
        "costs": ["out_of_bounds"],
    }

    def agent() -> Any:
        return algorithm(lambda: Drift(wall=0.3), num_workers=0, **options)

    whole = agent().learn(2 * ITERATION)
    first = agent().learn(ITERATION)
    first.save(tmp_path / "saved")
    again = algorithm.load(tmp_path / "saved", lambda: Drift(wall=0.3), num_workers=0)
    again.learn(ITERATION)
    assert bits(again.state) == bits(whole.state)
    assert again.config.limits == (("terminated", 0.01), ("action_energy", 0.02))
    assert list(again.evaluate(20).costs) == ["out_of_bounds", "terminated", "action_energy"]
    heads = 1 if algorithm is APO else 2  # the reset cost keeps a limit on terminations
    assert len(whole.state.limits.criteria) == heads
    other = {"limits": {"terminated": 0.02, "action_energy": 0.02}}
    tuned = algorithm.load(tmp_path / "saved", lambda: Drift(), num_workers=0, **other)
    assert tuned.config.limits[0] == ("terminated", 0.02)
    with pytest.raises(InputError, match=r"limits=.* cannot be changed at load: what was saved"):
        algorithm.load(tmp_path / "saved", lambda: Drift(), limits={"terminated": 0.02})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"limits": {"a b": 1.0}}, "must be a list of names"),
        ({"limits": {"cost": "much"}}, "must be rates by name, as {'terminated': 0.001}"),
        ({"limits": 3}, "limits=3 must be rates by name"),
        ({"limits": {"cost": float("nan")}}, "limits: cost=nan must be a finite number"),
        ({"limits": {"cost": 1.0}, "limit_step_size": -1}, "limit_step_size=-1 is out of range"),
        (
            {"limits": {"terminated": 1}, "termination": "reset", "reset_cost_step_size": 0.0},
            "limits on 'terminated' are kept by the reset cost: set termination='reset' and",
        ),
    ],
)
def test_wrong_limits(options, words):
    with pytest.raises(InputError, match=words):
        paper_config("apo", **options)


def test_a_trust_region_takes_at_most_eight_limits():
    many = {f"cost{k}": 1.0 for k in range(9)}
    with pytest.raises(
        InputError, match=r"limits has 9 entries.* at most 8; give fewer, or use AP"
    ):
        paper_config("atrpo", limits=many)
    assert len(paper_config("apo", limits=many).limits) == 9


def test_a_limit_on_terminations_is_the_target_of_the_reset_cost():
    assert paper_config("apo", "tuned").reset_cost_step_size == 1
    other = paper_config("apo", "tuned", limits={"cost": 0.1})
    assert other.reset_cost_step_size == 1
    own = paper_config("apo", "tuned", limits={"terminated": 0.01})
    assert (own.reset_cost_step_size, own.termination) == (1, "reset")
    assert (own.terminations_aimed_at, own.headed_limits) == (0.01, ())
    preset = paper_config("apo", "paper", limits={"terminated": 0.01})
    assert (preset.reset_cost_step_size, preset.termination) == (1, "reset")


def test_a_limit_on_terminations_learns_what_a_target_of_the_reset_cost_does():
    sizes = TINY | {"num_workers": 0}
    limited = APO(partial(Drift, wall=0.5), limits={"terminated": 0.02}, **sizes)
    aimed = APO(partial(Drift, wall=0.5), termination_target=0.02, **sizes)
    for agent in (limited, aimed):
        agent.learn(3 * ITERATION)
    assert bits(limited.state) == bits(aimed.state)
    assert limited.snapshot.state.limits is None


def test_an_adaptive_reset_cost_is_that_of_the_reward_alone():
    """Beside a limit on another cost, whose stream has the same terminations."""
    options = TINY | {"termination": "reset", "reset_cost_step_size": 1.0}
    agent = APO(partial(Drift, wall=0.5), limits={"action_energy": 0.1}, num_workers=0, **options)
    rates = []
    agent.learn(ITERATION, on_log=lambda p: rates.append(p.metrics["cost_action_energy"]))
    assert float(agent.state.criterion.reset_cost) > 0
    (cost,) = agent.state.limits.criteria
    assert float(cost.reset_cost) == 0.0
    assert rates[0] > 0 and float(cost.gain) == pytest.approx(rates[0], rel=1e-5)


def test_the_command_line(tmp_path, capsys):
    flags = ["--num-envs", "4", "--rollout-steps", "16", "--minibatch-size", "32", "--quiet"]
    run = ["train", "apo", "--env", "Pendulum-v1", "--steps", "64", "--no-eval", *flags]
    assert main([*run, "--limit", "action_energy=0.5", "--out", str(tmp_path / "run")]) == 0
    header = (tmp_path / "run" / "metrics.csv").read_text().splitlines()[0]
    assert "cost_action_energy" in header and "multiplier_action_energy" in header
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    resume = [*run, "--resume", "--out", str(tmp_path / "run"), "--limit"]
    assert main([*resume, "action_energy=0.6"]) == 2
    assert "cannot be changed on --resume, the run has" in capsys.readouterr().err
    assert before == {path: path.read_bytes() for path in before}
    assert main([*run, "--limit", "action_energy", "--out", str(tmp_path / "other")]) == 2
    assert "invalid NAME=RATE value: 'action_energy'" in capsys.readouterr().err
