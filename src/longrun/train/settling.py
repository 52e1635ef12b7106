"""How long a process that starts from a reset takes to settle, measured from its rewards."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from longrun.envs.spaces import Array
from longrun.train.evaluation import (
    EvaluationReport,
    Streams,
    report,
    student_quantile,
)

DIVISIONS = 64
"""The first block is this part of a stream; each of the following is as long as all before it."""
CONFIDENCE = 0.99
FORGETTING = 3
"""Correlation times that are left out. Where correlations decay exponentially, these are six times
the time after which 1/e is left, and a quarter of a percent of the start-up remains."""
LENGTHS = (1, 2, 4)
"""Streams that have not settled in their first half are simulated this many times as long."""

Simulate = Callable[[int, int], Streams]
"""Of (environments E, steps S)."""


class Settling(NamedTuple):
    steps: int
    """to be left out at the beginning of each stream"""
    done: bool
    """False if the rewards still change in the second quarter"""


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
    if covariance[0] <= _negligible(reward) ** 2:
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
    reach = student_quantile(freedom, CONFIDENCE) * error + _negligible(tail)
    return bool(abs(own.mean() - means.mean()) > reach)


def _negligible(reward: Array) -> float:
    """A difference that does not matter, and that rewards without noise show for ever."""
    return 1e-3 * float(np.abs(reward).max())


def measured(
    simulate: Simulate, shape: tuple[int, int], warmup: int | None = None
) -> EvaluationReport:
    """The report on S steps of each of E environments (shape is E, S), after a warm-up.

    With `warmup` None it is measured, within the steps; streams that have not settled are simulated
    again, up to four times as long. Where episodes end there is none: every episode has the same
    start-up, which belongs to the long run.
    """
    envs, each = shape
    if warmup is not None:
        return report(simulate(envs, warmup + each), warmup)
    streams = Streams(np.zeros((0, envs)), np.zeros((0, envs), bool))
    found = Settling(0, True)
    for length in LENGTHS:
        streams = simulate(envs, length * each)
        found = Settling(0, True) if streams.ended.any() else settling(streams.reward)
        if found.done:
            break
    return report(streams, found.steps, found.done)
