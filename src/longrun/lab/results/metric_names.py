"""Names of metrics for people: on axes, in tables, in the report and in the paper's figures."""

from __future__ import annotations

SCORES = ("average_reward", "episode_return", "episode_average_reward")
"""Metrics that settings are compared by."""
TRAINING = {
    "reward": "reward per step while training",
    "gain": "gain (learned average reward)",
    "value_mean": "average value",
    "explained_variance": "explained variance",
    "kl": "KL divergence of a policy step",
    "entropy": "entropy of the policy",
    "clip_fraction": "fraction of clipped ratios",
    "value_loss": "value loss",
    "lambda": "lambda",
    "terminations": "terminations per step",
}
"""Columns of metrics.csv that the report draws."""


def is_drawn(column: str) -> bool:
    """Whether the report draws a column of metrics.csv: those above, and multipliers of costs."""
    return column in TRAINING or column.startswith("multiplier_")


def metric_name(metric: str) -> str:
    """The name of a column of evaluations.csv or metrics.csv."""
    if metric.startswith("cost_"):
        return f"{metric.removeprefix('cost_')} (cost per step)"
    if metric.startswith("multiplier_"):
        return f"multiplier of {metric.removeprefix('multiplier_')}"
    if metric == "episode_average_reward":
        return "reward per step in episodes"
    return TRAINING.get(metric, metric.replace("_", " "))
