"""Names of metrics for people: on axes, in tables, in the report and in the paper's figures."""

from __future__ import annotations

SCORES = ("average_reward", "episode_return", "episode_average_reward")
"""Metrics that settings are compared by."""
TRAINING = (
    "reward",
    "gain",
    "value_mean",
    "explained_variance",
    "kl",
    "entropy",
    "clip_fraction",
    "value_loss",
    "lambda",
    "terminations",
)
"""Columns of metrics.csv that the report draws."""
NAMES = {
    "average_reward": "average reward",
    "episode_return": "episode return",
    "episode_average_reward": "reward per step in episodes",
    "episode_length": "episode length",
    "reward": "reward per step while training",
    "gain": "gain (learned average reward)",
    "value_mean": "average value",
    "explained_variance": "explained variance",
    "kl": "KL divergence of a policy step",
    "entropy": "entropy of the policy",
    "clip_fraction": "fraction of clipped ratios",
    "value_loss": "value loss",
    "terminations": "terminations per step",
}


def is_drawn(column: str) -> bool:
    """Whether the report draws a column of metrics.csv: those above, and multipliers of costs."""
    return column in TRAINING or column.startswith("multiplier_")


def metric_name(metric: str) -> str:
    """The name of a column of evaluations.csv or metrics.csv."""
    if metric.startswith("cost_"):
        return f"{metric.removeprefix('cost_')} (cost per step)"
    if metric.startswith("multiplier_"):
        return f"multiplier of {metric.removeprefix('multiplier_')}"
    return NAMES.get(metric, metric.replace("_", " "))
