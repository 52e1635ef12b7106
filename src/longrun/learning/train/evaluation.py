"""Evaluation: the average reward with a confidence interval, and the paper's episode metrics."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from longrun.learning.envs.spaces import Array
from longrun.learning.runs.evaluation_report import CostRate, EvaluationReport
from longrun.learning.train.long_run_rate import (
    DIVISIONS,
    Ages,
    Settling,
    ages_of,
    long_run_rate,
    negligible,
    settled_age,
)

EVAL_ENVS = 10
STEPS_EACH = 1000
PAPER_EPISODES = 10
LENGTHS = (1, 2, 4)
"""Streams that are too short to tell are simulated this many times as long."""
UNSEEN_ENDS = 3.0
"""Where none of N steps ended an episode, fewer than 3 / N do so, with 95 % confidence."""


def evaluation_shape(steps: int, time_limit: int = 0) -> tuple[int, int]:
    """(environments, steps of each): up to 10 environments, of at least 1000 steps if possible.

    Every environment starts from a reset, and short streams would measure little but the start. An
    episode with a longer time limit, 0 for none, must fit.
    """
    envs = min(EVAL_ENVS, max(1, steps // max(STEPS_EACH, time_limit)))
    return envs, -(-steps // envs)


class Streams(NamedTuple):
    """What was simulated: S steps of E independent environments, each from a reset."""

    reward: Array
    """[S, E]"""
    ended: Array
    """[S, E]"""
    costs: Array | None = None
    """[S, E, K]"""
    names: Sequence[str] = ()
    """K"""


Simulate = Callable[[int, int], Streams]
"""Makes streams from (environments E, steps S)."""


def report(
    streams: Streams, warmup: int | None = None, deterministic: bool = True
) -> EvaluationReport:
    """The report on S steps of E independent environments.

    With a `warmup` the first rows count for the episodes that begin in them, and not for the rates,
    which are plain means of the others.
    """
    ages = ages_of(streams.ended)
    found = Settling(0, True) if warmup is not None else _settled(streams, ages)
    counted = slice(warmup or 0, None)
    later = Ages(ages.age[counted], ages.ended[counted])
    rate = long_run_rate(streams.reward[counted], later, found.steps)
    left_out = warmup if warmup is not None else 0 if ages.ends else found.steps
    episodes = first_episodes(streams.reward, streams.ended)
    lengths, returns = np.array(episodes).reshape(-1, 2).T
    enough = bool(len(returns))
    return EvaluationReport(
        average_reward=rate.value,
        low=rate.low,
        high=rate.high,
        episode_return=float(returns.mean()) if enough else math.nan,
        episode_length=float(lengths.mean()) if enough else math.nan,
        episodes=len(returns),
        steps=streams.reward[left_out:].size,
        warmup=left_out,
        settled=found.done and math.isfinite(rate.low),
        costs={
            name: CostRate(*long_run_rate(cost[counted], later, found.steps)[:3])
            for name, cost in zip(streams.names, _costs(streams), strict=True)
        },
        episode_return_std=float(returns.std(ddof=1)) if len(returns) > 1 else math.nan,
        unfinished=int((~streams.ended[:, :PAPER_EPISODES].any(0)).sum()) if ages.ends else 0,
        deterministic=deterministic,
    )


def _settled(streams: Streams, ages: Ages) -> Settling:
    """The age from which on the reward and all costs are taken as constant."""
    found = [settled_age(values, ages) for values in (streams.reward, *_costs(streams))]
    return Settling(max(each.steps for each in found), all(each.done for each in found))


def _costs(streams: Streams) -> list[Array]:
    """[S, E] for each name."""
    if streams.costs is None:
        return []
    return [streams.costs[..., k] for k in range(len(streams.names))]


def measured(
    simulate: Simulate,
    shape: tuple[int, int],
    warmup: int | None = None,
    deterministic: bool = True,
) -> EvaluationReport:
    """The report on S steps of each of E environments (shape is E, S), after a warm-up.

    With `warmup` None it is measured, within the steps. Streams are simulated again, up to four
    times as long, where the rewards have not settled or a first episode has not ended. So are those
    without an end, if ends that may be unseen would matter.
    """
    envs, each = shape
    if warmup is not None:
        return report(simulate(envs, warmup + each), warmup, deterministic)
    for length in LENGTHS:
        streams = simulate(envs, length * each)
        found = report(streams, deterministic=deterministic)
        if found.settled and not found.unfinished and not _ends_would_matter(streams, found.warmup):
            break
    return found


def _ends_would_matter(streams: Streams, warmup: int) -> bool:
    """Whether ends of episodes could be as frequent as is possible unseen, and change a rate.

    Rewards that are all equal may be so because an end alone has another one.
    """
    if streams.ended.any():
        return False
    ages = ages_of(streams.ended)
    for values in (streams.reward, *_costs(streams)):
        rate = long_run_rate(values, ages, warmup)
        change = abs(rate.restart) * UNSEEN_ENDS / values.size
        if change > (rate.high - rate.low) / 2 + negligible(values):
            return True
    return len(streams.reward) >= DIVISIONS and bool(np.ptp(streams.reward) == 0)


def first_episodes(reward: Array, ended: Array) -> list[tuple[float, float]]:
    """Lengths and returns of the first episodes of up to 10 environments, 10 in all if possible.

    Each environment's first, or where all have enough as many of each as make 10; none if one has
    not ended its first. To take those that have ended would favour short episodes.
    """
    first = ended[:, :PAPER_EPISODES]
    envs, least = first.shape[1], int(first.sum(0).min())
    wanted = -(-PAPER_EPISODES // envs)
    found = []
    for number in range(wanted if least >= wanted else min(least, 1)):
        for env in range(envs):
            ends = np.flatnonzero(first[:, env]) + 1
            begin, end = ends[number - 1] if number else 0, ends[number]
            found.append((float(end - begin), float(reward[begin:end, env].sum())))
    return found[:PAPER_EPISODES]
