"""How long a process that starts from a reset takes to settle, measured from its rewards."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from longrun.base.student import student_quantile
from longrun.learning.envs.spaces import Array
from longrun.learning.train.long_run_rate import Ages, long_run_rate

DIVISIONS = 64
"""The first block is this part of a stream; each of the following is as long as all before it."""
CONFIDENCE = 0.99
FORGETTING = 3
"""Correlation times that are left out. Where correlations decay exponentially, these are six times
the time after which 1/e is left, and a quarter of a percent of the start-up remains."""
OLDER = 0.1
"""Where episodes end, ages that only this share of all steps has are taken as alike."""
AGREEMENT = 0.25
"""Most that the rate may change if half as many ages are told apart, in half widths of its
interval. In simulations 0.5 let rates pass that were far off."""


class Settling(NamedTuple):
    steps: int
    """the age from which on the rewards do not depend on it any more"""
    done: bool
    """False if they still do"""


def settled_age(reward: Array, ages: Ages) -> Settling:
    """The age from which on rewards [S, E] and the chance to end are taken as constant.

    Where no episode ends, it is how long the streams take to settle. Where some end, it is as high
    as the steps allow, since telling ages apart costs little; whether they were followed for long
    enough shows in the rate, which must not depend on it.
    """
    if not ages.ends:
        return settling(reward)
    age = int(np.quantile(ages.age, 1 - OLDER))
    rate, check = long_run_rate(reward, ages, age), long_run_rate(reward, ages, age // 2)
    allowed = AGREEMENT * (rate.high - rate.low) / 2 + negligible(reward)
    return Settling(age, abs(rate.value - check.value) <= allowed)


def settling(reward: Array) -> Settling:
    """How many steps of streams [S, E] to leave out: the larger of two times.

    A start-up that is hidden in the noise still fades at the rate at which the process forgets:
    `FORGETTING` times the correlation time of the second half is left out in any case.

    For a start-up that can be seen, the first half is cut into blocks, each twice as long as that
    before. A block differs if its mean is outside the interval around that of the second half. The
    error of a mean comes from parts of the second half that are as long as the block, so that it
    includes the correlation of successive rewards, and from the differences between environments,
    so that a rare event in one of them is no start-up. Twice the time of the last block that
    differs is left out.
    """
    steps, half = len(reward), len(reward) // 2
    size = steps // DIVISIONS
    if not size:
        return Settling(0, True)  # too few to tell
    edges = [0, *(size * 2**k for k in range(6))]  # up to half of all
    tail = reward[half:]
    blocks = [(begin, end) for begin, end in pairwise(edges) if _differs(reward[begin:end], tail)]
    last = blocks[-1][1] if blocks else 0
    forgotten = int(np.ceil(FORGETTING * correlation_time(tail)))
    return Settling(min(max(2 * last, forgotten), half), last < edges[-1] and forgotten <= half)


def correlation_time(reward: Array) -> float:
    """The integrated autocorrelation time of streams [T, E], in steps; 0 if all are constant.

    It is the factor by which the variance of a mean exceeds that of independent rewards. The sum of
    autocorrelations ends at the first lag that is five times the sum up to it, beyond which there
    is noise alone (Sokal 1997).
    """
    steps = len(reward)
    centred = reward - reward.mean()
    spectrum = np.abs(np.fft.rfft(centred, 2 * steps, axis=0)) ** 2
    covariance = np.fft.irfft(spectrum.mean(1))[:steps] / np.arange(steps, 0, -1)
    if covariance[0] <= negligible(reward) ** 2:
        return 0.0
    times = 2 * np.cumsum(covariance / covariance[0]) - 1  # up to each lag
    beyond = np.flatnonzero(np.arange(steps) >= 5 * times)
    return max(1.0, float(times[beyond[0] if len(beyond) else -1]))


def _differs(block: Array, tail: Array) -> bool:
    """Whether the mean of a block [L, E] is not that of the tail [T, E]."""
    length, envs = block.shape
    parts = len(tail) // length
    means = tail[: parts * length].reshape(parts, length, envs).mean(1)  # [parts, E]
    own = block.mean(0)  # [E]
    if means.size < 2:
        return False
    spread = own_spread = float(means.var(ddof=1))
    freedom = means.size - 1
    if envs >= 4:
        # Between environments alone, since a trend that all share is what is looked for.
        spread = float(means.var(1, ddof=1).mean())
        own_spread, freedom = max(spread, float(own.var(ddof=1))), envs - 1
    error = np.sqrt(own_spread / envs + spread / means.size)
    reach = student_quantile(freedom, CONFIDENCE) * error + negligible(tail)
    return bool(abs(own.mean() - means.mean()) > reach)


def negligible(reward: Array) -> float:
    """A difference that does not matter, and that rewards without noise show for ever."""
    return 1e-3 * float(np.abs(reward).max())
