"""The networks: traffic equations and loads, and simulators whose law is the exact model's."""

from __future__ import annotations

import itertools
import re
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longrun.base.errors import InputError
from longrun.exact.queueing.network import Activity, Decision, Network
from longrun.learning.envs.queueing.environment import (
    QueueingEnv,
    criss_cross,
    n_model,
    reentrant,
    scaled,
    six_class,
    tandem,
)

examples = settings(max_examples=10, deadline=None, derandomize=True, database=None)


def feedback(**changes: Any) -> Network:
    """Two servers for both classes; class 0 moves to class 1, back to itself, or out."""
    values: dict[str, Any] = {
        "name": "feedback",
        "arrivals": (1.0, 0.0),
        "stations": (((0, 2.0), (1, 4.0)), ((0, 3.0), (1, 3.0))),
        "routing": (((1, 0.5), (0, 0.25)), ()),
        "holding_costs": (2.0, 1.0),
    }
    return Network(**values | changes)


@st.composite
def networks(draw: st.DrawFn) -> Network:
    """Random stable networks: routes may have cycles, and classes may be shared."""
    classes = draw(st.integers(2, 4))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    stations: list[list[Activity]] = [[] for _ in range(draw(st.integers(1, 3)))]
    for queue in range(classes):
        for s in random.permutation(len(stations))[: random.integers(1, 3)]:
            stations[s].append(Activity(queue, float(random.uniform(20, 40))))
    routing = random.dirichlet(np.ones(classes + 1), classes)[:, :-1] * 0.8
    return Network(
        "random",
        arrivals=[*random.uniform(0, 1, classes - 1).tolist(), 0.5],  # type: ignore[arg-type]
        stations=[station for station in stations if station],  # type: ignore[arg-type]
        routing=tuple(tuple(enumerate(row.tolist())) for row in routing),
        holding_costs=tuple(random.uniform(0, 2, classes).tolist()),
    )


# --- the description -------------------------------------------------------------------------


def test_flows_solve_the_traffic_equations() -> None:
    # 4/3 visits to class 0 for each customer, half of them followed by one to class 1
    np.testing.assert_allclose(feedback().flows(), [4 / 3, 2 / 3])
    np.testing.assert_allclose(criss_cross("BH").network.flows(), [0.9, 0.9, 0.9])


def test_loads_by_hand() -> None:
    np.testing.assert_allclose(criss_cross("IM").network.loads(), [0.6, 0.4])
    np.testing.assert_allclose(reentrant().network.loads(), [0.8, 0.9])
    np.testing.assert_allclose(tandem().network.loads(), [0.5, 0.6])


def test_loads_where_servers_share_classes() -> None:
    # Server 1 has class 1 alone and a share z of its time for class 0: both are equally loaded
    # where (2/3) / 4 + z = (4/3 - 2 z) / 3, that is z = 1/6.
    np.testing.assert_allclose(feedback().loads(), [1 / 3, 1 / 3])
    # Harrison's rates: a + b = 1.17 of class 1 with a <= r and b / 0.5 + 0.36 <= r; r = 0.9.
    np.testing.assert_allclose(n_model(load=0.9).network.loads(), [0.9, 0.9])


@pytest.mark.parametrize("stations", range(2, 8))
def test_every_load_of_the_six_class_network_is_nine_tenths(stations: int) -> None:
    network = six_class(stations).network
    np.testing.assert_allclose(network.flows(), 9 / 140)
    np.testing.assert_allclose(network.loads(), 0.9)


def test_routes_of_the_six_class_network() -> None:
    to = [[j for j, _ in successors] for successors in six_class(3).network.routing]
    assert to == [[3], [4], [5], [6], [7], [8], [1], [], []]
    assert [a.rate for a in six_class(3).network.stations[1]] == [1 / 6, 1 / 7, 1]


def test_overload_warns() -> None:
    stations = ((Activity(0, 2.0), Activity(1, 2.0)), (Activity(2, 1.0),))
    routing = (((2, 1.0),), (), ())
    message = r"^station 2 \(stations\[1\]\) of 'busy' has load 1\.1, not below 1: .*lower arrivals"
    with pytest.warns(UserWarning, match=message):
        QueueingEnv(Network("busy", (1.1, 0.1, 0.0), stations, routing, (1.0, 1.0, 1.0)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"arrivals": ()}, "arrivals=() is empty; give the rate of each class"),
        ({"arrivals": (-1, 0)}, "arrivals[0]=-1 is negative or infinite; give 0 or more"),
        ({"arrivals": (0, 0)}, "arrivals=(0, 0) are all 0; give a rate above 0"),
        ({"holding_costs": (1,)}, "holding_costs has 1 entries and arrivals 2; give one for each"),
        ({"holding_costs": (1, np.nan)}, "holding_costs[1]=nan is negative or infinite; give 0"),
        ({"stations": ()}, "stations do not serve class 0, which customers reach; add it"),
        ({"stations": (((0, 1),),)}, "stations do not serve class 1, which customers reach"),
        ({"stations": ((), ((0, 1),))}, "stations[0]=() has no activity; give it one or leave"),
        ({"stations": (((0, 1), (2, 1)),)}, "stations[0] names class 2; classes are 0 to 1"),
        ({"stations": (((0, 1), (0, 2)),)}, "stations[0] serves a class twice: [0, 0]; name each"),
        (
            {"stations": (((0, 1), (1, 0)),)},
            "rate of stations[0] for class 1=0 is not positive",
        ),
        ({"routing": ((),)}, "routing has 1 entries and arrivals 2; give one for each class"),
        ({"routing": (((2, 1),), ())}, "routing[0] names class 2; classes are 0 to 1"),
        ({"routing": (((1, 0.6), (0, 0.6)), ())}, "is not a distribution; give probabilities with"),
        ({"routing": (((1, -0.1),), ())}, "routing[0]=((1, -0.1),) is not a distribution; give"),
        ({"routing": (((1, 1),), ((0, 1),))}, "customers of class 0 never leave the network"),
    ],
)
def test_bad_networks(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        feedback(**changes)
    assert "\n" not in str(caught.value)


def test_a_network_of_lists_is_hashable() -> None:
    assert hash(feedback(arrivals=[1.0, 0.0], routing=[[(1, 0.5), (0, 0.25)], []])) == hash(
        feedback()
    )


def test_a_network_without_a_choice_is_refused() -> None:
    with pytest.raises(ValueError, match="leaves no server a choice; set idling=True"):
        QueueingEnv(tandem().network)


# --- the simulator ---------------------------------------------------------------------------


def event_laws(
    env: QueueingEnv, queues: tuple[int, ...], action: tuple[int, ...]
) -> dict[tuple[int, ...], float]:
    """The law of the next queues, exactly: the simulator's own step in each part of [0, 1)."""
    cuts = np.unique(np.concatenate([[0.0], env.events.start, env.events.end]))
    middles = jnp.asarray((cuts[1:] + cuts[:-1]) / 2, jnp.float32)
    after = jax.vmap(env.after, (None, None, 0))(jnp.array(queues), jnp.array(action), middles)
    law: dict[tuple[int, ...], float] = {}
    for probability, row in zip(np.diff(cuts), after.tolist(), strict=True):
        law[tuple(row)] = law.get(tuple(row), 0.0) + float(probability)
    return law


def law_of(env: QueueingEnv, queues: tuple[int, ...], *action: int) -> dict[Any, float]:
    return {k: pytest.approx(v) for k, v in event_laws(env, queues, action).items()}


def test_criss_cross_law_by_hand() -> None:
    env = criss_cross("BH")  # rates .9, .9, 2, 1: 4.8 in all
    common = {(2, 1, 1): 0.9 / 4.8, (1, 1, 2): 0.9 / 4.8, (1, 0, 1): 1 / 4.8}
    assert common | {(0, 2, 1): 2 / 4.8} == law_of(env, (1, 1, 1), 0)
    assert common | {(1, 1, 0): 2 / 4.8} == law_of(env, (1, 1, 1), 1)
    nothing = {(1, 0, 1): 0.9 / 4.8, (0, 0, 2): 0.9 / 4.8, (0, 0, 1): 3 / 4.8}
    assert law_of(env, (0, 0, 1), 0) == nothing, "a server at an empty class does nothing"


def test_law_with_shared_classes_and_feedback_by_hand() -> None:
    env = QueueingEnv(feedback())  # rates: arrivals 1, server 1 up to 4, server 2 up to 3; 8
    # Both at class 0: server 1 at rate 2 of 4; a quarter of the services change nothing.
    both = {(3, 1): 1 / 8, (1, 2): 2.5 / 8, (1, 1): 1.25 / 8, (2, 1): (1.25 + 2) / 8}
    assert both == law_of(env, (2, 1), 0, 0)
    alone = {(2, 1): 1 / 8, (0, 2): 1 / 8, (0, 1): 0.5 / 8, (1, 1): 5.5 / 8}
    assert alone == law_of(env, (1, 1), 0, 0), "server 2 finds nobody whom server 1 has not"
    assert law_of(env, (1, 1), 1, 1) == {(2, 1): 1 / 8, (1, 0): 4 / 8, (1, 1): 3 / 8}


def test_rewards_are_the_costs_before_the_event() -> None:
    env = n_model()
    step = env.step(jax.random.key(0), jnp.array([2, 5]), jnp.array([0]))
    assert float(step.reward) == -(3 * 2 + 5) and step.terminated is False
    assert np.abs(np.asarray(step.state) - [2, 5]).sum() <= 1


BOXES = [
    (criss_cross("BM"), 2),
    (criss_cross("IH", idling=True), 2),
    (n_model(), 4),
    (n_model(idling=True), 3),
    (tandem(), 3),
    (reentrant(), 2),
    (reentrant(stations=(1, 2, 1, 2), service_times=(0.2, 0.5, 0.3, 0.1)), 1),
    (six_class(2), 1),
    (QueueingEnv(feedback(), idling=True), 3),
    (tandem(buffer=3), 3),
    (QueueingEnv(feedback(), idling=True, name="feedback, buffer", buffer=2), 2),
]


@pytest.mark.parametrize(("env", "size"), BOXES, ids=lambda value: getattr(value, "name", ""))
def test_the_simulators_law_is_the_exact_one(env: QueueingEnv, size: int) -> None:
    """In every state and under every action that the mask allows; outside the box, nothing."""
    mdp = env.exact(size)
    kernel = mdp.kernel.toarray().reshape(mdp.num_actions, mdp.num_states, mdp.num_states)
    cuts = np.unique(np.concatenate([[0.0], env.events.start, env.events.end]))
    states = np.indices(mdp.shape).reshape(len(mdp.shape), -1).T
    actions = np.stack(np.unravel_index(np.arange(mdp.num_actions), env.spaces.categories), 1)
    found = np.asarray(every_successor(env, states, actions, (cuts[1:] + cuts[:-1]) / 2))
    for s, a in itertools.product(range(len(states)), range(len(actions))):
        if not mdp.available[s, a]:
            continue
        row = np.zeros(mdp.num_states)
        for probability, queues in zip(np.diff(cuts), found[s, a], strict=True):
            inside = queues.max() <= size
            row[np.ravel_multi_index(queues, mdp.shape) if inside else s] += probability
        np.testing.assert_allclose(row, kernel[a, s], atol=1e-15)
    rewards = np.where(mdp.available, jax.vmap(env.reward)(states)[:, None], -np.inf)
    np.testing.assert_allclose(mdp.rewards, rewards, rtol=1e-6)
    if env.buffer:
        assert found.max() == size
        costs = jax.vmap(env.costs)(states)
        assert set(costs) == set(mdp.costs)
        for name, cost in costs.items():
            expected = mdp.available * np.asarray(cost)[:, None]
            np.testing.assert_allclose(mdp.costs[name], expected, rtol=1e-6)


def test_a_buffer_is_the_box_of_the_exact_model() -> None:
    env = tandem(buffer=3)
    assert env.name == "jax:tandem?buffer=3" and env.exact().shape == (4, 4)
    with pytest.raises(InputError, match=r"size=5 is not the buffer of .*, 3; leave it out"):
        env.exact(5)
    with pytest.raises(InputError, match="size=0 makes no model: queues are unlimited"):
        tandem().exact()
    with pytest.raises(InputError, match="buffer=-1 is too small; give 0 or more"):
        tandem(buffer=-1)
    # Server 1 is blocked: what it chooses is not replaced, as it is at the walls of other boxes.
    always = env.exact_policy(lambda queues: jnp.zeros(2, jnp.int32))
    assert (always == 0).all()


@partial(jax.jit, static_argnums=0)
def every_successor(env: QueueingEnv, states: Any, actions: Any, uniforms: Any) -> Any:
    """[states, actions, uniforms, classes]"""
    of_uniforms = jax.vmap(env.after, (None, None, 0))
    of_actions = jax.vmap(of_uniforms, (None, 0, None))
    return jax.vmap(of_actions, (0, None, None))(states, actions, uniforms)


@pytest.mark.parametrize(("env", "size"), BOXES, ids=lambda value: getattr(value, "name", ""))
def test_available_is_what_the_mask_allows(env: QueueingEnv, size: int) -> None:
    mdp = env.exact(size)
    states = np.indices(mdp.shape).reshape(len(mdp.shape), -1).T
    masks = np.asarray(jax.jit(jax.vmap(env.mask))(states))
    ends = np.cumsum([0, *env.spaces.categories])
    for a in range(mdp.num_actions):
        row = np.array(np.unravel_index(a, env.spaces.categories))
        np.testing.assert_array_equal(mdp.available[:, a], masks[:, ends[:-1] + row].all(1))


def test_masks_by_hand() -> None:
    def mask(env: QueueingEnv, *queues: int) -> list[int]:
        return np.asarray(env.mask(jnp.array(queues))).astype(int).tolist()

    assert mask(criss_cross(), 1, 5, 0) == [1, 0] and mask(criss_cross(), 0, 5, 0) == [1, 1]
    assert mask(n_model(), 1, 1) == [0, 1], "server 1 has the only customer of class 1"
    assert mask(n_model(), 2, 0) == [1, 0] and mask(n_model(), 1, 0) == [1, 1]
    assert mask(n_model(idling=True), 1, 0) == [1, 1, 1, 0, 1], "server 1 may idle"
    assert mask(six_class(), 0, 1, 2, 0, 0, 0) == [0, 1, 1, 1, 1, 1]
    assert mask(tandem(), 0, 1) == [0, 1, 1, 1]


def test_observations_are_mask_and_features() -> None:
    env = criss_cross()
    obs = np.asarray(env.observation(jnp.array([1, 300, 0])))
    assert obs.shape == (env.spaces.observation_size,) and obs.dtype == np.float32
    assert obs[:2].tolist() == [1, 0] and env.spaces.mask_size == 2
    np.testing.assert_array_equal(obs[2:], scaled(jnp.array([1, 300, 0])))
    np.testing.assert_allclose(scaled(jnp.array([0, 40])), [0, np.log(41), 0, 2], rtol=1e-6)


@given(networks(), st.booleans(), st.integers(0, 2**32 - 1))
@examples
def test_random_networks(network: Network, idling: bool, seed: int) -> None:
    """From random queues under random allowed actions: masks, work and numbers of customers"""
    env = QueueingEnv(network, idling or not network.decisions())
    ends = np.cumsum(env.spaces.categories)[:-1]

    def step(queues: Any, noise: Any, uniform: Any) -> Any:
        mask = env.mask(queues)
        tried = jnp.split(jnp.where(mask, noise, -1), ends)
        action = jnp.stack([jnp.argmax(each) for each in tried])
        return mask, action, env.after(queues, action, uniform)

    random = np.random.default_rng(seed)
    queues = random.integers(0, 3, (500, network.num_classes), dtype=np.int32)
    noise = random.random((500, env.spaces.policy_outputs))
    found = jax.jit(jax.vmap(step))(queues, noise, random.random(500))
    masks, actions, after = map(np.asarray, found)
    changes = after - queues
    assert (after >= 0).all() and changes.any()
    assert (np.abs(changes).sum(1) <= 2).all() and (np.abs(changes.sum(1)) <= 1).all()
    assert all(each.any(1).all() for each in np.split(masks, ends, axis=1))
    for row, state in zip(actions, queues, strict=True):
        for choice, decision in zip(row, env.decisions, strict=True):
            assert works_if_it_can(network, env.idling, decision, choice, state)


def works_if_it_can(
    network: Network, idling: bool, decision: Decision, choice: int, queues: Any
) -> bool:
    """The server serves a customer, idles by choice, or others serve all its customers."""
    earlier = network.stations[: decision.station]
    spoken_for = [each[0].queue for each in earlier if len(each) == 1 and not idling]
    spare = [
        a is not None and queues[a.queue] > spoken_for.count(a.queue) for a in decision.choices
    ]
    return spare[choice] or (decision.choices[choice] is None if idling else not any(spare))
