"""Evaluation: the average reward with a confidence interval, and the paper's episode metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from longrun.envs.spaces import Array

EVAL_ENVS = 10
STEPS_EACH = 1000
MIN_BATCHES = 20
PAPER_EPISODES = 10


def evaluation_shape(steps: int) -> tuple[int, int]:
    """(environments, steps of each): up to 10 environments, of at least 1000 steps if possible.

    Every environment starts from a reset, and short streams would measure little but the start.
    """
    envs = min(EVAL_ENVS, max(1, steps // STEPS_EACH))
    return envs, -(-steps // envs)


class CostRate(NamedTuple):
    """A cost per step, with its batch-means 95 % interval."""

    rate: float
    low: float
    high: float


@dataclass(frozen=True)
class EvaluationReport:
    """Results of a policy over a fixed number of steps, resets included."""

    average_reward: float
    """reward per step: the estimate of the gain"""
    low: float
    """lower end of the batch-means 95 % interval of the average reward"""
    high: float
    """its upper end"""
    episode_return: float
    """mean return of the first finished episodes, up to 10 (the paper's); NaN when none ended"""
    episode_length: float
    """mean length of the same episodes"""
    episodes: int
    """the number of these episodes"""
    steps: int
    """all that count"""
    warmup: int = 0
    """steps of each environment, before these, that do not count"""
    settled: bool = True
    """False if the rewards still changed at the end of the warm-up, which was measured"""
    costs: dict[str, CostRate] = field(default_factory=dict)
    """the long-run average of each recorded cost"""

    @property
    def episode_average_reward(self) -> float:
        """Reward per step within those episodes, the paper's second metric."""
        return self.episode_return / self.episode_length

    def __str__(self) -> str:
        rate = f"{self.average_reward:.4g} per step [{self.low:.4g}, {self.high:.4g}]"
        costs = "".join(
            f", {name} {cost.rate:.4g} per step [{cost.low:.4g}, {cost.high:.4g}]"
            for name, cost in self.costs.items()
        )
        if not self.episodes:
            after = f" after a warm-up of {self.warmup} in each environment" if self.warmup else ""
            still = "" if self.settled else "; the rewards have not settled, give more steps"
            told = f"average reward {rate} over {self.steps} steps{after}, no episode ended"
            return f"{told}{costs}{still}"
        return (
            f"average reward {rate}, episode return {self.episode_return:.4g}"
            f" over the first {self.episodes} episodes, of {self.episode_length:.4g} steps{costs}"
        )


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


def report(streams: Streams, warmup: int = 0, settled: bool = True) -> EvaluationReport:
    """The report on S steps of E independent environments.

    The first `warmup` rows count for the episodes that begin in them, and not for the rates.
    """
    reward, ended = streams.reward, streams.ended
    counted = reward[warmup:]
    low, high = batch_means_interval(counted)
    returns, lengths = finished_episodes(reward, ended)
    return EvaluationReport(
        average_reward=float(counted.mean()),
        low=low,
        high=high,
        episode_return=float(np.mean(returns)) if returns else float("nan"),
        episode_length=float(np.mean(lengths)) if lengths else float("nan"),
        episodes=len(returns),
        steps=counted.size,
        warmup=warmup,
        settled=settled,
        costs=_cost_rates(streams, warmup),
    )


def _cost_rates(streams: Streams, warmup: int) -> dict[str, CostRate]:
    if streams.costs is None:
        return {}
    counted = np.asarray(streams.costs[warmup:], np.float64)
    columns = {name: counted[..., k] for k, name in enumerate(streams.names)}
    return {
        name: CostRate(float(cost.mean()), *batch_means_interval(cost))
        for name, cost in columns.items()
    }


def batch_means_interval(reward: Array, confidence: float = 0.95) -> tuple[float, float]:
    """Student's interval of the mean from batches of consecutive rewards ([S, E]).

    Each environment's stream is cut into batches, 20 or more in total. Means of long batches are
    nearly independent although single rewards are not.
    """
    steps, envs = reward.shape
    per_env = min(-(-MIN_BATCHES // envs), steps)
    size = steps // per_env
    batches = reward[: size * per_env].reshape(per_env, size, envs).mean(1).reshape(-1)
    if len(batches) < 2:
        return float("-inf"), float("inf")
    reach = float(student_reach(batches, confidence))
    return float(reward.mean()) - reach, float(reward.mean()) + reach


def student_reach(samples: Array, confidence: float = 0.95) -> Array:
    """Half the width of Student's interval for the mean over the last axis: [..., n] -> [...]."""
    n = samples.shape[-1]
    error = samples.std(-1, ddof=1) / np.sqrt(n)
    reach: Array = student_quantile(n - 1, confidence) * error
    return reach


def student_quantile(freedom: float, confidence: float) -> float:
    """How many standard errors a two-sided interval of Student's law reaches."""
    from scipy.special import stdtrit  # a tenth of the start of every run, if it were above

    return float(stdtrit(freedom, (1 + confidence) / 2))


def finished_episodes(reward: Array, ended: Array) -> tuple[list[float], list[int]]:
    """Returns and lengths of the paper's 10 episodes: each environment's first, then its second...

    Taking them in the order in which they end would favour short episodes.
    """
    episodes = []
    for env in range(reward.shape[1]):
        ends = np.flatnonzero(ended[:, env]) + 1
        for number, (begin, end) in enumerate(zip([0, *ends], ends, strict=False)):
            episodes.append((number, env, float(reward[begin:end, env].sum()), int(end - begin)))
    chosen = sorted(episodes)[:PAPER_EPISODES]
    return [e[2] for e in chosen], [e[3] for e in chosen]
