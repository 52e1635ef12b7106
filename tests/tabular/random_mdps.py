"""Random models of several kinds, for the tests of relations."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from scipy import sparse

from longrun.exact.tabular.mdp import MDP

examples = settings(max_examples=40, deadline=None, derandomize=True, database=None)
discounts = st.sampled_from([0.0, 0.3, 0.9, 0.999, 1 - 1e-9])
seeds = st.integers(0, 2**32 - 1)

KINDS = (
    "dense",
    "few successors",
    "slow",
    "transient",
    "periodic",
    "multichain",
    "nearly reducible",
)
PERIOD = 3
COUPLING = {"slow": 1e-6, "nearly reducible": 1e-9}
"""How often the halves of these models are left."""


def random_mdp(random: np.random.Generator, kind: str, states: int, actions: int) -> MDP:
    """Every policy that takes all available actions has one recurrent class, with state 0.

    In all kinds but "multichain" every policy has one: each row leads to state 0, or in "periodic",
    where states are in PERIOD classes that lead round, to the first state of the next class.
    "multichain" has two halves that only the last action leaves.
    """
    weights = random.random((states, actions, states))
    numbers = np.arange(states)
    half = numbers < (states + 1) // 2
    goal = np.zeros((states, actions, 1), int)  # where each row leads with some probability
    if kind == "few successors":
        weights *= random.random(weights.shape) < 0.3
    if kind in COUPLING:
        weights = np.where(half[:, None, None] == half, weights, COUPLING[kind] * weights)
    if kind == "transient":  # the last states are never entered again once they are left
        weights *= ~half[:, None, None] | half
    if kind == "periodic":
        period = min(PERIOD, states)
        goal[:] = ((numbers + 1) % period)[:, None, None]
        weights *= numbers % period == goal
    if kind == "multichain" and actions > 1:
        goal[~half, :-1] = (states + 1) // 2
        weights[:, :-1] *= half[:, None, None] == half
    strength = np.take_along_axis(weights, goal, 2) + COUPLING.get(kind, 0.1)
    np.put_along_axis(weights, goal, strength, 2)
    transitions = weights / weights.sum(2, keepdims=True)
    rewards = random.normal(size=(states, actions))
    available = random.random((states, actions)) < 0.8
    available[:, [0, -1]] = True
    initial = random.dirichlet(np.ones(states))
    transitions *= available[..., None]
    made: Any = transitions
    if kind in ("few successors", "periodic"):
        made = [sparse.csr_array(transitions[:, a]) for a in range(actions)]
    return MDP(made, rewards, available=available, initial=initial)


def random_policy(random: np.random.Generator, mdp: MDP) -> Any:
    weights = mdp.available * (random.random(mdp.available.shape) ** 3 + 1e-3)
    return weights / weights.sum(1, keepdims=True)


@st.composite
def pairs(draw: st.DrawFn, kinds: tuple[str, ...] = KINDS) -> tuple[MDP, Any, Any]:
    """A model and two of its policies, the second one sometimes close to the first or equal."""
    random = np.random.default_rng(draw(seeds))
    states, actions = draw(st.integers(1, 7)), draw(st.integers(1, 4))
    mdp = random_mdp(random, draw(st.sampled_from(kinds)), states, actions)
    old, new = random_policy(random, mdp), random_policy(random, mdp)
    step = draw(st.sampled_from([1.0, 0.1, 1e-6, 0.0]))
    return mdp, old, (1 - step) * old + step * new
