"""Random models, whose policies all have one recurrent class, for the tests of relations."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from scipy import sparse

from longrun.tabular.mdp import MDP

examples = settings(max_examples=40, deadline=None, derandomize=True, database=None)
discounts = st.sampled_from([0.0, 0.3, 0.9, 0.999, 1 - 1e-9])
seeds = st.integers(0, 2**32 - 1)

KINDS = ("dense", "few successors", "slow", "transient")


def random_mdp(random: np.random.Generator, kind: str, states: int, actions: int) -> MDP:
    """Every row leads to state 0 with some probability, so that there is one recurrent class."""
    weights = random.random((states, actions, states))
    if kind == "few successors":
        weights *= random.random(weights.shape) < 0.3
    if kind == "slow":  # two halves that are left once in a million steps
        half = np.arange(states) < (states + 1) // 2
        weights = np.where(half[:, None, None] == half, weights, 1e-6 * weights)
    if kind == "transient":  # the last states are never entered again once they are left
        kept = np.arange(states) < (states + 1) // 2
        weights *= ~kept[:, None, None] | kept
    weights[..., 0] += 1e-6 if kind == "slow" else 0.1
    transitions = weights / weights.sum(2, keepdims=True)
    rewards = random.normal(size=(states, actions))
    available = random.random((states, actions)) < 0.8
    available[:, 0] = True
    initial = random.dirichlet(np.ones(states))
    transitions *= available[..., None]
    made: Any = transitions
    if kind == "few successors":
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
