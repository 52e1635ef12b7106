"""The long-run rate of a process from streams that start at resets, whether or not episodes end.

Every stream starts at a reset, so that the plain mean has too much of start-ups. The process is
described by the age of its episode instead: ages below w are states of their own, and all older
ones are one state, in which the reward rate and the chance to end are constant. The gain of this
Markov chain, estimated from the streams, is the estimate. It is the ratio of reward to length over
episodes, in which those that were cut off count as long as they were seen (Kaplan and Meier 1958);
without ends it is the mean after a warm-up of w steps.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from longrun.base.student import student_quantile
from longrun.learning.envs.spaces import Array

MIN_BATCHES = 20
CONFIDENCE = 0.95
FEW_ENDS = 10
"""Ends of episodes below which their number is uncertain beyond what the batches show."""
DIVISIONS = 64
"""The first block is this part of a stream; each of the following is as long as all before it."""
SETTLING_CONFIDENCE = 0.99
FORGETTING = 3
"""Correlation times that are left out. Where correlations decay exponentially, these are six times
the time after which 1/e is left, and a quarter of a percent of the start-up remains."""
OLDER = 0.1
"""Where episodes end, ages that only this share of all steps has are taken as alike."""
AGREEMENT = 0.25
"""Most that the rate may change if half as many ages are told apart, in half widths of its
interval. In simulations 0.5 let rates pass that were far off."""


class Rate(NamedTuple):
    """An estimated long-run rate."""

    value: float
    low: float
    """lower end of the 95 % interval"""
    high: float
    restart: float
    """differential value of a new episode against that of an old one"""


class Ages(NamedTuple):
    """Streams [S, E] by the age of their episodes."""

    age: Array
    """[S, E], steps since the last reset"""
    ended: Array
    """[S, E]"""

    @property
    def ends(self) -> int:
        return int(self.ended.sum())

    @property
    def cut(self) -> bool:
        """Whether an episode was cut off by the end of its stream."""
        return not self.ended[-1].all()


def ages_of(ended: Array) -> Ages:
    """The ages of the episodes at each step, from where they ended: both [S, E]."""
    time = np.arange(len(ended))[:, None]
    began = np.zeros(ended.shape, np.int64)
    began[1:] = np.where(ended[:-1], time[1:], 0)
    return Ages(time - np.maximum.accumulate(began, axis=0), ended)


def long_run_rate(values: Array, ages: Ages, settled: int) -> Rate:
    """The rate of values [S, E], where ages from `settled` on are alike.

    With r_k the mean value at age k, S_k the share of episodes that reach it, and m the mean
    remaining length at ages from w on, where the mean value is r, the gain is
    (sum_k<w S_k r_k + S_w m r) / (sum_k<w S_k + S_w m). The interval is that of the mean of TD
    errors, value - gain + V(next age) - V(age), each with the weight of its age in the long run.
    """
    value = np.asarray(values, np.float64)
    state = np.minimum(ages.age, settled)  # [S, E], of w + 1 states
    count, total, ends = (
        np.bincount(state.ravel(), weights.ravel(), settled + 1)
        for weights in (np.ones_like(value), value, ages.ended.astype(np.float64))
    )
    alive = np.cumprod(np.append(1.0, 1 - ends[:-1] / count[:-1]))  # S_0 .. S_w
    if ends[-1]:
        visits = np.append(alive[:-1], alive[-1] * count[-1] / ends[-1])
    else:  # an old episode never ends: all of the long run is there
        visits = np.zeros(settled + 1)
        visits[-1] = 1.0
    share = visits / visits.sum()
    gain = float((share * total / count).sum())
    differential = _differential_values(total / count - gain, alive)
    after = differential[np.where(ages.ended, 0, np.minimum(ages.age + 1, settled))]
    errors = value - gain + after - differential[state]
    reach = _reach(errors, (share / count)[state])
    restart = float(differential[0])
    lower, higher = _uncertain_ends(ages, restart)
    low, high = gain - float(np.hypot(reach, lower)), gain + float(np.hypot(reach, higher))
    return Rate(gain, low, high, restart)


def _differential_values(excess: Array, alive: Array) -> Array:
    """V of each age [w + 1], 0 for old ones, from value - gain and the shares alive [w + 1].

    V(k) = value_k - gain + (1 - h_k) V(k + 1) + h_k V(0), where a share h_k ends at age k.
    """
    still = np.append(np.cumsum((alive * excess)[-2::-1])[::-1], 0.0)  # what young ages still give
    restart = still[0] / alive[-1]
    found: Array = (still + (alive - alive[-1]) * restart) / alive
    return found


def _reach(errors: Array, weights: Array) -> float:
    """Half the width of Student's interval for the sum of errors [S, E] with their weights.

    Each stream is cut into batches of equal weight, 20 or more in total. Means of long batches are
    nearly independent although single errors are not.
    """
    steps, envs = errors.shape
    per_env = min(-(-MIN_BATCHES // envs), steps)
    before = np.cumsum(weights, axis=0) - weights / 2
    whole = weights.sum(0)
    batch = np.minimum(per_env * before / np.where(whole > 0, whole, 1.0), per_env - 1).astype(int)
    batch += per_env * np.arange(envs)
    size = np.bincount(batch.ravel(), weights.ravel(), per_env * envs)
    sums = np.bincount(batch.ravel(), (weights * errors).ravel(), per_env * envs)
    number = size.sum() ** 2 / (size**2).sum()
    if number < 1.5:
        return float("inf")
    error = np.sqrt((sums**2).sum() * number / (number - 1))
    return float(student_quantile(number - 1, CONFIDENCE) * error)


def _uncertain_ends(ages: Ages, restart: float) -> tuple[float, float]:
    """How much lower and higher the rate may be, since so few ends were seen.

    The interval of a Poisson law for their number; where all episodes were seen to their end, or
    none, there is no such doubt.
    """
    if not ages.cut or not 0 < ages.ends < FEW_ENDS:
        return 0.0, 0.0
    from scipy.special import chdtri

    tail = (1 - CONFIDENCE) / 2
    least, most = chdtri(2 * ages.ends, 1 - tail) / 2, chdtri(2 * ages.ends + 2, tail) / 2
    fewer, more = (restart * (n - ages.ends) / ages.age.size for n in (least, most))
    return max(0.0, -fewer, -more), max(0.0, fewer, more)


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
    reach = student_quantile(freedom, SETTLING_CONFIDENCE) * error + negligible(tail)
    return bool(abs(own.mean() - means.mean()) > reach)


def negligible(reward: Array) -> float:
    """A difference that does not matter, and that rewards without noise show for ever."""
    return 1e-3 * float(np.abs(reward).max())
