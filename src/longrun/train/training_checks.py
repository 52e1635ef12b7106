"""What stops a run, or makes it worth a word: numbers that are none, masks, constant rewards."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence

from longrun.config import Average, Config
from longrun.errors import InputError, NonFiniteError

FINITE = {f"{what}_finite": what for what in ("criterion", "policy", "value")}
FLAGS = ("environment_finite", "mask_allows", *FINITE)


def without_flags(metrics: Mapping[str, float]) -> dict[str, float]:
    """The metrics that are worth a row."""
    return {name: float(value) for name, value in metrics.items() if name not in FLAGS}


def require_healthy(metrics: Mapping[str, float], replica: int, seed: int, iteration: int) -> None:
    """An error where one of the flags among an iteration's metrics is down."""
    who = f"replica {replica} (seed {seed})"
    if not metrics.get("environment_finite", True):
        raise InputError(
            f"an observation or reward of {who} was not finite in iteration {iteration}; the"
            " environment has to give numbers"
        )
    if not metrics.get("mask_allows", True):
        raise InputError(
            f"the action mask of {who} forbids every choice somewhere in iteration {iteration}; let"
            " each mask allow at least one choice of each component"
        )
    for flag, what in FINITE.items():
        if not metrics.get(flag, True):
            odd = [f"{n} {v}" for n, v in without_flags(metrics).items() if not math.isfinite(v)]
            trace = f" ({', '.join(odd)})" if odd else ""
            raise NonFiniteError(
                f"the {what} of {who} became non-finite in iteration {iteration}{trace}; try a"
                " lower learning_rate or scale_rewards=True"
            )


class ConstantRewardWatch:
    """Warns once where the average criterion cannot tell policies apart."""

    def __init__(self, configs: Sequence[Config]) -> None:
        self._rewards: set[float] = set()
        self._watching = any(
            isinstance(config, Average) and not (config.reset_cost or config.reset_cost_step_size)
            for config in configs
        )

    def look(self, metrics: Mapping[str, float]) -> None:
        if not self._watching:
            return
        low, high = metrics["reward_min"], metrics["reward_max"]
        self._rewards |= {low, high}
        self._watching = len(self._rewards) == 1
        if self._watching and metrics["terminations"]:
            self._watching = False
            warnings.warn(
                f"every reward so far was {low:g}: all policies have the same reward rate, so the"
                " average criterion cannot rank them unless resets cost something; set"
                " termination='reset' and reset_cost (or reset_cost_step_size)",
                UserWarning,
                stacklevel=2,
            )
