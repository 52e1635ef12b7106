"""What an evaluation has found."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple


class CostRate(NamedTuple):
    """A cost per step, with its 95 % interval."""

    rate: float
    low: float
    high: float


@dataclass(frozen=True)
class EvaluationReport:
    """Results of a policy in the long run, resets included (see `long_run_rate`)."""

    average_reward: float
    """reward per step: the estimate of the gain"""
    low: float
    """lower end of the 95 % interval of the average reward"""
    high: float
    """upper end of that interval"""
    episode_return: float
    """mean return of the first episodes of all environments, 10 if there are enough (the paper's);
    NaN if one of the firsts did not end, since long episodes would be missing"""
    episode_length: float
    """mean length of the same episodes"""
    episodes: int
    """the number of these episodes"""
    steps: int
    """all that count"""
    warmup: int = 0
    """steps of each environment, before these, that do not count"""
    settled: bool = True
    """False if the steps cannot tell the long run: rewards or costs still changed at their end;
    fewer than 64 steps of each environment are not judged"""
    costs: dict[str, CostRate] = field(default_factory=dict)
    """the long-run average of each recorded cost"""
    episode_return_std: float = math.nan
    """standard deviation of these returns; NaN with fewer than two episodes"""
    unfinished: int = 0
    """environments whose first episode did not end, where those of others did"""
    deterministic: bool = True
    """False if actions were drawn, as they are with limits on costs"""

    @property
    def episode_average_reward(self) -> float:
        """Reward per step within those episodes, the paper's second metric."""
        return self.episode_return / self.episode_length

    @property
    def unsettled(self) -> str:
        """What still changes, if `settled` is False."""
        what = "rewards or costs" if self.costs else "rewards"
        if self.episodes or self.unfinished:
            return f"the {what} still change with the age of an episode, and many were cut off"
        return f"the {what} still change after {self.warmup} steps of each environment"

    def __str__(self) -> str:
        rate = f"{self.average_reward:.4g} per step [{self.low:.4g}, {self.high:.4g}]"
        costs = "".join(
            f", {name} {cost.rate:.4g} per step [{cost.low:.4g}, {cost.high:.4g}]"
            for name, cost in self.costs.items()
        )
        after = f" after a warm-up of {self.warmup} in each environment" if self.warmup else ""
        over = f" over {self.steps} steps{after}"
        drawn = "" if self.deterministic else ", actions drawn"
        still = "" if self.settled else "; the rewards have not settled, give more steps"
        return f"average reward {rate}{over}, {self._episodes_text()}{costs}{drawn}{still}"

    def _episodes_text(self) -> str:
        if self.unfinished:
            return f"no episode return, since first episodes did not end ({self.unfinished})"
        if not self.episodes:
            return "no episode ended"
        count, spread = "first episode", ""
        if self.episodes > 1:
            count, spread = f"first {self.episodes} episodes", f" +- {self.episode_return_std:.3g}"
        return (
            f"episode return {self.episode_return:.4g}{spread} over the {count},"
            f" of {self.episode_length:.4g} steps"
        )
