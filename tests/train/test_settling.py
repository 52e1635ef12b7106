"""The warm-up of an evaluation is measured, and what an evaluation can be given."""

from __future__ import annotations

import json
import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit

from command_line import read_csv
from longrun import APO
from longrun.cli import main
from longrun.learning.train.evaluation import Streams, measured
from longrun.learning.train.long_run_rate import correlation_time, settling
from tiny_envs import ENDLESS, ITERATION, MORTAL, TINY, Drift, bits

LOCAL: dict[str, Any] = TINY | {"num_workers": 0}


def autoregressive(steps: int, envs: int, memory: float, start: float, seed: int = 0) -> Any:
    """x' = memory x + noise, from `start`; its mean is 0 in the long run."""
    rng = np.random.default_rng(seed)
    x, rows = np.full(envs, start), []
    for _ in range(steps):
        x = memory * x + rng.normal(size=envs)
        rows.append(x)
    return np.array(rows)


def test_the_correlation_time_of_an_autoregressive_stream() -> None:
    """(1 + m) / (1 - m) is 19 for m = .9."""
    assert correlation_time(autoregressive(20_000, 10, 0.9, 0.0)) == pytest.approx(19, rel=0.15)
    assert correlation_time(autoregressive(20_000, 10, 0.0, 0.0)) == pytest.approx(1, rel=0.1)
    assert correlation_time(np.full((100, 3), 7.5, np.float32)) == 0.0


def test_a_start_up_is_left_out_whether_it_can_be_seen_or_not() -> None:
    """With m = .95 a start of 40 is down to the noise after 60 steps."""
    seen = settling(autoregressive(1000, 10, 0.95, 40.0))
    assert 60 <= seen.steps <= 500 and seen.done
    hidden = settling(autoregressive(1000, 10, 0.95, 1.0))
    assert 60 <= hidden.steps <= 300 and hidden.done  # three times 39, as far as it is measured
    tail = autoregressive(1000, 10, 0.95, 1.0)[500:]
    assert hidden.steps == math.ceil(3 * correlation_time(tail))


def test_a_stationary_stream_is_kept_and_one_that_drifts_is_told() -> None:
    assert settling(np.random.default_rng(0).normal(size=(1000, 10))).steps <= 40
    assert settling(np.ones((1000, 10))) == (0, True)
    assert settling(np.linspace(0, 1, 1000)[:, None] + np.zeros(10)) == (500, False)
    assert settling(np.ones((20, 1))) == (0, True)
    slow = 1 - np.exp(-np.arange(1000) / 2000)[:, None] + np.zeros(4)
    assert settling(slow) == (500, False)


def test_a_rare_event_in_the_first_half_is_no_start_up() -> None:
    reward = np.zeros((1000, 10))
    reward[100:130, 3] = -100.0
    assert settling(reward).steps == 0


def test_streams_that_have_not_settled_are_simulated_longer() -> None:
    lengths = []

    def simulate(envs: int, steps: int) -> Any:
        lengths.append(steps)
        reward = 1 - np.exp(-np.arange(steps) / 400)[:, None] + np.zeros(envs)
        return Streams(reward, np.zeros((steps, envs), bool))

    found = measured(simulate, (10, 1000))
    assert lengths == [1000, 2000, 4000]
    assert found.warmup == 2000 and not found.settled
    assert found.average_reward > 0.99
    ended = np.ones((1000, 10), bool)
    rising = measured(lambda e, s: Streams(np.arange(s)[:, None] + np.zeros(e), ended), (10, 1000))
    assert rising.warmup == 0


class Filling(Drift):
    """A level that rises to 1 within a hundred steps of a reset, and is the reward."""

    scale = 20

    def step(self, action: Any) -> Any:
        obs, _, *rest = super().step(action)
        return obs, 1 - math.exp(-self.time / self.scale), *rest


def test_an_evaluation_is_of_the_long_run() -> None:
    agent = APO(Filling, **LOCAL)
    found = agent.evaluate(10_000)
    assert found.average_reward == pytest.approx(1, abs=1e-3)
    # Four times the steps, since ends of episodes would matter and none was seen.
    assert 100 <= found.warmup <= 500 and found.steps == 40_000 - 10 * found.warmup
    assert f"after a warm-up of {found.warmup} in each environment" in str(found)
    whole = agent.evaluate(10_000, warmup=0)
    assert whole.average_reward == pytest.approx(0.98, abs=0.001) and whole.steps == 10_000
    later = agent.evaluate(10_000, warmup=500)
    assert later.average_reward == pytest.approx(1, abs=1e-4) and later.steps == 10_000


def test_an_evaluation_that_never_settles_says_so() -> None:
    class Slow(Filling):
        scale = 2000

    with pytest.warns(UserWarning, match=r"still change after .* steps=4000") as warned:
        found = APO(Slow, **LOCAL).evaluate(4000)
    assert warned[0].filename == __file__, "the caller's line, not one of longrun"
    assert not found.settled and "have not settled" in str(found)


def test_where_episodes_end_every_step_counts() -> None:
    found = APO(partial(Filling, limit=100), **LOCAL).evaluate(2000)
    assert (found.warmup, found.steps) == (0, 2000)


def test_an_evaluation_of_a_finished_policy_repeats_none_of_its_training(tmp_path: Path) -> None:
    """Its random streams are its own: the policy may have been selected by the other one."""
    agent = APO(MORTAL, **LOCAL)
    agent.learn(ITERATION, log_dir=tmp_path, eval_every=ITERATION, eval_steps=200)
    seen = read_csv(tmp_path / "evaluations.csv")[-1]
    found = agent.evaluate(200, warmup=0)
    assert float(seen["average_reward"]) != pytest.approx(found.average_reward, rel=1e-4)


def test_the_time_limit_of_an_environment_fits_into_an_evaluation() -> None:
    """Two environments of 2500 steps instead of five of 1000, in which no episode would end."""
    limited = lambda: TimeLimit(Drift(), 1600)  # noqa: E731
    found = APO(limited, **LOCAL).evaluate(5000)
    assert (found.episodes, found.episode_length, found.unfinished) == (3, 1600, 0)


def test_a_report_says_whether_actions_were_drawn() -> None:
    assert APO(ENDLESS, **LOCAL).evaluate(200).deterministic
    found = APO(MORTAL, **LOCAL, limits={"terminated": 0.1}).evaluate(200)
    assert not found.deterministic and "actions drawn" in str(found)


@pytest.mark.parametrize("env", ["host", "device"])
def test_seed_and_drawn_actions_change_an_evaluation_and_the_agent_stays(env: str) -> None:
    native = {"num_envs": 4, "rollout_steps": 16, "minibatch_size": 32, "hidden_sizes": (8,)}
    agent = APO("jax:criss-cross", **native) if env == "device" else APO(ENDLESS, **LOCAL)
    before = bits(agent.snapshot)
    rates = [
        agent.evaluate(500, warmup=0, **more).average_reward
        for more in ({}, {}, {"seed": 0}, {"seed": 7}, {"deterministic": False})
    ]
    assert rates[0] == rates[1] == rates[2]
    assert len(set(rates)) == 3
    assert bits(agent.snapshot) == before


def test_an_agent_is_evaluated_on_another_environment() -> None:
    agent = APO(MORTAL, **LOCAL)
    rate = agent.evaluate(200).average_reward
    doubled = agent.evaluate(200, env=partial(MORTAL, reward_scale=2.0))
    assert doubled.average_reward == pytest.approx(2 * rate)
    with pytest.raises(ValueError, match=r"env=.* has .*, the agent"):
        agent.evaluate(200, env=partial(MORTAL, discrete=True))
    for wrong in ({"warmup": -1}, {"warmup": 1.5}, {"seed": -1}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            agent.evaluate(200, **wrong)


def test_the_command_line_prints_reports_as_json(tmp_path: Path, capsys: Any) -> None:
    APO("Drift-v0", seed=3, **LOCAL).learn(ITERATION, log_dir=tmp_path, eval_every=0)
    more = ["--steps", "200", "--warmup", "50", "--stochastic", "--seed", "5", "--json"]
    assert main(["evaluate", str(tmp_path), *more]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    agent = APO.load(tmp_path, num_workers=0)
    expected = agent.evaluate(200, warmup=50, deterministic=False, seed=5)
    assert found["average_reward"] == expected.average_reward
    assert (found["replica"], found["seed"], found["trained_steps"]) == (0, 3, ITERATION)
    assert (found["warmup"], found["steps"], found["settled"]) == (50, 200, True)


def test_json_has_null_where_no_episode_ended(tmp_path: Path, capsys: Any) -> None:
    APO("EndlessDrift-v0", **LOCAL).learn(ITERATION, log_dir=tmp_path, eval_every=0)
    assert main(["evaluate", str(tmp_path), "--steps", "20", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["episode_return"] is None
