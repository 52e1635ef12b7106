"""Presets: named sets of options, and a description of each."""

from __future__ import annotations

from typing import Any

PRESETS: dict[str, dict[str, Any]] = {
    "tuned": {},  # the defaults: chosen on MuJoCo tasks, seeds 100 and above (results/tuned.md)
    "paper": {  # where the paper is silent: docs/decisions/001-what-the-paper-leaves-open.md
        "gae_lambda": 0.95,
        "adaptive_lambda": False,
        "num_envs": 10,
        "rollout_steps": 200,
        "minibatch_size": 100,
        "epochs": 10,
        "normalize_observations": False,
        "normalize_advantages": False,
        "scale_rewards": False,
        "learning_rate_decay": False,
        "entropy_coefficient": 0.01,
        "initial_log_std": 0.0,
        "action_bounds": "raw",
        "termination": "zero",
        "reset_cost_step_size": 0.0,
    },
    "queueing": {  # chosen on criss-cross and six-class networks (benchmarks/queueing.py)
        "gae_lambda": 0.95,
        "adaptive_lambda": False,
        "num_envs": 1024,
        "rollout_steps": 256,
        "minibatch_size": 16384,
        "epochs": 4,
        "learning_rate": 5e-4,
        "normalize_observations": False,
        "initial_log_std": 0.0,
        "termination": "zero",
        "reset_cost_step_size": 0.0,
    },
}
"""What a preset changes of the defaults; options that an algorithm does not have are left out."""

DEFAULT = "tuned"
"""The preset of everything but the paper's experiments. Folder names and labels leave it out."""
PRESETS_IN_WORDS = {
    "paper": "the paper's settings",
    "tuned": "normalisation, learning-rate decay, and for the average reward a lambda and a reset"
    " cost that adapt; for control tasks",
    "queueing": "1024 environments and scaled rewards, for jax: queueing networks",
}
