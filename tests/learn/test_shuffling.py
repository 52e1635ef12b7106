"""Random orders: uniform permutations, with different minibatches in every epoch."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from scipy import stats

from longrun.learning.learn import minibatches

random_orders = jax.jit(minibatches.random_orders, static_argnums=(1, 2, 3))


@pytest.mark.parametrize(("n", "size"), [(1, 1), (12, 12), (23, 4), (50, 49)])
def test_every_row_is_a_permutation(n: int, size: int) -> None:
    rows = 3
    orders = random_orders(jax.random.key(n), rows, n, size)
    assert orders.shape == (rows, n)
    np.testing.assert_array_equal(np.sort(orders, axis=1), np.tile(np.arange(n), (rows, 1)))


def test_the_remainder_differs_between_epochs() -> None:
    orders = np.asarray(random_orders(jax.random.key(0), 300, 23, 4))
    assert set(orders[:, 20:].ravel()) == set(range(23))


def test_minibatches_are_random_sets() -> None:
    """How many of the first 20 of 60 numbers are in a minibatch of 15 is hypergeometric."""
    keys = jax.random.split(jax.random.key(1), 3000)
    orders = np.asarray(jax.vmap(lambda key: random_orders(key, 2, 60, 15))(keys))
    for epoch in range(2):
        for minibatch in range(4):
            among = (orders[:, epoch, 15 * minibatch : 15 * (minibatch + 1)] < 20).sum(1)
            law = stats.hypergeom(60, 20, 15)
            counts = np.bincount(among.clip(2, 8), minlength=9)[2:]
            expected = [law.cdf(2), *law.pmf(range(3, 8)), law.sf(7)]
            assert stats.chisquare(counts, 3000 * np.array(expected)).pvalue > 1e-4


def test_epochs_distribute_samples_over_other_minibatches() -> None:
    """Two samples that shared a minibatch share the next epoch's with probability about 1/4."""
    orders = np.asarray(random_orders(jax.random.key(2), 2, 4000, 1000))
    where = np.argsort(orders, axis=1) // 1000  # [epoch, sample] its minibatch
    together = where[1][where[0] == 0]
    counts = np.bincount(together, minlength=4)
    assert stats.chisquare(counts).pvalue > 1e-4
