"""The probability laws that the models are built from."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def distinct_numbers(
    random: np.random.Generator, rows: int, count: int, below: int
) -> NDArray[np.int64]:
    """[rows, count] different numbers in each row, all sets equally likely: Floyd's algorithm.

    Entry i is drawn from 0 to top; if an earlier entry has that number already, it becomes top,
    which no earlier entry can be.
    """
    chosen = np.empty((rows, count), np.int64)
    for i, top in enumerate(range(below - count, below)):
        drawn = random.integers(0, top, rows, endpoint=True)
        taken = (chosen[:, :i] == drawn[:, None]).any(1)
        chosen[:, i] = np.where(taken, top, drawn)
    return chosen


def binomial_laws(most: int, probability: float) -> Array:
    """[n, k]: the probability of k successes in n trials, for n and k up to `most`."""
    laws = np.zeros((most + 1, most + 1))
    laws[0, 0] = 1
    for trials in range(1, most + 1):
        laws[trials] = (1 - probability) * laws[trials - 1]
        laws[trials, 1:] += probability * laws[trials - 1, :-1]
    return laws


def stock_after_poisson_demand(most: int, mean: float) -> tuple[Array, Array]:
    """Laws [y, left] of what is left of stock y up to `most`, and mean demand not met [y].

    Both are exact for the whole demand D, for any `most`.
    """
    from scipy import special

    stock = np.arange(most + 1)
    equals = np.exp(special.xlogy(stock, mean) - mean - special.gammaln(stock + 1))
    reaches = np.append(1.0, special.pdtrc(stock, mean))  # [k]: P(D >= k)
    laws = np.zeros((most + 1, most + 1))
    for y in range(most + 1):
        laws[y, 1 : y + 1] = equals[:y][::-1]
        laws[y, 0] = reaches[y]
    # E max(D - y, 0) = E[D; D > y] - y P(D > y), where k P(D = k) = mean P(D = k - 1).
    return laws, mean * reaches[:-1] - stock * reaches[1:]
