"""Costs besides the reward: from environments, ready-made, from functions; recorded everywhere."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv

from longrun import APO, PPO
from longrun.base.errors import EnvironmentFailure, InputError
from longrun.exact.tabular.models import access_control, inventory
from longrun.learning.envs.costs import READY, info_cost, ready_cost, with_costs
from longrun.learning.envs.native import Environment, Step
from longrun.learning.envs.native.control import AccessControl, Inventory, Maintenance
from longrun.learning.envs.native.to_gymnasium import as_gymnasium
from longrun.learning.envs.spaces import Spaces
from longrun.learning.envs.stepper import GymnasiumStepper
from longrun.learning.runs.run_csv import columns_of, read_rows
from longrun.queueing import n_model
from tiny_envs import ITERATION, TINY, Counter, Drift

ALL = ["cost", "right", "left", *READY]


class Charged(Drift):
    """A Drift whose info has costs in all the places that are known."""

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = super().step(action)
        position = float(obs[0])
        info = {**info, "cost": position**2, "label": "text", "cost_wall": abs(position)}
        info["costs"] = {"right": position > 0, "left": np.float32(position < 0)}
        return obs, reward, terminated, truncated, info


class SixTuple(Drift):
    """As safety-gymnasium's: the cost stands after the reward."""

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, reward, 0.25, terminated, truncated, info


def rates_of(env: Any, names: list[str]) -> dict[str, float]:
    """From an evaluation of a new policy, which compiles no update."""
    report = APO(env, num_workers=0, costs=names, **TINY).evaluate(40)
    return {name: cost.rate for name, cost in report.costs.items()}


def costs_of(env: Any, names: list[str], log_dir: Any = None) -> tuple[dict[str, float], Any]:
    """Metrics of an iteration, and the evaluation after it."""
    logged: list[Any] = []
    wide = 0.0  # so that some actions are out of bounds
    APO(env, num_workers=0, costs=names, initial_log_std=wide, **TINY).learn(
        ITERATION, log_dir=log_dir, eval_every=ITERATION, eval_steps=60, on_log=logged.append
    )
    return logged[0].metrics, logged[0].evaluation


def test_costs_that_environments_give():
    rates = rates_of(Charged, ["cost", "right", "left", "wall", "cost_wall"])
    assert rates["right"] + rates["left"] == pytest.approx(1)
    assert rates["wall"] == rates["cost_wall"] > 0 and rates["cost"] > 0


def test_six_values_as_in_safety_gymnasium():
    assert rates_of(SixTuple, ["cost"]) == {"cost": 0.25}


def test_rollouts_and_evaluations_record_costs():
    """The ready-made ones are the same numbers as from the rollout's actions and flags."""
    env = lambda: Charged(wall=0.3, limit=7)  # noqa: E731
    metrics, report = costs_of(env, ALL)
    assert metrics["cost_terminated"] == pytest.approx(metrics["terminations"]) and report.episodes
    assert metrics["cost_right"] + metrics["cost_left"] == pytest.approx(1)
    assert 0 < metrics["cost_out_of_bounds"] < 1
    assert 0 < metrics["cost_action_energy"] < 0.25  # clipped to 0.5
    assert list(report.costs) == ALL
    assert report.costs["right"].low < report.costs["right"].rate < report.costs["right"].high
    assert f", right {report.costs['right'].rate:.4g} per step [" in str(report)
    free, _ = costs_of(env, [])  # nothing that is learned changes
    assert {name: metrics[name] for name in free} == free
    assert set(metrics) - set(free) == {f"cost_{name}" for name in ALL}


def test_a_time_limit_is_no_termination():
    """Of 16 steps of an environment in training 5 end episodes, and every third in the long run."""
    for terminates in (True, False):
        logged: list[Any] = []
        agent = APO(partial(Counter, 3, terminates), num_workers=0, costs=["terminated"], **TINY)
        options = {"eval_every": ITERATION, "eval_steps": 20}
        agent.learn(ITERATION, **options, on_log=logged.append)
        assert logged[0].metrics["cost_terminated"] == pytest.approx(terminates * 5 / 16)
        assert logged[0].evaluation.costs["terminated"].rate == pytest.approx(terminates / 3)


@pytest.mark.parametrize("xp", [np, jnp])
def test_ready_made_costs_by_hand(xp):
    spaces = Spaces(1, 2, low=(-1.0, -1.0), high=(1.0, 1.0))
    sampled = xp.array([[0.5, 0.5], [2.0, 0.0], [1.0, -1.0]])
    given = xp.clip(sampled, -1, 1)
    ends = xp.array([False, True, False])

    def cost(name: str) -> list[float]:
        return np.asarray(ready_cost(xp, name, spaces, sampled, given, ends)).tolist()

    assert cost("terminated") == [0, 1, 0]
    assert cost("action_energy") == [0.5, 1, 2]
    assert cost("out_of_bounds") == [0, 1, 0]


def test_functions_are_costs():
    env = with_costs(
        lambda: Drift(limit=9),
        far=lambda obs, action, reward, info: abs(obs[0]) > 0.1,
        double=lambda obs, action, reward, info: 2 * reward,
    )
    report = APO(env, num_workers=0, costs=["far", "double"], **TINY).evaluate(40)
    assert report.costs["double"].rate == pytest.approx(2 * report.average_reward)
    assert 0 < report.costs["far"].rate <= 1
    assert with_costs("CartPole-v1", none=lambda *_: 0.0).__name__ == "CartPole-v1"
    with pytest.raises(InputError, match="cost far=3 is no function; give one of"):
        with_costs(Drift, far=3)


@pytest.mark.slow
def test_files_and_resuming(tmp_path):
    """The same columns and numbers, also after an interruption; load knows the costs."""
    env = Charged
    whole, part = tmp_path / "whole", tmp_path / "part"
    options = {**TINY, "costs": ALL, "num_workers": 1}
    evaluations = {"eval_every": ITERATION, "eval_steps": 40}
    APO(env, **options).learn(2 * ITERATION, log_dir=whole, **evaluations)
    first = APO(env, **options).learn(ITERATION, log_dir=part, **evaluations)
    first.learn(ITERATION, log_dir=part, **evaluations)
    for name in ("metrics.csv", "evaluations.csv"):
        columns = [c for c in columns_of(whole / name) if c.startswith("cost_")]
        assert {f"cost_{cost}" for cost in ALL} <= set(columns)
        rows = [read_rows(folder / name, columns, 1).values for folder in (whole, part)]
        for column in columns:
            assert rows[0][column].tolist() == rows[1][column].tolist()
    triple = ["cost_action_energy", "cost_action_energy_low", "cost_action_energy_high"]
    assert columns_of(whole / "evaluations.csv")[-6:-3] == triple
    again = APO.load(whole, env, num_workers=0)
    assert again.config.costs == tuple(ALL)
    assert list(again.evaluate(20).costs) == ALL


def test_mujoco_tasks_give_costs_of_their_info():
    """The fast steps make no info, so that the task's own step is used for these."""
    report = APO(
        "Swimmer-v5", num_workers=0, costs=["x_velocity", "action_energy"], **TINY
    ).evaluate(30)
    assert report.costs["x_velocity"].rate != 0
    fast = APO("Swimmer-v5", num_workers=0, costs=["action_energy"], **TINY).evaluate(30)
    assert fast.costs["action_energy"] == report.costs["action_energy"]
    assert fast.average_reward == report.average_reward


@dataclass(frozen=True)
class Payer(Environment):
    """Ends at the fourth step; pays its action and costs the time."""

    terminates = True

    @property
    def name(self) -> str:
        return "payer"

    @property
    def spaces(self) -> Spaces:
        return Spaces(1, 1, low=(-1.0,), high=(1.0,))

    def reset(self, key: jax.Array) -> tuple[Any, jax.Array]:
        return jnp.zeros((), jnp.int32), jnp.zeros(1)

    def step(self, key: jax.Array, state: Any, action: jax.Array) -> Step:
        time = state + 1
        row = time[None].astype(jnp.float32)
        return Step(time, row, action[0], time == 4, costs={"time": time.astype(jnp.float32)})


def test_costs_on_a_device(tmp_path):
    names = ["time", "terminated", "action_energy", "out_of_bounds"]
    folder = tmp_path / "run"
    metrics, report = costs_of(Payer(), names, log_dir=folder)
    rows = read_rows(folder / "evaluations.csv", ["cost_time", "cost_terminated"], 1)
    assert rows.values["cost_time"].tolist() == [2.5]
    assert metrics["cost_time"] == 2.5 == report.costs["time"].rate
    assert metrics["cost_terminated"] == 0.25 == report.costs["terminated"].rate
    assert 0 < metrics["cost_action_energy"] < 1 and 0 < metrics["cost_out_of_bounds"] < 1


def test_the_gymnasium_bridge_passes_costs_on():
    env = as_gymnasium(Payer())
    env.reset(seed=0)
    assert [env.step(np.zeros(1, np.float32))[4] for _ in range(2)] == [
        {"costs": {"time": 1.0}},
        {"costs": {"time": 2.0}},
    ]


def exact_states(name: str) -> tuple[Any, Any, Any]:
    """A built-in environment, its exact model, and its states in the order of the model's."""
    if name == "access-control":
        env, mdp = AccessControl(servers=3), access_control(3)
        return env, mdp, jnp.asarray(np.indices(mdp.shape).reshape(2, -1).T, jnp.int32)
    if name == "maintenance":
        env = Maintenance()
        return env, env.model, jnp.arange(env.model.num_states)
    env = n_model()
    mdp = env.exact(3)
    return env, mdp, jnp.asarray(np.indices(mdp.shape).reshape(2, -1).T, jnp.int32)


@pytest.mark.parametrize("name", ["access-control", "maintenance", "n-model"])
def test_built_in_environments_have_the_costs_of_their_exact_models(name):
    env, mdp, states = exact_states(name)

    def costs_of_pair(state: Any, action: Any) -> Any:
        return env.step(jax.random.key(0), state, action[None]).costs

    pairs = jax.vmap(jax.vmap(costs_of_pair, (None, 0)), (0, None))  # [S, A]
    costs = jax.jit(pairs)(states, jnp.arange(mdp.num_actions))
    assert set(costs) == set(mdp.costs) - {"blocked"}  # its queues have no end
    for cost, values in costs.items():
        assert (np.asarray(values) == mdp.costs[cost])[mdp.available].all()


def test_the_costs_of_an_inventory_have_the_means_of_the_exact_model():
    env, mdp = Inventory(capacity=4), inventory(capacity=4)
    chances = np.diff(env.demand_below, prepend=0.0)
    demands = jnp.arange(len(chances))
    for stock, order in np.argwhere(mdp.available):
        action = jnp.array([order])
        costs = jax.vmap(lambda d, s=stock, a=action: env.costs(jnp.int32(s), a, d))(demands)
        for name, values in costs.items():
            mean = float(chances @ np.asarray(values, float))
            assert mean == pytest.approx(mdp.costs[name][stock, order], abs=1e-5)


# Wrong input.


@pytest.mark.parametrize("env", [Charged, Payer()])
def test_an_unknown_cost_lists_what_there_is(env):
    gave = "cost, cost_wall, right, left" if env is Charged else "time"
    error = EnvironmentFailure if env is Charged else InputError
    words = (
        f"cost 'speed' is unknown; the environment gave {gave}; ready-made: terminated, action_e"
    )
    with pytest.raises(error, match=words):
        rates_of(env, ["speed"])


@pytest.mark.parametrize(
    ("costs", "words"),
    [
        ("terminated", "costs='terminated' must be a list of names, as"),
        ([1], r"costs=\[1\] must be a list of names"),
        (["a,b"], r"costs=\['a,b'\] must be a list of names"),
        (["a", "a"], r"costs=\['a', 'a'\] has a name twice; give each once"),
    ],
)
def test_names_of_costs(costs, words):
    with pytest.raises(InputError, match=words):
        PPO(Drift, costs=costs, **TINY)


def test_choices_have_no_energy():
    with pytest.raises(InputError, match="cost 'action_energy' is for continuous actions"):
        APO(lambda: Drift(discrete=True), costs=["action_energy"], **TINY)


@pytest.mark.parametrize("env", [lambda: Drift(discrete=True), AccessControl(servers=3)])
def test_choices_have_no_energy_when_costs_are_given_to_load(env, tmp_path):
    APO(env, num_workers=0, **TINY).save(tmp_path)
    loaded = APO.load(tmp_path, env, num_workers=0, costs=["action_energy"])
    for use in (loaded.evaluate, loaded.learn):
        with pytest.raises(InputError, match="cost 'action_energy' is for continuous actions"):
            use(ITERATION)


def test_costs_of_info_are_refused_for_another_environment_that_is_a_vector(tmp_path):
    def make_vector():
        return SyncVectorEnv([Charged] * 4)

    agent = APO(Charged, num_workers=0, costs=["right"], **TINY)
    agent.save(tmp_path)
    with pytest.raises(InputError, match="cost 'right' of a VectorEnv cannot be read"):
        agent.evaluate(20, env=make_vector)
    with pytest.raises(InputError, match="cost 'right' of a VectorEnv cannot be read"):
        APO.load(tmp_path, make_vector, num_workers=0).learn(ITERATION)


def test_no_other_cost_is_ready_made():
    spaces, zeros = Spaces(1, 1, low=(-1.0,), high=(1.0,)), np.zeros((2, 1))
    with pytest.raises(InputError, match="cost 'fuel' is unknown"):
        ready_cost(np, "fuel", spaces, zeros, zeros, np.zeros(2))


def test_costs_that_are_no_numbers():
    with pytest.raises(InputError, match="cost 'a' 'much' of type str must be a number"):
        info_cost({"a": "much"}, "a")
    with pytest.raises(InputError, match="the environment gave none; ready-made"):
        info_cost({"label": "text"}, "a")
    env = with_costs(Drift, odd=lambda *_: float("nan"))
    with pytest.raises(EnvironmentFailure, match="non-finite cost 'odd' of nan at step 0"):
        rates_of(env, ["odd"])


def test_a_step_keeps_its_info():
    stepper = GymnasiumStepper(Charged())
    row = np.zeros(2, np.float32)
    stepper.reset(0, row)
    stepper.step(np.zeros(1, np.float32), row)
    assert stepper.info["cost"] == pytest.approx(row[0] ** 2)
