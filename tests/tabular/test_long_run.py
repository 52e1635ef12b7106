"""The long run of a policy from its start, with one recurrent class or several."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_mdps import examples, pairs, seeds
from scipy import sparse

from longrun.exact.tabular import evaluation
from longrun.exact.tabular.long_run import long_run
from longrun.tabular import MDP, evaluate


def gambler(start: Any = (0, 1, 0, 0), **settings: Any) -> MDP:
    """Up with 1/2, down with 1/2, until 0 or 3 are reached; there 1 and 10 are earned."""
    walk = [[1, 0, 0, 0], [0.5, 0, 0.5, 0], [0, 0.5, 0, 0.5], [0, 0, 0, 1]]
    return MDP(np.array(walk)[:, None], [[1], [99], [99], [10]], initial=start, **settings)


def test_two_classes_by_hand() -> None:
    """From state 1 the walk ends at 0 with probability 2/3."""
    found = long_run(gambler(), [0] * 4)
    assert found.gain == pytest.approx(2 / 3 + 10 / 3)
    assert found.law == pytest.approx([2 / 3, 0, 0, 1 / 3])
    assert [each.states.tolist() for each in found.classes] == [[0], [3]]
    assert [each.probability for each in found.classes] == pytest.approx([2 / 3, 1 / 3])
    assert [each.gain for each in found.classes] == [1, 10]


def test_classes_that_are_not_reached_do_not_count() -> None:
    found = long_run(gambler((0, 0, 0, 1)), [0] * 4)
    assert (found.gain, len(found.classes)) == (10, 1)
    assert found.law.tolist() == [0, 0, 0, 1]
    mixed = long_run(gambler((0.25, 0, 0, 0.75)), [0] * 4)
    assert mixed.law == pytest.approx([0.25, 0, 0, 0.75])


@examples
@given(pairs())
def test_one_class_is_as_evaluated(parts: tuple[MDP, Any, Any]) -> None:
    mdp, policy, _ = parts
    found, exact = long_run(mdp, policy), evaluate(mdp, policy)
    assert found.gain == pytest.approx(exact.gain, rel=1e-10, abs=1e-11)
    np.testing.assert_allclose(found.law, exact.stationary, atol=1e-12)
    assert [each.probability for each in found.classes] == [1]


@examples
@given(seeds, st.integers(2, 12), st.booleans())
def test_the_law_is_the_limit_of_mean_laws(seed: int, states: int, large: bool) -> None:
    """The mean of d_0 P^t over a long time, by repeated squaring; periods do not matter."""
    random = np.random.default_rng(seed)
    matrix = np.zeros((states, states))
    for s in range(states):
        count = int(random.integers(1, 3))
        matrix[s, random.choice(states, count, replace=False)] = 1 / count
    law = random.dirichlet(np.ones(states))
    mdp = MDP([sparse.csr_array(matrix)], random.normal(size=(states, 1)), initial=law)
    with pytest.MonkeyPatch.context() as patch:
        if large:
            patch.setattr(evaluation, "DENSE", 1)
        found = long_run(mdp, np.zeros(states, int))
    power = (matrix + np.eye(states)) / 2
    for _ in range(60):
        power = power @ power
        power /= power.sum(1, keepdims=True)
    np.testing.assert_allclose(found.law, law @ power, atol=1e-9)
    assert found.gain == pytest.approx(found.law @ mdp.rewards[:, 0], abs=1e-9)
    assert sum(each.probability for each in found.classes) == pytest.approx(1)
