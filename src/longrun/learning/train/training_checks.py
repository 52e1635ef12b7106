"""Checks of each iteration: non-finite values, empty masks, constant rewards, limits not kept."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from longrun.base.errors import EnvironmentFailure, NonFiniteError, users_level
from longrun.learning.envs.spaces import Array
from longrun.learning.options.config import TERMINATED, Average, Config

FINITE = {f"{what}_finite": what for what in ("criterion", "policy", "value")}
FLAGS = ("actions_finite", "environment_finite", "mask_allows", *FINITE)
WATCHED = ("recovering", "reward_min", "reward_max", "terminations")
"""Metrics that the watches read, besides the costs."""


def without_flags(metrics: Mapping[str, float]) -> dict[str, float]:
    """The metrics that are reported: all but the flags."""
    return {name: float(value) for name, value in metrics.items() if name not in FLAGS}


def require_healthy(metrics: Mapping[str, float], replica: int, seed: int, iteration: int) -> None:
    """Raise NonFiniteError or EnvironmentFailure if a flag among the metrics is not set."""
    who = f"replica {replica} (seed {seed})"
    if not metrics.get("actions_finite", True):
        raise NonFiniteError(
            f"the policy network of {who} gave an action that is not finite for an observation that"
            f" is, in iteration {iteration}; check policy_network, if it is your own"
        )
    if not metrics.get("environment_finite", True):
        raise NonFiniteError(
            f"an observation or reward of {who} was not finite in iteration {iteration}; the"
            " environment must return finite numbers"
        )
    if not metrics.get("mask_allows", True):
        raise EnvironmentFailure(
            f"the action mask of {who} forbids every choice somewhere in iteration {iteration}; let"
            " each mask allow at least one choice of each component"
        )
    for flag, what in FINITE.items():
        if not metrics.get(flag, True):
            odd = [f"{n} {v}" for n, v in without_flags(metrics).items() if not math.isfinite(v)]
            trace = f" ({', '.join(odd)})" if odd else ""
            raise NonFiniteError(
                f"the {what} of {who} became non-finite in iteration {iteration}{trace}; try a"
                " lower learning_rate, or scale_rewards=True if it is not set; a network of your"
                " own must return finite numbers"
            )


def require_finite_rewards(reward: ArrayLike, who: str, iteration: int) -> None:
    """Raise NonFiniteError if a reward of an evaluation is not finite."""
    if not np.isfinite(reward).all():
        raise NonFiniteError(
            f"a reward of {who} was not finite in the evaluation after iteration {iteration}; the"
            " environment must return finite numbers"
        )


def watch_all(
    watches: Sequence[LimitWatch | ConstantRewardWatch], log: Mapping[str, Array], steps: int
) -> None:
    """Show every iteration of a call to the watches; log: columns [K, R], of which `steps` count.

    Not by its events: in long runs these are of some iterations only.
    """
    watches = [watch for watch in watches if watch.watching]
    if not watches:
        return
    columns = {name: log[name] for name in log if name in WATCHED or name.startswith("cost_")}
    for row, replica in np.ndindex(steps, log["reward_min"].shape[1]):
        metrics = {name: float(values[row, replica]) for name, values in columns.items()}
        for watch in watches:
            watch.check(replica, metrics)


class LimitWatch:
    """Warns once for each replica and cost if a limit seems to be out of reach.

    That is said after `PATIENCE` iterations in a row in which the policy was improved for the costs
    alone (`recovering`: a multiplier at its bound, or recovering trust-region steps).
    """

    PATIENCE = 100

    def __init__(self, configs: Sequence[Config]) -> None:
        self._limits = [dict(config.limits) for config in configs]
        self.watching = any(self._limits)
        self._iterations = [0] * len(configs)
        self._named: set[tuple[int, str]] = set()

    def check(self, replica: int, metrics: Mapping[str, float]) -> None:
        """Take in one iteration's metrics of a replica, and warn if it is time to."""
        recovers = bool(metrics.get("recovering", 0))
        self._iterations[replica] = self._iterations[replica] + 1 if recovers else 0
        if self._iterations[replica] < self.PATIENCE:
            return
        for name, limit in self._limits[replica].items():
            rate = metrics[f"cost_{name}"]
            if rate > limit and (replica, name) not in self._named:
                self._named.add((replica, name))
                warnings.warn(
                    f"cost '{name}' is {rate:.4g} and its limit is {limit:g}, after"
                    f" {self.PATIENCE} iterations in which replica {replica} only lowered costs; no"
                    " policy may keep it: raise the limit",
                    UserWarning,
                    stacklevel=users_level(),
                )


class ConstantRewardWatch:
    """Warns once if all rewards are equal, so that the average criterion cannot rank policies.

    Where episodes terminate, a reset cost or a limit can; elsewhere nothing can, which is said
    after `PATIENCE` iterations of a replica: the reward may be rare.
    """

    PATIENCE = 10

    def __init__(self, configs: Sequence[Config]) -> None:
        self._rewards: set[float] = set()
        self._iterations = [0] * len(configs)
        averages = [config for config in configs if isinstance(config, Average)]
        self.watching = bool(averages)
        self._resets_cost = all(
            c.reset_cost or c.reset_cost_step_size or TERMINATED in dict(c.limits) for c in averages
        )

    def check(self, replica: int, metrics: Mapping[str, float]) -> None:
        """Take in one iteration's metrics of a replica, and warn if it is time to."""
        if not self.watching:
            return
        low, high = metrics["reward_min"], metrics["reward_max"]
        self._rewards |= {low, high}
        self.watching = len(self._rewards) == 1
        self._iterations[replica] += 1
        is_time = self._iterations[replica] == self.PATIENCE
        if self.watching and is_time and not metrics["terminations"]:
            self.watching = False
            warnings.warn(
                f"every reward so far was {low:g} and no episode has terminated: no policy is"
                " better than another; check the environment's reward, unless another one is rare",
                UserWarning,
                stacklevel=users_level(),
            )
        if self.watching and metrics["terminations"]:
            self.watching = False
            if self._resets_cost:
                return
            warnings.warn(
                f"every reward so far was {low:g}: all policies have the same reward rate, so the"
                " average criterion cannot rank them unless resets cost something; set"
                " termination='reset' and reset_cost (or reset_cost_step_size)",
                UserWarning,
                stacklevel=users_level(),
            )
