"""Errors that end a training: non-finite values, and masks that forbid every choice."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from longrun.base.errors import EnvironmentFailure, NonFiniteError

FLAGS: dict[str, tuple[type[EnvironmentFailure], str]] = {
    "actions_finite": (
        NonFiniteError,
        "the policy network of {who} gave an action that is not finite for an observation that is,"
        " in iteration {iteration}; check policy_network, if it is your own",
    ),
    "environment_finite": (
        NonFiniteError,
        "an observation or reward of {who} was not finite in iteration {iteration}; the environment"
        " must return finite numbers",
    ),
    "mask_allows": (
        EnvironmentFailure,
        "the action mask of {who} forbids every choice somewhere in iteration {iteration}; let each"
        " mask allow at least one choice of each component",
    ),
} | {
    f"{what}_finite": (
        NonFiniteError,
        f"the {what} of {{who}} became non-finite in iteration {{iteration}}{{odd}}; try a lower"
        " learning_rate, or scale_rewards=True if it is not set; a network of your own must return"
        " finite numbers",
    )
    for what in ("criterion", "policy", "value")
}
"""Metrics that are 0 where something is wrong, and what is then said."""


def without_flags(metrics: Mapping[str, float]) -> dict[str, float]:
    """The metrics that are reported: all but the flags."""
    return {name: float(value) for name, value in metrics.items() if name not in FLAGS}


def require_healthy(metrics: Mapping[str, float], replica: int, seed: int, iteration: int) -> None:
    """Raise NonFiniteError or EnvironmentFailure if a flag among the metrics is not set."""
    for flag, (kind, message) in FLAGS.items():
        if not metrics.get(flag, True):
            who = f"replica {replica} (seed {seed})"
            odd = [f"{n} {v}" for n, v in without_flags(metrics).items() if not math.isfinite(v)]
            trace = f" ({', '.join(odd)})" if odd else ""
            raise kind(message.format(who=who, iteration=iteration, odd=trace))


def require_finite_rewards(reward: ArrayLike, who: str, iteration: int) -> None:
    """Raise NonFiniteError if a reward of an evaluation is not finite."""
    if not np.isfinite(reward).all():
        raise NonFiniteError(
            f"a reward of {who} was not finite in the evaluation after iteration {iteration}; the"
            " environment must return finite numbers"
        )
