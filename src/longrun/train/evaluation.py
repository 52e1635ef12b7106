"""Evaluation: the average reward with a confidence interval, and the paper's episode metrics."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

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


@dataclass(frozen=True)
class EvaluationReport:
    """Results of a policy over a fixed number of steps, resets included."""

    average_reward: float
    """reward per step: the estimate of the gain"""
    low: float
    high: float
    """batch-means 95 % interval of the average reward"""
    episode_return: float
    """mean return of up to 10 finished episodes; NaN when none ended"""
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

    @property
    def episode_average_reward(self) -> float:
        """Reward per step within those episodes, the paper's second metric."""
        return self.episode_return / self.episode_length

    def __str__(self) -> str:
        rate = f"{self.average_reward:.4g} per step [{self.low:.4g}, {self.high:.4g}]"
        if not self.episodes:
            after = f" after a warm-up of {self.warmup}" if self.warmup else ""
            still = "" if self.settled else "; the rewards have not settled, give more steps"
            return f"average reward {rate} over {self.steps} steps{after}, no episode ended{still}"
        return (
            f"average reward {rate}, episode return {self.episode_return:.4g}"
            f" over {self.episodes} episodes of {self.episode_length:.4g} steps"
        )


def report(reward: Array, ended: Array, warmup: int = 0, settled: bool = True) -> EvaluationReport:
    """The report on S steps of E independent environments: rewards [S, E], episode ends [S, E].

    The first `warmup` rows count for the episodes that begin in them, and not for the rate.
    """
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
    )


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
    reach: Array = stdtrit(n - 1, (1 + confidence) / 2) * error
    return reach


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
