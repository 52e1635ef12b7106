"""Classical policies by hand, and long-run averages against exact gains."""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from longrun.exact.queueing.network import Network
from longrun.learning.envs.queueing.environment import (
    QueueingEnv,
    criss_cross,
    n_model,
    reentrant,
    six_class,
    tandem,
)
from longrun.learning.envs.queueing.policies import (
    average_cost,
    average_reward,
    c_mu,
    first_buffer_first,
    fixed_priority,
    last_buffer_first,
    max_weight,
    steps_left,
)
from longrun.tabular import evaluate, solve


def single_station() -> QueueingEnv:
    """Three classes at one server; c mu is 1, 2 and 1.5."""
    return QueueingEnv(
        Network(
            "single station",
            arrivals=(0.2, 0.2, 0.2),
            stations=(((0, 1.0), (1, 1.0), (2, 0.5)),),
            routing=((), (), ()),
            holding_costs=(1.0, 2.0, 3.0),
        )
    )


def one_queue(arrivals: float) -> QueueingEnv:
    return QueueingEnv(Network("M/M/1", (arrivals,), (((0, 1.0),),), ((),), (1.0,)), idling=True)


def chosen(policy: Any, *queues: int) -> list[int]:
    return [int(each) for each in policy(jnp.array(queues))]


# --- what they choose ------------------------------------------------------------------------


def test_c_mu() -> None:
    policy = c_mu(single_station())
    assert chosen(policy, 5, 1, 1) == [1] and chosen(policy, 5, 0, 1) == [2]
    assert chosen(policy, 1, 0, 0) == [0]
    assert chosen(c_mu(n_model()), 2, 9) == [0], "3 * 0.5 is more than 1"
    assert chosen(c_mu(n_model()), 1, 9) == [1], "but server 1 has the only one"


def test_buffer_priorities() -> None:
    assert steps_left(six_class().network) == [4, 2, 2, 3, 1, 1]
    everywhere = (1,) * 6
    assert chosen(last_buffer_first(six_class()), *everywhere) == [2, 2]
    assert chosen(first_buffer_first(six_class()), *everywhere) == [0, 0]
    assert chosen(last_buffer_first(six_class()), 1, 1, 0, 1, 1, 0) == [1, 1]
    assert chosen(last_buffer_first(reentrant()), 5, 5, 1) == [1]
    assert chosen(first_buffer_first(reentrant()), 5, 5, 1) == [0]


def test_fixed_priority() -> None:
    policy = fixed_priority(six_class(), [1, 0, 2, 4, 5, 3])
    assert chosen(policy, 1, 1, 1, 1, 1, 1) == [1, 1]
    assert chosen(policy, 1, 0, 1, 1, 0, 1) == [0, 2]


def test_max_weight() -> None:
    policy = max_weight(criss_cross())  # 2 (x1 - x2) against 2 x3
    assert chosen(policy, 5, 1, 3) == [0] and chosen(policy, 5, 3, 3) == [1]
    assert chosen(policy, 1, 9, 0) == [0], "works although it would rather not"


def test_policies_never_idle_where_they_can_serve() -> None:
    assert chosen(c_mu(tandem()), 0, 0) == [1, 1], "1 is to idle"
    assert chosen(c_mu(tandem()), 2, 0) == [0, 1] and chosen(c_mu(tandem()), 2, 2) == [0, 0]


@pytest.mark.parametrize("policy", [c_mu, max_weight, last_buffer_first])
def test_policies_can_be_compiled_and_batched(policy: Any) -> None:
    queues = jnp.array([[0, 0, 1, 0, 4, 0], [2, 1, 0, 3, 1, 9]])
    found = jax.jit(jax.vmap(policy(six_class())))(queues)
    assert found.shape == (2, 2) and found[0].tolist() == [2, 1]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: fixed_priority(reentrant(), [0, 1]), "order=[0, 1] must name each of the classes"),
        (lambda: average_cost(reentrant(), chosen, chains=1), "chains=1 must be 2 or more"),
    ],
)
def test_bad_input(build: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        build()


def test_a_loop_has_no_last_buffer() -> None:
    network = Network("loop", (0.1, 0), (((0, 1), (1, 1)),), (((1, 1),), ((0, 0.5),)), (1, 1))
    with pytest.raises(ValueError, match=r"leads back to a class.*; use fixed_priority"):
        last_buffer_first(QueueingEnv(network))


# --- long-run averages -----------------------------------------------------------------------


@pytest.mark.usefixtures("optimised")
def test_mm1() -> None:
    env, load = one_queue(0.6), 0.6
    found = average_cost(env, c_mu(env), steps=10_000, chains=256)
    assert abs(found.mean - load / (1 - load)) < 2 * found.half_width < 0.06


@pytest.mark.usefixtures("optimised")
@pytest.mark.parametrize("policy", [last_buffer_first, max_weight])
def test_criss_cross_costs_what_the_exact_evaluation_says(policy: Any) -> None:
    env = criss_cross("IL")
    exact = -evaluate(env.exact(11), env.exact_policy(policy(env), 11)).gain
    found = average_cost(env, policy(env), steps=10_000, chains=256)
    assert abs(found.mean - exact) < 2 * found.half_width < 0.02


def test_c_mu_is_optimal_at_a_single_station() -> None:
    env, size = single_station(), 12
    mdp = env.exact(size)
    best = solve(mdp, tolerance=1e-9).gain
    assert evaluate(mdp, env.exact_policy(c_mu(env), size)).gain == pytest.approx(best, rel=2e-3)
    for other in ([0, 1, 2], [2, 1, 0], [0, 2, 1]):
        worse = evaluate(mdp, env.exact_policy(fixed_priority(env, other), size)).gain
        assert worse < best * 1.02


def test_averages_are_determined_by_the_seed() -> None:
    env = criss_cross()
    options: dict[str, Any] = {"steps": 200, "chains": 4, "warmup": 0}
    first, again = (average_reward(env, c_mu(env), **options) for _ in range(2))
    other = average_reward(env, c_mu(env), seed=1, **options)
    assert first == again != other and first.mean < 0 < first.half_width
    assert average_cost(env, c_mu(env), **options).mean == -first.mean


def test_full_queues_of_a_box_do_not_wait_for_each_other_for_ever():
    """Class 1 waits for room in queue 2, and queue 3, which class 2 waits for, is not served.

    With priority to class 1 all three stayed full, at a cost of 3 * size; the network costs 13.2.
    """
    env = reentrant()
    simulated = average_cost(env, c_mu(env), steps=20_000, seed=0)
    boxed = -evaluate(env.exact(10), env.exact_policy(c_mu(env), 10)).gain
    assert 0.75 * simulated.mean < boxed < simulated.mean + 2 * simulated.half_width


def test_a_server_turns_to_another_class_only_where_the_box_blocks_it():
    env, size = reentrant(), 4
    chosen = env.exact_policy(c_mu(env), size).reshape((size + 1,) * 3)
    assert (chosen[1:, :size] == 0).all()  # class 1 first
    assert (chosen[1:, size, 1:] == 1).all()  # class 3, where queue 2 is full
    assert (chosen[1:, size, 0] == 0).all()  # nobody else is there
