"""Parallel environments are independent: no random number of a run is used twice.

That holds for actions, reset observations and steps of environments; across environments, time,
iterations, seeds and purposes (training, evaluations in a training, evaluations of a finished
policy); on the host and on a device. It holds for the orders of samples, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces as gym_spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from longrun import APO
from longrun.learning.algorithms import agent_of
from longrun.learning.envs import seeding
from longrun.learning.envs.native import Environment, Step
from longrun.learning.envs.plan import Plan, SharedArrays
from longrun.learning.envs.spaces import Spaces, describe
from longrun.learning.envs.vector_shard import make_shard
from longrun.learning.envs.worker_part import parts_of
from longrun.learning.learn import learner
from longrun.learning.learn.types import Networks, Rollout, TrainState
from longrun.learning.options.acting import Acting
from longrun.learning.options.config import Config
from longrun.learning.train.device import program
from paper_config import paper_config
from tiny_envs import ITERATION, TINY

EPISODE, STEPS, ENVS = 3, 12, 3
SEEDS, ITERATIONS = (0, 1), (0, 1)
PAYS = ("action", "step", "start")
"""What was drawn for an action, in a step, or at the start of an episode."""
Rewards = dict[str, np.ndarray]
"""[STEPS, ENVS] by purpose, seed and iteration"""


class Dice(gymnasium.Env[Any, Any]):
    """Observes what it has drawn. It pays that, the first number of the episode, or the action."""

    def __init__(self, pays: str) -> None:
        self.observation_space = gym_spaces.Box(-np.inf, np.inf, (1,), np.float32)
        self.action_space = gym_spaces.Box(-5, 5, (1,), np.float32)
        self.pays, self.start, self.time = pays, 0.0, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.start, self.time = float(self.np_random.normal()), 0
        return np.array([self.start], np.float32), {}

    def step(self, action: Any) -> Any:
        self.time += 1
        drawn = float(self.np_random.normal())
        paid = {"action": float(action[0]), "step": drawn, "start": self.start}[self.pays]
        return np.array([drawn], np.float32), paid, False, self.time == EPISODE, {}


@dataclass(frozen=True)
class NativeDice(Environment):
    """`Dice` on a device."""

    pays: str
    costly_reset: bool = False
    terminates = False
    time_limit = EPISODE
    name = "dice"
    spaces = Spaces(1, 1, low=(-5.0,), high=(5.0,))

    def reset(self, key: jax.Array) -> tuple[Any, jax.Array]:
        start = jax.random.normal(key)
        return start, start[None]

    def step(self, key: jax.Array, state: Any, action: jax.Array) -> Step:
        drawn = jax.random.normal(key)
        paid = {"action": action[0], "step": drawn, "start": state}[self.pays]
        return Step(state, drawn[None], paid, False)


def vector_of_dice(pays: str) -> Any:
    return SyncVectorEnv([partial(Dice, pays)] * ENVS, autoreset_mode=AutoresetMode.NEXT_STEP)


def rewards_on_the_host(pays: str, is_vector: bool, workers: int) -> Rewards:
    """In training and in evaluations during it and afterwards."""
    of_training = _on_the_host(pays, is_vector, workers, seeding.IN_TRAINING, "evaluation")
    afterwards = _on_the_host(pays, is_vector, workers, seeding.AFTERWARDS, "measurement")
    return of_training | afterwards


def _on_the_host(
    pays: str, is_vector: bool, workers: int, purposes: tuple[int, int], name: str
) -> Rewards:
    """All weights are zero: an action is noise alone. Workers are asked one after the other."""
    factory = partial(vector_of_dice if is_vector else Dice, pays)
    plan = Plan(
        factory,
        describe(factory()),
        Acting((4,)),
        SEEDS,
        num_envs=ENVS,
        rollout_steps=STEPS,
        eval_envs=ENVS,
        eval_steps=STEPS,
        eval_noise=True,
        eval_purposes=purposes,
        is_vector=is_vector,
    )
    arrays = SharedArrays(plan.memory(workers))
    shards = [make_shard(plan, arrays, worker, workers) for worker in range(workers)]

    def ask(command: str, replica: int, argument: Any) -> None:
        for worker, shard in enumerate(shards):
            parts = parts_of(worker, workers, len(SEEDS), ENVS)
            if replica in {part.replica for part in parts}:
                getattr(shard, command)(replica, argument)

    found = {}
    for replica, seed in enumerate(SEEDS):
        ask("restart", replica, [0] * ENVS)
        for iteration in ITERATIONS:
            place = f"seed {seed}, iteration {iteration}"
            ask("rollout", replica, iteration)
            found[f"training, {place}"] = np.array(arrays["reward"][replica])
            ask("evaluate", replica, iteration)
            found[f"{name}, {place}"] = np.array(arrays["eval_reward"][replica], np.float32)
    for shard in shards:
        shard.close()
    arrays.close()
    return found


SIZES: dict[str, Any] = {
    "num_envs": ENVS,
    "rollout_steps": STEPS,
    "minibatch_size": 6,
    "epochs": 3,
    "hidden_sizes": (),
}


def kept(
    config: Config, spaces: Spaces, state: TrainState, rollout: Rollout, shuffles: Networks, _: Any
) -> tuple[TrainState, dict[str, Any]]:
    """In the place of an update: what it would learn from. Nothing is learned."""
    later = state._replace(iteration=state.iteration + 1)
    return later, {"rollout": rollout, "shuffles": shuffles}


def on_a_device(
    env: Environment, monkeypatch: pytest.MonkeyPatch
) -> tuple[Rewards, dict[str, Networks]]:
    """Rewards, and the orders of samples in each iteration."""
    monkeypatch.setattr(learner, "update", kept)
    config = paper_config("apo", **SIZES, action_bounds="clip")
    state = learner.init(config, env.spaces, jax.random.key(0))
    silent = jax.tree.map(jnp.zeros_like, state.params.policy)
    iterate = jax.jit(partial(program.iterate, env, config))
    purposes = {"evaluation": program.EVALUATION, "measurement": program.MEASUREMENT}
    evaluate = partial(program.evaluate, env, config, shape=(ENVS, STEPS), explore=True)
    compiled = {name: jax.jit(partial(evaluate, purpose=p)) for name, p in purposes.items()}
    rewards, orders = {}, {}
    chains = program.begin(env, ENVS, jnp.array(SEEDS))
    for replica, seed in enumerate(SEEDS):
        learned = state._replace(params=state.params._replace(policy=silent))
        now = program.ReplicaState(learned, jax.tree.map(lambda x, i=replica: x[i], chains))
        for iteration in ITERATIONS:
            place = f"seed {seed}, iteration {iteration}"
            for name, program_of in compiled.items():
                evaluated = program_of(jnp.uint32(seed), learned=now.learned)
                rewards[f"{name}, {place}"] = np.asarray(evaluated.reward)
            now, facts = iterate(jnp.uint32(seed), program.Span(0, 9, 1), now)
            rewards[f"training, {place}"] = np.asarray(facts["rollout"].reward)
            orders[place] = facts["shuffles"]
    return rewards, orders


def require_different(rewards: Rewards) -> None:
    """No two of the numbers are equal; the message names those that are."""
    seen: dict[float, str] = {}
    equal = []
    for name, paid in rewards.items():
        for (row, env), number in np.ndenumerate(paid):
            place = f"{name}, environment {env}, number {row}"
            if float(number) in seen:
                equal.append(f"{place} = {seen[float(number)]}")
            seen[float(number)] = place
    assert not equal, f"{len(equal)} numbers are used again:\n" + "\n".join(equal[:20])


def require_all_different(found: dict[str, Rewards]) -> None:
    """Those that were drawn for one thing among each other, and from those of all others."""
    numbers = {}
    for pays, rewards in found.items():
        # One row for each number that was drawn.
        every = EPISODE if pays == "start" else 1
        numbers |= {f"{pays}, {name}": paid[::every] for name, paid in rewards.items()}
        assert all(paid.shape == (STEPS, ENVS) for paid in rewards.values())
    assert len(numbers) == len(PAYS) * len(SEEDS) * len(ITERATIONS) * 3
    require_different(numbers)


@pytest.mark.parametrize(
    ("is_vector", "workers"),
    [(False, 1), (False, 4), (True, 1)],
    ids=["one worker", "four workers", "VectorEnv"],
)
def test_on_the_host(is_vector: bool, workers: int) -> None:
    """Four workers share the environments of two replicas, of which each is in several workers."""
    found = {pays: rewards_on_the_host(pays, is_vector, workers) for pays in PAYS}
    require_all_different(found)
    if workers > 1:
        again = rewards_on_the_host("action", is_vector, 1)
        for name, paid in found["action"].items():
            np.testing.assert_array_equal(paid, again[name], err_msg=name)


def test_on_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    require_all_different({pays: on_a_device(NativeDice(pays), monkeypatch)[0] for pays in PAYS})


def test_every_purpose_on_a_device_has_keys_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two purposes with one key need not draw equal numbers: they split it differently."""
    drawn: list[int] = []
    original = program.key_of

    def noted(seed: Any, purpose: int, *others: Any) -> Any:
        drawn.append(purpose)
        return original(seed, purpose, *others)

    monkeypatch.setattr(program, "key_of", noted)
    on_a_device(NativeDice("step"), monkeypatch)
    assert len(drawn) == len(set(drawn)) == 4  # each program is traced once
    assert not {0, 1} & set(drawn)  # from which the networks are initialised


def test_where_a_reset_is_costly_starts_differ_between_environments_and_rollouts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An environment has one new start in a rollout, which follows its first episode."""
    rewards, _ = on_a_device(NativeDice("start", costly_reset=True), monkeypatch)
    second = {name: paid[EPISODE : EPISODE + 1] for name, paid in rewards.items()}
    require_different(second)
    for name, paid in rewards.items():
        assert (paid[EPISODE:] == second[name]).all(), name


# --- evaluations of a training ---------------------------------------------------------------

WIDE = TINY | {"initial_log_std": 0.0}
"""A standard deviation of 1, since the action bounds are far from 0."""


@pytest.mark.parametrize("env", [partial(Dice, "start"), NativeDice("start")], ids=["host", "jax"])
def test_evaluations_of_a_training_and_of_its_agent_differ(env: Any) -> None:
    """The policy stays the same, and rewards do not depend on it."""
    agent = APO(env, num_workers=0, **WIDE | {"learning_rate": 0.0})
    rates: list[float] = []
    agent.learn(
        3 * ITERATION,
        eval_every=ITERATION,
        eval_steps=EPISODE,
        on_log=lambda p: rates.append(p.evaluation.average_reward),
    )
    rates.append(agent.evaluate(EPISODE, warmup=0).average_reward)
    assert len(rates) == len(set(rates)) == 4


# --- orders of samples -----------------------------------------------------------------------


def require_orders(orders: dict[str, Networks], size: int) -> None:
    """Each is a permutation, and no two are equal."""
    names, rows = [], []
    for place, network in product(orders, Networks._fields):
        for epoch, order in enumerate(np.asarray(getattr(orders[place], network))):
            assert np.array_equal(np.sort(order), np.arange(size))
            names.append(f"{network}, {place}, epoch {epoch}")
            rows.append(order.tolist())
    first = [rows.index(row) for row in rows]
    equal = [f"{names[i]} = {names[j]}" for i, j in enumerate(first) if j < i]
    assert not equal, "\n".join(equal)


def test_orders_of_samples_on_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    _, orders = on_a_device(NativeDice("action"), monkeypatch)
    require_orders(orders, ENVS * STEPS)


@pytest.mark.parametrize("one_program", [False, True])
def test_orders_of_samples_on_the_host(one_program: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that each network is given, by programs of its own or by one for both."""
    given: dict[str, list[Any]] = {"policy": [], "value": []}

    def noting(name: str, program: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*arguments: Any) -> Any:
            # The order is the last argument but the progress.
            order = arguments[-2]
            for network in given if name == "both" else (name,):
                given[network].append(getattr(order, network) if name == "both" else order)
            return program(*arguments)

        return noted

    names = {"improve_policy": "policy", "fit_value": "value", "update": "both"}
    for program_name, name in names.items():
        monkeypatch.setattr(learner, program_name, noting(name, getattr(learner, program_name)))
    orders = {}
    for seed in SEEDS:
        kind = agent_of("apo-authors") if one_program else APO
        options = WIDE | {"preset": "paper"}
        kind(partial(Dice, "step"), seed=seed, num_workers=0, **options).learn(2 * ITERATION)
        for iteration in ITERATIONS:
            # The first of each call compiled the programs.
            of_both = (given[name][1 + iteration] for name in Networks._fields)
            orders[f"seed {seed}, iteration {iteration}"] = Networks(*of_both)
        for noted in given.values():
            assert len(noted) == 3
            noted.clear()
    require_orders(orders, ITERATION)
